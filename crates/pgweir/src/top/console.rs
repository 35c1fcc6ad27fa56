//! The console, asked on a thread of its own: it may be slow, or away, and keys must not wait for it.
//!
//! Promises to connect anew for the next question when the connection is gone, at any of its addresses. Bounded by
//! [`PATIENCE`] for each answer.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ::top::{Heard, Order, Table};
use ask::{Monitor, Target};

/// As other clients of the console are seen there.
const NAME: &str = "pgweir top";
/// For the connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the thread is to do.
pub(super) enum Errand {
    Answers(Vec<String>),
    Order(Order),
}

/// A connection that comes and goes.
pub(super) struct Console {
    targets: Vec<Target>,
    monitor: Option<Monitor>,
}

impl Console {
    pub(super) fn new(targets: Vec<Target>) -> Console {
        Console { targets, monitor: None }
    }

    /// Answers all that is wanted, until nobody listens.
    pub(super) fn serve(mut self) -> (Sender<Errand>, Receiver<Heard>) {
        let (wants, wanted) = channel();
        let (tells, told) = channel();
        thread::spawn(move || {
            for wanted in wanted {
                let heard = match wanted {
                    Errand::Answers(questions) => self.ask(questions),
                    Errand::Order(order) => {
                        let result = self.say(&order.sql());
                        Heard::Done(order, result.map(|_| ()))
                    }
                };
                if tells.send(heard).is_err() {
                    return;
                }
            }
        });
        (wants, told)
    }

    pub(super) fn ask(&mut self, questions: Vec<String>) -> Heard {
        let mut answers = Vec::new();
        for sql in questions {
            let answer = self.say(&sql);
            if self.monitor.is_none() {
                return Heard::Lost(answer.err().unwrap_or_default());
            }
            answers.push((sql, answer));
        }
        Heard::Answers(answers)
    }

    /// One statement. Without a connection afterwards the console was not reached.
    fn say(&mut self, sql: &str) -> Result<Table, String> {
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => none.insert(connected(&self.targets)?),
        };
        match monitor.table(sql) {
            Ok((names, rows)) => Ok(Table::new(&names, rows)),
            Err(why) => {
                if !has_sqlstate(&why) {
                    self.monitor = None;
                }
                Err(why)
            }
        }
    }
}

/// At the first address that answers.
fn connected(targets: &[Target]) -> Result<Monitor, String> {
    let mut last = String::new();
    for target in targets {
        match Monitor::connect(target, NAME, PATIENCE) {
            Ok(monitor) => return Ok(monitor),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Then the console has answered, and may answer again; 57P01 and its like are its last words.
//= pg18 errcodes-appendix
fn has_sqlstate(why: &str) -> bool {
    let code = why.split(':').next().unwrap_or_default();
    let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    is_code && !code.starts_with("57P") && !code.starts_with("08006")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_console_is_told_from_its_end() {
        assert!(has_sqlstate("08P01: invalid command 'SHOW QUERIES', use SHOW HELP;"));
        for gone in ["57P01: the pooler is shutting down", "no answer: timed out", "the server closed the connection"] {
            assert!(!has_sqlstate(gone), "{gone}");
        }
    }

    #[test]
    fn a_console_that_is_away_is_lost_and_asked_again() {
        let target = Target {
            address: None,
            host: "127.0.0.1".to_owned(),
            // Nobody listens there.
            port: 1,
            user: "dba".to_owned(),
            password: None,
            database: "pgbouncer".to_owned(),
            verifier: None,
            encryption: None,
        };
        let mut console = Console::new(vec![target]);
        for _ in 0..2 {
            assert!(
                matches!(console.ask(vec!["SHOW POOLS".to_owned()]), Heard::Lost(why) if why.contains("127.0.0.1"))
            );
        }
    }
}
