//! From an answer, or its absence, to the state of the host. Pure.
//!
//! | the host | it is |
//! |---|---|
//! | answers | alive, with its role |
//! | answers something else: its login is refused, or it has no place left | alive; its role stays what it was |
//! | starts, stops (57P01 to 57P03), refuses connections or ends them | failed |
//! | has not answered for `host_timeout` | silent |
//! | has not answered yet, or its name has no address | as it was |

use std::time::Duration;

use ask::{Is, Trouble};
use machine::HostState;
use units::Time;

use crate::facts::Facts;
use crate::pace::Came;

/// PostgreSQL ends, or does not let anybody in yet.
//= pg18 errcodes-appendix
const NOT_NOW: [&str; 3] = ["57P01", "57P02", "57P03"];

/// The observation to send, and how the question ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// `None`: nothing is known.
    pub(crate) state: Option<HostState>,
    pub(crate) how: Came,
}

/// `unanswered`: for how long it has not answered, with this question.
pub(crate) fn find(
    answer: &Result<Facts, Trouble>,
    (now, retry): (Time, Duration),
    (unanswered, timeout): (Duration, Option<Duration>),
) -> Finding {
    let finding = |state, how| Finding { state, how };
    let failed = Some(HostState::Failed { until: now + retry });
    let trouble = match answer {
        Ok(facts) => return finding(Some(HostState::Alive { role: Some(facts.role) }), Came::Answered),
        Err(trouble) => trouble,
    };
    match trouble.is {
        Is::Silent => match timeout {
            Some(timeout) if unanswered >= timeout => finding(Some(HostState::Silent), Came::Failed),
            Some(_) => finding(None, Came::Failed),
            None => finding(failed, Came::Failed),
        },
        // A worker that opens a server looks the name up, too.
        Is::Unresolved => finding(None, Came::Failed),
        Is::Failed => finding(failed, Came::Failed),
        Is::Answering => {
            let code = trouble.sqlstate.as_deref();
            if code.is_some_and(|code| NOT_NOW.contains(&code)) {
                return finding(failed, Came::Failed);
            }
            let how = match code {
                None => Came::Unknown,
                // Too many connections: PostgreSQL is alive, and to ask often would take those that become free.
                Some(code) if code.starts_with("53") => Came::Unknown,
                Some(_) => Came::Refused,
            };
            finding(Some(HostState::Alive { role: None }), how)
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::HostRole;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_way_to_answer_has_its_finding() {
        let facts = |role| Facts { role, system: None, timeline: None, position: None, started: None };
        let trouble =
            |is, code: Option<&str>| Err(Trouble { is, sqlstate: code.map(str::to_owned), words: String::new() });
        let failed = Some(HostState::Failed { until: Time(1_000_000) + 15 * SECOND });
        let table = [
            (Ok(facts(HostRole::Primary)), 0, Some(HostState::Alive { role: Some(HostRole::Primary) }), Came::Answered),
            (Ok(facts(HostRole::Standby)), 9, Some(HostState::Alive { role: Some(HostRole::Standby) }), Came::Answered),
            (trouble(Is::Answering, Some("28P01")), 0, Some(HostState::Alive { role: None }), Came::Refused),
            (trouble(Is::Answering, None), 0, Some(HostState::Alive { role: None }), Came::Unknown),
            (trouble(Is::Answering, Some("53300")), 0, Some(HostState::Alive { role: None }), Came::Unknown),
            (trouble(Is::Answering, Some("57P03")), 0, failed, Came::Failed),
            (trouble(Is::Failed, None), 0, failed, Came::Failed),
            (trouble(Is::Unresolved, None), 9, None, Came::Failed),
            (trouble(Is::Silent, None), 4, None, Came::Failed),
            (trouble(Is::Silent, None), 5, Some(HostState::Silent), Came::Failed),
        ];
        for (answer, unanswered, state, how) in table {
            let found = find(&answer, (Time(1_000_000), 15 * SECOND), (unanswered * SECOND, Some(5 * SECOND)));
            assert_eq!(found, Finding { state, how }, "{answer:?} after {unanswered} s");
        }
        let never = find(&trouble(Is::Silent, None), (Time(1_000_000), 15 * SECOND), (99 * SECOND, None));
        assert_eq!(never.state, failed, "without host_timeout it has merely failed");
    }
}
