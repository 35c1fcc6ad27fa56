//! What statements do, and what a server that judges finds wrong with them.

use wire::backend::{self, Column, Status, oid};

use super::{Backend, CopyIn};
use crate::parameters;
use crate::statement::{Body, Mark, Statement, row};

const COLUMN: Column<'static> = Column { name: "value", type_oid: oid::TEXT, type_len: -1 };

impl Backend {
    /// Whether the transaction lets this statement run; if not the error has been said. Judges it first.
    pub(super) fn admits(&mut self, body: &Body, mark: Option<Mark>, out: &mut Vec<u8>) -> bool {
        self.judge(body, mark);
        if self.status == Status::Failed && !body.ends_transaction() {
            self.error("25P02", "current transaction is aborted", out);
            return false;
        }
        true
    }

    /// One statement of a simple query that takes no time. False: it failed, and the query ends.
    pub(super) fn simple(&mut self, statement: &Statement, out: &mut Vec<u8>) -> bool {
        if !self.admits(&statement.body, statement.mark, out) {
            return false;
        }
        match statement.body {
            Body::Select { rows, len } => self.rows_with_description(rows, len, out),
            Body::CopyOut { rows, len } => self.copy_out(rows, len, out),
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
            Body::Set { change: None } => {
                self.error("22023", "invalid value for parameter", out);
                return false;
            }
            Body::SyntaxError => {
                self.error("42601", "syntax error", out);
                return false;
            }
            Body::DiscardAll if self.status != Status::Idle => {
                self.error("25001", "DISCARD ALL cannot run inside a transaction block", out);
                return false;
            }
            Body::CopyIn => {
                backend::encode_copy_in(out, 1);
                self.copy = Some(CopyIn::default());
                return true;
            }
            Body::Select { .. } | Body::Sleep { .. } | Body::CopyOut { .. } => return true,
            Body::Set { change: Some((parameter, digit)) } => {
                self.values[*parameter] = *digit;
                "SET"
            }
            Body::Begin => {
                self.status = Status::InTransaction;
                "BEGIN"
            }
            Body::Commit => self.end_transaction(true),
            Body::Rollback => self.end_transaction(false),
            Body::Temporary => "CREATE TABLE",
            Body::DiscardAll => {
                self.values = self.defaults;
                self.statements.clear();
                self.portals.clear();
                self.owner = None;
                "DISCARD ALL"
            }
            Body::DeallocateAll => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
        };
        backend::encode_command_complete(out, tag);
        true
    }

    fn end_transaction(&mut self, commit: bool) -> &'static str {
        let commits = commit && self.status != Status::Failed;
        if commits {
            self.committed = self.values;
        } else {
            self.values = self.committed;
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

    pub(super) fn copy_out(&mut self, rows: u32, len: u32, out: &mut Vec<u8>) {
        backend::encode_copy_out(out, 1);
        for index in 0..rows {
            backend::encode_copy_data(out, &row(self.mark, index, len));
        }
        backend::encode_copy_done(out);
        backend::encode_command_complete(out, &format!("COPY {rows}"));
    }

    /// Who may speak here now, and with which settings (I3, I9).
    fn judge(&mut self, body: &Body, mark: Option<Mark>) {
        if !self.judges {
            return;
        }
        let Some(mark) = mark else {
            let connect_query = Body::Select { rows: 1, len: 0 };
            let housekeeping = matches!(body, Body::Set { .. } | Body::Rollback | Body::DiscardAll | Body::Empty)
                || *body == connect_query;
            if !housekeeping {
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
        if mark.values != self.values && self.status != Status::Failed {
            let differing: Vec<&str> = (0..parameters::COUNT)
                .filter(|&at| mark.values[at] != self.values[at])
                .map(|at| parameters::NAMES[at])
                .collect();
            self.complain(9, format!("{body:?} of {} meets other settings here: {differing:?}", mark.text()));
        }
    }
}

pub(super) fn describe_rows(out: &mut Vec<u8>) {
    backend::encode_row_description(out, &[COLUMN]);
}
