//! What a server is asked that no command tag tells, and how far that is.
//!
//! Promises: a server is asked once after a client's answer, and again only after the client has been answered something
//! more. Does not judge the answer.

use std::collections::BTreeSet;

use units::limits;

use crate::state::check::Check;
use crate::state::effects::is_identity;
use crate::state::{Base, Pins};

/// What is to be asked, and was.
#[derive(Debug, Default)]
pub struct Inspection {
    stage: Stage,
    /// What the server has answered to the check.
    row: Option<Box<[u8]>>,
    /// Settings whose values are to be queried.
    unread: BTreeSet<Box<[u8]>>,
}

#[derive(Debug, Default)]
enum Stage {
    /// Not asked since the client was answered last.
    #[default]
    Due,
    UnderWay(CheckUnderWay),
    /// Answered, or in vain: the same question would have the same answer, until the client has asked for something more.
    Over,
}

/// A question.
#[derive(Debug)]
pub(super) struct CheckUnderWay {
    pub(super) check: Check,
    /// What it is to tell.
    pub(super) checked: Pins,
    /// How much of that was suspected, or known.
    pub(super) suspected: Pins,
}

impl Inspection {
    /// A setting's value is to be queried. False: not this one's, or there are too many.
    pub(super) fn query_setting(&mut self, name: &[u8]) -> bool {
        if self.unread.contains(name) {
            return true;
        }
        let fits = name.is_ascii() && name.len() <= limits::PARAMETER_LEN_MAX && self.unread.len() < limits::UNREAD_MAX;
        fits && self.unread.insert(name.into())
    }

    /// Whether a setting is to be queried for which this is so.
    pub(super) fn queries_any(&self, is_so: impl Fn(&[u8]) -> bool) -> bool {
        self.unread.iter().any(|name| is_so(name))
    }

    /// Settings that are to be queried, of a tracker that moves to another process, and the same there.
    pub(super) fn still_unread(&self) -> &BTreeSet<Box<[u8]>> {
        &self.unread
    }

    pub(super) fn with_unread(unread: BTreeSet<Box<[u8]>>) -> Inspection {
        Inspection { unread, ..Inspection::default() }
    }

    pub(super) fn is_due(&self) -> bool {
        matches!(self.stage, Stage::Due)
    }

    /// The server is sent the check, with the settings that are to be queried.
    pub(super) fn begin(&mut self, wanted: Pins, suspected: Pins, is_hasty: bool, base: &Base) -> Check {
        let mut names = std::mem::take(&mut self.unread);
        let is_listed = wanted.any(Pins::LISTED);
        if is_listed {
            names.extend(base.dotted().map(Box::from));
        }
        // PostgreSQL shows `none`, and the login's name, where nothing is set.
        let (identity, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_identity(name));
        let with_identity = is_listed || !identity.is_empty();
        let check = Check { with_settings: is_listed, with_identity, is_hasty, names, ..Check::default() };
        self.stage = Stage::UnderWay(CheckUnderWay { check: check.clone(), checked: wanted, suspected });
        check
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::UnderWay(_))
    }

    /// What code has set or reset is not known yet: it was not asked for, or not answered. `suspects`: what the server was not asked about.
    pub fn awaits_listing(&self, suspects: Pins) -> bool {
        suspects.any(Pins::SETTINGS) || matches!(&self.stage, Stage::UnderWay(asked) if asked.check.with_settings)
    }

    /// The same, and the answer is to come before the session's next statement.
    pub fn lists_soon(&self, suspects: Pins) -> bool {
        !matches!(self.stage, Stage::Over) && self.awaits_listing(suspects)
    }

    /// A DataRow of the answer has come; its end may lie in what is read later.
    pub fn check_row(&mut self, row: &[u8]) {
        self.row = Some(row.into());
    }

    /// The server has answered: the question, and the row if one came. `None`: it was asked nothing.
    pub(super) fn answered(&mut self) -> Option<(CheckUnderWay, Option<Box<[u8]>>)> {
        let row = self.row.take();
        if !self.is_under_way() {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::UnderWay(asked) => Some((asked, row)),
            Stage::Due | Stage::Over => None,
        }
    }

    /// The answer could not be read: these settings are still to be queried.
    pub(super) fn query_again(&mut self, names: Vec<Box<[u8]>>) {
        self.unread.extend(names);
    }

    /// The client's ReadyForQuery.
    pub(super) fn ready(&mut self) {
        if matches!(self.stage, Stage::Over) {
            self.stage = Stage::Due;
        }
    }

    /// The server is gone.
    pub(super) fn lost(&mut self) {
        self.stage = Stage::Due;
    }

    /// Settings that are to be asked for.
    #[cfg(test)]
    pub(super) fn unread(&self) -> Vec<&str> {
        self.unread.iter().map(|name| std::str::from_utf8(name).expect("tests have ASCII names")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::base::LOGIN;

    #[test]
    fn a_server_is_asked_once_until_the_client_has_another_answer() {
        let mut inspection = Inspection::default();
        assert!(inspection.is_due() && inspection.answered().is_none());
        let check = inspection.begin(Pins::HOLD, Pins::HOLD, false, &LOGIN);
        assert!(inspection.is_under_way() && !inspection.is_due());
        inspection.check_row(b"row");
        let (asked, row) = inspection.answered().expect("it was asked");
        assert_eq!((asked.check, row.as_deref()), (check, Some(&b"row"[..])));
        assert!(!inspection.is_due() && inspection.answered().is_none());
        inspection.ready();
        assert!(inspection.is_due());
        inspection.begin(Pins::HOLD, Pins::HOLD, false, &LOGIN);
        inspection.ready();
        assert!(inspection.is_under_way(), "the answer under way is awaited");
        inspection.lost();
        assert!(inspection.is_due());
    }

    #[test]
    fn a_role_is_not_asked_for_as_a_setting() {
        let mut inspection = Inspection::default();
        assert!(inspection.query_setting(b"role") && inspection.query_setting(b"work_mem"));
        let check = inspection.begin(Pins::SETTINGS, Pins::SETTINGS, false, &LOGIN);
        assert!(check.with_identity && check.names == [Box::from(&b"work_mem"[..])]);
    }

    #[test]
    fn settings_are_asked_for_once_and_not_without_bound() {
        let mut inspection = Inspection::default();
        assert!(inspection.query_setting(b"app.user") && inspection.query_setting(b"app.user"));
        assert!(
            !inspection.query_setting("größe".as_bytes())
                && !inspection.query_setting(&[b'x'; limits::PARAMETER_LEN_MAX + 1])
        );
        let more =
            (0..).take_while(|number: &usize| inspection.query_setting(format!("app.{number}").as_bytes())).count();
        assert_eq!(more + 1, limits::UNREAD_MAX);
        assert!(inspection.query_setting(b"app.user"), "this one is wanted already");
        let check = inspection.begin(Pins::SETTINGS, Pins::SETTINGS, false, &LOGIN);
        assert_eq!(check.names.len(), limits::UNREAD_MAX);
        assert!(inspection.unread().is_empty());
        inspection.query_again(check.names);
        assert_eq!(inspection.unread().len(), limits::UNREAD_MAX);
    }
}
