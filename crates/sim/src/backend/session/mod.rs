//! A session: its transaction, its state, its statements and portals, its place at the server. It knows no messages.
//!
//! ```text
//!   run         the effects of a statement
//!   extended    the effects of Parse, Bind, Describe and Close
//!   settings, kept, lasting    statements by what of `state` they change or show
//!   transaction, prepared, portals, seat    parts with rules of their own
//! ```

mod extended;
mod kept;
mod lasting;
mod portals;
mod prepared;
mod run;
mod seat;
mod settings;
mod transaction;

use std::cell::RefCell;
use std::rc::Rc;

use wire::backend::Status;

use crate::book::Book;
use crate::parameters::{self, Values};
use crate::settings::SettingRefusal;
use crate::shared::{Notice, Server};
use crate::state::{Moment, State};
use crate::statement::Mark;

use super::answer::{Done, refused, said};
use super::reported;
use portals::Portals;
use prepared::{Prepared, Statements};
use seat::Registration;
use transaction::Transaction;

pub(super) use portals::Portal;
pub(super) use run::Ran;

/// A session at its server.
#[derive(Debug)]
pub struct Session {
    transaction: Transaction,
    statements: Statements,
    portals: Portals,
    registration: Registration,
}

impl Session {
    /// A session of `login` that begins with these parameters.
    pub(super) fn new(server: &Server, values: Values, login: &str) -> Session {
        Session {
            transaction: Transaction::new(State::new(parameters::settings(values), login)),
            statements: Statements::default(),
            portals: Portals::default(),
            registration: Registration::new(server),
        }
    }

    pub(super) fn ready(&mut self) {
        self.transaction.state_mut().ready();
    }

    pub(super) fn begin_with(&mut self, begins: &[(&str, &str)]) {
        self.transaction.state_mut().begin_with(begins);
    }

    /// The same session at another server: it has its settings, and what SQL has prepared.
    ///
    /// # Errors
    /// It had state that cannot be there.
    pub(super) fn moved(&self) -> Result<Session, String> {
        let transaction = Transaction::new(self.state().moved()?);
        let (statements, seat) = (self.statements.of_sql(), self.registration.another());
        seat.listen(&transaction.state().kept().channels);
        Ok(Session { transaction, statements, portals: Portals::default(), registration: seat })
    }

    /// The session is in a transaction block whose server was lost.
    pub(super) fn fail_block(&mut self) {
        self.transaction.begin();
        self.transaction.fail();
    }

    pub(super) fn set_pid(&mut self, pid: i32) {
        self.registration.set_pid(pid);
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.transaction.status()
    }

    /// The current values of the reported parameters.
    #[must_use]
    pub fn values(&self) -> Values {
        reported::values(self.state())
    }

    /// Whether setseed was called.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.state().lasting().seed.is_some()
    }

    /// Whether it listens to a channel, by its committed LISTENs.
    #[must_use]
    pub fn listens_to(&self, channel: &str) -> bool {
        self.state().kept().channels.contains(channel)
    }

    #[must_use]
    pub fn has_statement(&self, name: &[u8]) -> bool {
        self.statements.get(name).is_some()
    }

    /// Whether a statement gets its mark from each Bind, so that it may be bound again.
    #[must_use]
    pub fn takes_mark(&self, name: &[u8]) -> bool {
        self.statements.get(name).is_some_and(Prepared::takes_mark)
    }

    /// Whether SQL's EXECUTE finds a statement of this name that returns rows.
    #[must_use]
    pub fn is_executable(&self, name: &[u8]) -> bool {
        self.statements.get(name).is_some_and(Prepared::is_executable)
    }

    #[must_use]
    pub fn has_portal(&self, name: &[u8]) -> bool {
        self.portals.get(name).is_some()
    }

    pub(super) fn state(&self) -> &State {
        self.transaction.state()
    }

    pub(super) fn moment(&self) -> Moment {
        self.state().moment()
    }

    pub(super) fn book(&self) -> Rc<RefCell<Book>> {
        self.registration.book()
    }

    /// Notifications for its client.
    pub(super) fn take_notifications(&self) -> Vec<Notice> {
        self.registration.take_notifications()
    }

    /// COMMIT or ROLLBACK. Returns the command tag: a failed transaction is rolled back.
    fn end(&mut self, commits: bool) -> &'static str {
        let commits = commits && self.status() != Status::Failed;
        if commits {
            self.commit();
        } else {
            self.transaction.roll_back();
        }
        self.portals.clear();
        if commits { "COMMIT" } else { "ROLLBACK" }
    }

    /// The end of a query or of a batch outside of a transaction block: what was done is committed.
    pub(super) fn end_implicit(&mut self) {
        self.commit();
        self.portals.clear();
    }

    fn commit(&mut self) {
        let notices = self.transaction.commit();
        self.registration.listen(&self.state().kept().channels);
        self.registration.notify(notices);
    }

    /// A statement or message has failed.
    pub(super) fn fail(&mut self) {
        self.transaction.fail();
        if !self.transaction.is_open() {
            self.portals.clear();
        }
    }

    fn discard_all(&mut self) -> Done {
        if self.transaction.is_open() {
            return refused("25001", "DISCARD ALL cannot run inside a transaction block");
        }
        self.registration.unlock_all();
        self.transaction.state_mut().discard_all();
        self.statements.forget_named();
        self.portals.clear();
        // An error behind it in the same batch undoes nothing of it.
        self.commit();
        said("DISCARD ALL")
    }
}

/// The text in the rows of a table or cursor that says which statement made it.
fn maker(mark: Option<Mark>) -> String {
    mark.map_or_else(|| "nobody".to_owned(), |mark| mark.text())
}

/// An error with a fixed text.
pub(super) fn refusal(code: &'static str, text: &str) -> SettingRefusal {
    (code, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::DEFAULTS;
    use crate::statement::Body;

    fn session(server: &Server) -> Session {
        Session::new(server, DEFAULTS, "user1")
    }

    fn run(session: &mut Session, text: &str) -> Result<String, &'static str> {
        let mut out = Vec::new();
        let ran = session.run(&Body::parse(text), None, false, &mut out);
        ran.map(|_| out.escape_ascii().to_string()).map_err(|(code, _)| code)
    }

    #[test]
    fn a_failed_transaction_ends_in_a_rollback_whatever_is_asked() {
        let mut session = session(&Server::default());
        assert!(run(&mut session, "begin").is_ok());
        assert!(run(&mut session, "set work_mem = '8MB'").is_ok());
        assert_eq!(run(&mut session, "select 1/0"), Err("22012"));
        session.fail();
        assert_eq!((session.status(), session.state().setting("work_mem")), (Status::Failed, "4MB"));
        assert_eq!(run(&mut session, "commit"), Ok(r"C\x00\x00\x00\rROLLBACK\x00".to_owned()));
        assert_eq!(session.status(), Status::Idle);
    }

    #[test]
    fn a_session_moves_with_its_settings_and_what_sql_has_prepared() {
        let server = Server::default();
        let mut session = session(&server);
        for text in ["set work_mem = '8MB'", "prepare q as select 1 0", "listen news"] {
            assert!(run(&mut session, text).is_ok(), "{text}");
        }
        session.end_implicit();
        let moved = session.moved().expect("all of it can be there");
        assert!(moved.is_executable(b"q") && moved.listens_to("news"));
        assert_eq!(moved.state().setting("work_mem"), "8MB");
        assert!(run(&mut session, "select pg_advisory_lock(7)").is_ok());
        assert!(session.moved().is_err(), "a lock is held where it was taken");
    }
}
