//! What statements do, and what a server that judges finds wrong with them.

use std::rc::Rc;

use wire::backend::{self, Column, Status, oid};

use super::{Backend, CopyIn};
use crate::book::Step;
use crate::command::Command;
use crate::statement::{Body, Mark, Statement, row};

const COLUMN: Column<'static> = Column { name: "value", type_oid: oid::TEXT, type_len: -1 };

impl Backend {
    /// Whether the transaction lets this statement run; if not the error has been said. Judges it first.
    pub(super) fn admits(&mut self, body: &Body, mark: Option<Mark>, step: Option<Step>, out: &mut Vec<u8>) -> bool {
        self.judge(body, mark, step);
        if self.status == Status::Failed && !body.ends_transaction() {
            self.error("25P02", "current transaction is aborted", out);
            return false;
        }
        true
    }

    /// One statement of a simple query that takes no time. False: it failed, and the query ends.
    pub(super) fn simple(&mut self, statement: &Statement, out: &mut Vec<u8>) -> bool {
        if !self.admits(&statement.body, statement.mark, Some(Step::Run), out) {
            return false;
        }
        match statement.body {
            Body::Select { rows, len } => self.rows_with_description(rows, len, out),
            Body::Wide(ref table) => {
                let columns = self.columns(table);
                describe_columns(columns, out);
                self.wide_row(columns, out);
            }
            Body::CopyOut { rows, len } => self.copy_out(rows, len, out),
            Body::Command(ref command) => return self.command(command, true, out),
            _ => return self.effect(&statement.body, out),
        }
        true
    }

    /// What a statement without rows does. False: it failed.
    pub(super) fn effect(&mut self, body: &Body, out: &mut Vec<u8>) -> bool {
        let tag = match body {
            Body::Empty => {
                backend::encode_empty_query(out);
                return true;
            }
            Body::Fail => {
                let mark = self.mark.map_or_else(String::new, |mark| format!("c{}.{}", mark.client, mark.number));
                self.error("22012", &format!("division by zero {mark}"), out);
                return false;
            }
            Body::SyntaxError => {
                self.error("42601", "syntax error", out);
                return false;
            }
            Body::CopyIn => {
                backend::encode_copy_in(out, 1);
                self.copy = Some(CopyIn::default());
                return true;
            }
            Body::Select { .. } | Body::Sleep { .. } | Body::CopyOut { .. } | Body::Wide(_) => return true,
            Body::Command(command) => return self.command(command, false, out),
            Body::Widen(table) => {
                self.server.borrow_mut().add_column(table);
                "ALTER TABLE"
            }
            Body::Begin => {
                self.status = Status::InTransaction;
                "BEGIN"
            }
            Body::Commit => self.end_transaction(true),
            Body::Rollback => self.end_transaction(false),
        };
        backend::encode_command_complete(out, tag);
        true
    }

    fn end_transaction(&mut self, commit: bool) -> &'static str {
        let commits = commit && self.status != Status::Failed;
        if commits {
            self.commit();
        } else {
            self.state.roll_back();
        }
        self.status = Status::Idle;
        self.portals.clear();
        if commits { "COMMIT" } else { "ROLLBACK" }
    }

    pub(super) fn rows_with_description(&mut self, rows: u32, len: u32, out: &mut Vec<u8>) {
        describe_rows(out);
        self.rows(0, rows, len, out);
        backend::encode_command_complete(out, &format!("SELECT {rows}"));
    }

    pub(super) fn rows(&self, from: u32, to: u32, len: u32, out: &mut Vec<u8>) {
        for index in from..to {
            let value = row(self.mark, index, len);
            backend::encode_data_row(out, [Some(&value[..])]);
        }
    }

    pub(super) fn columns(&self, table: &str) -> usize {
        self.server.borrow().columns(table)
    }

    /// The one row of a table of so many columns, and the end.
    pub(super) fn wide_row(&self, columns: usize, out: &mut Vec<u8>) {
        let value = row(self.mark, 0, 5);
        backend::encode_data_row(out, std::iter::repeat_n(Some(&value[..]), columns));
        backend::encode_command_complete(out, "SELECT 1");
    }

    pub(super) fn copy_out(&mut self, rows: u32, len: u32, out: &mut Vec<u8>) {
        backend::encode_copy_out(out, 1);
        for index in 0..rows {
            backend::encode_copy_data(out, &row(self.mark, index, len));
        }
        backend::encode_copy_done(out);
        backend::encode_command_complete(out, &format!("COPY {rows}"));
    }

    /// Who may speak here now, and whether the session's state is what it should be (I3, I9).
    fn judge(&mut self, body: &Body, mark: Option<Mark>, step: Option<Step>) {
        let step = step.filter(|_| self.status != Status::Failed);
        if let (Some(mark), Some(step)) = (mark, step) {
            let moment = self.state.moment();
            let book = Rc::clone(&self.server.borrow().book);
            if self.judges {
                book.borrow_mut().server_at(mark, step, moment, || format!("{body:?}"));
            } else {
                book.borrow_mut().twin_at(mark, step, moment);
            }
        }
        if !self.judges {
            return;
        }
        let Some(mark) = mark else {
            if !is_housekeeping(body) {
                self.complain(11, format!("{body:?} is nobody's: no client sent it and it is not the pooler's either"));
            }
            return;
        };
        if let Some(owner) = self.owner
            && owner != mark.client
        {
            let what = if self.session { "session" } else { "transaction or batch" };
            self.complain(3, format!("{body:?} of client {} comes into the {what} of client {owner}", mark.client));
        }
        self.owner = Some(mark.client);
    }
}

/// What the pooler says of its own accord.
fn is_housekeeping(body: &Body) -> bool {
    match body {
        Body::Rollback | Body::Empty => true,
        // The connect_query of some databases.
        Body::Select { rows, len } => (*rows, *len) == (1, 0),
        Body::Command(command) => is_of_following(command),
        _ => false,
    }
}

/// What a session that is followed needs on its server, and what a server is rid of.
fn is_of_following(command: &Command) -> bool {
    // In front of a question, for that alone.
    if let Command::Set { name, value, local: true } = command {
        return name == "statement_timeout" && value.as_deref().is_some_and(|value| value == ["0"]);
    }
    matches!(
        command,
        Command::Set { local: false, .. }
            | Command::SetConfig { local: false, .. }
            | Command::Reset(_)
            | Command::DiscardAll
            | Command::Listen(_)
            | Command::Unlisten(_)
            | Command::DiscardSequences
            | Command::Prepare { .. }
            | Command::Deallocate(_)
            | Command::Check { .. }
            | Command::Catalogue { .. }
    )
}

pub(super) fn describe_columns(columns: usize, out: &mut Vec<u8>) {
    backend::encode_row_description(out, &vec![COLUMN; columns]);
}

pub(super) fn describe_rows(out: &mut Vec<u8>) {
    backend::encode_row_description(out, &[COLUMN]);
}
