//! Parse, Bind, Describe, Execute, Close.
//!
//! A prepared text is shared by many clients, so it carries no mark of its own; its mark is the first parameter of Bind.

use wire::backend::{self, Status};
use wire::frontend::{BindNames, Close, Describe, Execute, Parse, Target, tag};

use super::{Backend, Progress, Running, execute};
use crate::book::Step;
use crate::statement::{Body, Mark, Statement};

/// PostgreSQL's refusal to run a statement whose columns are not those that its client was told.
const CHANGED: (&str, &str) = ("0A000", "cached plan must not change result type");

/// A prepared statement.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) statement: Statement,
    /// By PREPARE, not by Parse.
    pub(super) of_sql: bool,
    /// How many columns it returned when it was prepared, where that may change.
    pub(super) columns: usize,
}

/// A statement with its parameters, and how far it has been run.
#[derive(Clone, Debug)]
pub(super) struct Portal {
    body: Body,
    mark: Option<Mark>,
    at: u32,
    done: bool,
    /// It has been run, if not to its end.
    ran: bool,
    columns: usize,
}

impl Backend {
    pub(super) fn extended(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>) -> Progress {
        match message {
            tag::PARSE => self.parse(body, out),
            tag::BIND => self.bind(body, out),
            tag::DESCRIBE => self.describe(body, out),
            tag::CLOSE => self.close(body, out),
            _ => return self.execute(body, out),
        }
        Progress::Done
    }

    fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Ok(parse) = Parse::decode(body) else { return self.error("08P01", "invalid Parse", out) };
        if parse.name.is_empty() {
            // Before anything else is looked at, as in PostgreSQL.
            self.statements.remove(parse.name);
        }
        let statement = Statement::parse(&String::from_utf8_lossy(parse.query));
        if statement.body == Body::SyntaxError {
            return self.error("42601", "syntax error", out);
        }
        if self.status == Status::Failed && !statement.body.ends_transaction() {
            return self.error("25P02", "current transaction is aborted", out);
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            return self.error("42P05", "prepared statement already exists", out);
        }
        let columns = self.columns_of(&statement.body);
        self.statements.insert(parse.name.to_vec(), Prepared { statement, of_sql: false, columns });
        backend::encode_parse_complete(out);
    }

    fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some(names) = BindNames::decode(body) else { return self.error("08P01", "invalid Bind", out) };
        let Some(prepared) = self.statements.get(names.statement) else {
            return self.error("26000", "prepared statement does not exist", out);
        };
        let (statement, columns) = (prepared.statement.clone(), prepared.columns);
        let mark = statement.mark.or_else(|| first_parameter(&body[names.len..]));
        self.mark = mark;
        if !self.admits(&statement.body, mark, Some(Step::Bind), out) {
            return;
        }
        if !names.portal.is_empty() && self.portals.contains_key(names.portal) {
            return self.error("42P03", "portal already exists", out);
        }
        if self.columns_of(&statement.body) != columns {
            return self.error(CHANGED.0, CHANGED.1, out);
        }
        let portal = Portal { body: statement.body, mark, at: 0, done: false, ran: false, columns };
        self.portals.insert(names.portal.to_vec(), portal);
        backend::encode_bind_complete(out);
    }

    fn describe(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Ok(describe) = Describe::decode(body) else { return self.error("08P01", "invalid Describe", out) };
        let described = match describe.target {
            Target::Statement => {
                self.statements.get(describe.name).map(|prepared| (prepared.statement.body.clone(), prepared.columns))
            }
            Target::Portal => self.portals.get(describe.name).map(|portal| (portal.body.clone(), portal.columns)),
        };
        let Some((body, columns)) = described else {
            let (code, text) = missing(describe.target);
            return self.error(code, text, out);
        };
        if self.status == Status::Failed && body.returns_rows() {
            return self.error("25P02", "current transaction is aborted", out);
        }
        if describe.target == Target::Statement {
            if self.columns_of(&body) != columns {
                return self.error(CHANGED.0, CHANGED.1, out);
            }
            backend::encode_parameter_description(out, &[backend::oid::TEXT]);
        }
        if let Body::Wide(_) = body {
            execute::describe_columns(columns, out);
        } else if body.returns_rows() {
            execute::describe_rows(out);
        } else {
            backend::encode_no_data(out);
        }
    }

    /// How many columns it returns now, where that may change.
    fn columns_of(&self, body: &Body) -> usize {
        if let Body::Wide(table) = body { self.columns(table) } else { 0 }
    }

    fn close(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Ok(close) = Close::decode(body) else { return self.error("08P01", "invalid Close", out) };
        match close.target {
            Target::Statement => drop(self.statements.remove(close.name)),
            Target::Portal => drop(self.portals.remove(close.name)),
        }
        backend::encode_close_complete(out);
    }

    fn execute(&mut self, body: &[u8], out: &mut Vec<u8>) -> Progress {
        let Ok(execute) = Execute::decode(body) else {
            self.error("08P01", "invalid Execute", out);
            return Progress::Done;
        };
        let Some(portal) = self.portals.get(execute.portal).cloned() else {
            let (code, text) = missing(Target::Portal);
            self.error(code, text, out);
            return Progress::Done;
        };
        self.mark = portal.mark;
        let step = (!portal.ran).then_some(Step::Run);
        if let Some(portal) = self.portals.get_mut(execute.portal) {
            portal.ran = true;
        }
        if !self.admits(&portal.body, portal.mark, step, out) {
            return Progress::Done;
        }
        match portal.body {
            Body::Sleep { micros } if !portal.done => {
                self.running = Running::Portal(execute.portal.to_vec());
                return Progress::Works(micros);
            }
            Body::Sleep { .. } => backend::encode_command_complete(out, "SELECT 0"),
            Body::Select { rows, len } => self.fetch(execute.portal, portal.at, rows, len, execute.rows_max, out),
            Body::CopyOut { rows, len } => self.copy_out(rows, len, out),
            Body::Wide(_) => self.wide_row(portal.columns, out),
            body => {
                // Whatever ends in an error afterwards, COPY among it, is an extended one.
                self.effect(&body, out);
                if self.copy.is_some() {
                    self.running = Running::Portal(execute.portal.to_vec());
                }
            }
        }
        Progress::Done
    }

    fn fetch(&mut self, name: &[u8], at: u32, rows: u32, len: u32, max: i32, out: &mut Vec<u8>) {
        let wanted = u32::try_from(max).ok().filter(|max| *max > 0).unwrap_or(u32::MAX);
        let end = rows.min(at.saturating_add(wanted));
        self.rows(at, end, len, out);
        if let Some(portal) = self.portals.get_mut(name) {
            portal.at = end;
        }
        // PostgreSQL says PortalSuspended whenever it stopped at the limit, were it the last row.
        if end - at == wanted {
            backend::encode_portal_suspended(out);
        } else {
            backend::encode_command_complete(out, &format!("SELECT {}", end - at));
        }
    }

    pub(super) fn finish_sleep(&mut self, name: &[u8], out: &mut Vec<u8>) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.done = true;
        }
        self.rows(0, 1, 0, out);
        backend::encode_command_complete(out, "SELECT 1");
    }
}

fn missing(target: Target) -> (&'static str, &'static str) {
    match target {
        Target::Statement => ("26000", "prepared statement does not exist"),
        Target::Portal => ("34000", "portal does not exist"),
    }
}

/// The first parameter of a Bind, from behind its names.
fn first_parameter(rest: &[u8]) -> Option<Mark> {
    let formats = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
    let rest = rest.get(2 + 2 * formats..)?;
    let count = u16::from_be_bytes(*rest.first_chunk()?);
    let len = u32::from_be_bytes(*rest.get(2..)?.first_chunk()?) as usize;
    let value = rest.get(6..)?.get(..len).filter(|_| count > 0)?;
    Mark::parse(std::str::from_utf8(value).ok()?)
}
