//! A connection that is asked one statement after another.
//!
//! Promises that one that is gone, or whose server is silent, is not asked again: whoever reads many parts waits once.

use std::time::Duration;

use ::doctor::reading::Answer;
use ask::{Monitor, Target};

/// How a console and PostgreSQL see us.
const NAME: &str = "pgweir doctor";

/// For the connection, and for each answer; statements have a shorter limit of their own.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Session {
    monitor: Monitor,
    /// Why nobody answers any more.
    gone: Option<String>,
}

impl Session {
    /// Logs in, and says these statements.
    ///
    /// # Errors
    /// In the server's words.
    pub(super) fn open(target: &Target, preparation: &[&str]) -> Result<Session, String> {
        let mut monitor = Monitor::connect(target, NAME, PATIENCE)?;
        for statement in preparation {
            monitor.ask(statement)?;
        }
        Ok(Session { monitor, gone: None })
    }

    /// # Errors
    /// In the server's words, with its SQLSTATE in front of them; or that it is gone.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Answer, String> {
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        match self.monitor.table(sql) {
            Ok((names, rows)) => Ok(Answer { names, rows }),
            Err(why) => {
                self.gone = (!has_sqlstate(&why)).then(|| why.clone());
                Err(why)
            }
        }
    }
}

/// Then the server has answered, and may answer again.
fn has_sqlstate(why: &str) -> bool {
    let code = why.split(':').next().unwrap_or_default();
    code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_server_is_told_from_its_silence() {
        assert!(has_sqlstate("42501: permission denied"));
        assert!(!has_sqlstate("no answer: timed out") && !has_sqlstate("the server closed the connection"));
    }
}
