//! The effects of statements, and the answers to them.

use wire::backend;

use super::super::answer::{Done, refused, said, selected};
use super::super::rows;
use super::{Session, kept, lasting, maker, settings};
use crate::command::Command;
use crate::settings::SettingRefusal;
use crate::statement::{Body, Mark};

/// The outcome of a statement that has not failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Ran {
    Done,
    /// It takes so many microseconds before it has rows.
    Sleeps(u64),
    /// It expects copy data.
    CopiesIn,
}

impl Session {
    /// Runs a statement and writes its rows and its CommandComplete to `out`. `described`: rows come with their
    /// description.
    ///
    /// # Errors
    /// The statement fails, and `out` is as it was.
    pub(in crate::backend) fn run(
        &mut self,
        body: &Body,
        mark: Option<Mark>,
        described: bool,
        out: &mut Vec<u8>,
    ) -> Result<Ran, SettingRefusal> {
        let tag = match body {
            Body::Sleep { micros } => return Ok(Ran::Sleeps(*micros)),
            Body::CopyIn => {
                backend::encode_copy_in(out, 1);
                return Ok(Ran::CopiesIn);
            }
            Body::Begin => {
                self.transaction.begin();
                "BEGIN"
            }
            Body::Commit => self.end(true),
            Body::Rollback => self.end(false),
            Body::Widen(table) => {
                self.registration.add_column(table);
                "ALTER TABLE"
            }
            answered => {
                self.answer(answered, mark, described, out)?;
                return Ok(Ran::Done);
            }
        };
        backend::encode_command_complete(out, tag);
        Ok(Ran::Done)
    }

    /// Whether a statement can be run in the transaction as it is.
    ///
    /// # Errors
    /// The transaction has failed, and the statement does not end it.
    pub(in crate::backend) fn admit(&self, body: &Body) -> Result<(), SettingRefusal> {
        self.transaction.admit(body)
    }

    /// The answer to a statement that neither sleeps nor copies.
    fn answer(
        &mut self,
        body: &Body,
        mark: Option<Mark>,
        described: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SettingRefusal> {
        match body {
            Body::Empty => backend::encode_empty_query(out),
            Body::Fail => {
                let mark = mark.map_or_else(String::new, |mark| mark.text());
                return refused("22012", format!("division by zero {mark}"));
            }
            Body::Select { rows, len } => rows::encode_all(mark, *rows, *len, out),
            Body::Wide(table) => {
                let columns = self.registration.columns(table);
                rows::describe_columns(columns, out);
                rows::encode_wide(mark, columns, out);
            }
            Body::CopyOut { rows, len } => rows::encode_copy(mark, *rows, *len, out),
            Body::Command(command) => self.obey(command, mark)?.encode(described, out),
            _ => return refused("42601", "syntax error"),
        }
        Ok(())
    }

    fn obey(&mut self, command: &Command, mark: Option<Mark>) -> Done {
        match command {
            Command::Set { .. }
            | Command::Reset(_)
            | Command::ResetAll
            | Command::Characteristics(_)
            | Command::Show(_)
            | Command::SetConfig { .. }
            | Command::CurrentSetting(_)
            | Command::Users => settings::obey(self.transaction.state_mut(), command),
            Command::Savepoint(_) | Command::Release(_) | Command::RollbackTo(_) => self.transaction.savepoint(command),
            Command::Prepare { .. } | Command::Execute(_) | Command::Deallocate(_) | Command::Prepared => {
                self.statements.obey(command, mark)
            }
            Command::CreateTemporary { .. }
            | Command::Insert(_)
            | Command::Drop(_)
            | Command::Table(_)
            | Command::DiscardTemporary => kept::tables(self.transaction.state_mut(), command, maker(mark)),
            Command::Declare { name, hold: false, .. } if !self.transaction.is_open() => {
                refused("25P01", format!("DECLARE CURSOR of {name} can only be used in transaction blocks"))
            }
            Command::Declare { .. } | Command::Fetch { .. } | Command::Close(_) | Command::Cursors => {
                lasting::cursors(self.transaction.state_mut(), command, maker(mark))
            }
            Command::Lock { .. } | Command::Unlock(_) | Command::UnlockAll | Command::Locks => {
                lasting::locks(self.transaction.state_mut(), &self.registration, command)
            }
            Command::Listen(_) | Command::Unlisten(_) | Command::Notify { .. } | Command::Channels => {
                kept::channels(self.transaction.state_mut(), command)
            }
            Command::Next(_) | Command::Current(_) | Command::Last | Command::DiscardSequences => {
                lasting::sequences(self.transaction.state_mut(), &self.registration, command)
            }
            Command::Load(_) | Command::Seed(_) | Command::Random => {
                lasting::process(self.transaction.state_mut(), command)
            }
            Command::Call(inner) => {
                self.obey(inner, mark)?;
                selected([String::new()])
            }
            Command::Check { settings, names } => Ok(settings::check(self.state(), *settings, names)),
            Command::Catalogue { poll: true } => selected(["1".to_owned()]),
            Command::Catalogue { poll: false } => selected([]),
            Command::DiscardAll => self.discard_all(),
            Command::DiscardPlans => said("DISCARD PLANS"),
        }
    }
}
