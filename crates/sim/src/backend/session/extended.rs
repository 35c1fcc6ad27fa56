//! The effects of Parse, Bind, Describe and Close on a session's statements and portals.
//!
//! A prepared text is shared by many clients, so it carries no mark of its own; its mark is the first parameter of Bind.

use wire::backend::Status;
use wire::frontend::Target;

use super::transaction::ABORTED;
use super::{Portal, Prepared, Session, refusal};
use crate::settings::SettingRefusal;
use crate::statement::{Body, Mark, Statement};

/// The answer to Describe.
pub(in crate::backend) struct Described {
    pub(in crate::backend) body: Body,
    pub(in crate::backend) columns: usize,
}

impl Session {
    /// # Errors
    /// The text is not in the language, or the transaction has failed.
    pub(in crate::backend) fn parse(&mut self, name: &[u8], query: &[u8]) -> Result<(), SettingRefusal> {
        if name.is_empty() {
            // Before any other check, as in PostgreSQL.
            self.statements.remove(name);
        }
        let statement = Statement::parse(&String::from_utf8_lossy(query));
        if statement.body == Body::SyntaxError {
            return Err(refusal("42601", "syntax error"));
        }
        self.admit(&statement.body)?;
        if !name.is_empty() && self.has_statement(name) {
            return Err(refusal("42P05", "prepared statement already exists"));
        }
        let columns = self.columns_of(&statement.body);
        self.statements.insert(name, Prepared::new(statement, columns));
        Ok(())
    }

    /// A portal for a statement; its mark is the statement's own, or that of the parameters.
    ///
    /// # Errors
    /// There is no such statement.
    pub(in crate::backend) fn portal_of(&self, statement: &[u8], mark: Option<Mark>) -> Result<Portal, SettingRefusal> {
        let found = self.statements.get(statement).ok_or_else(|| missing(Target::Statement, statement))?;
        Ok(Portal::new(found.statement.body.clone(), found.statement.mark.or(mark), found.columns))
    }

    /// # Errors
    /// The portal's name is taken, or its statement returns other columns than it did.
    pub(in crate::backend) fn bind(&mut self, name: &[u8], portal: Portal) -> Result<(), SettingRefusal> {
        if !name.is_empty() && self.has_portal(name) {
            return Err(refusal("42P03", "portal already exists"));
        }
        self.check_columns(&portal.body, portal.columns)?;
        self.portals.insert(name, portal);
        Ok(())
    }

    /// # Errors
    /// There is none, or it cannot be described now.
    pub(in crate::backend) fn describe(&self, target: Target, name: &[u8]) -> Result<Described, SettingRefusal> {
        let found = match target {
            Target::Statement => self.statements.get(name).map(|found| (&found.statement.body, found.columns)),
            Target::Portal => self.portals.get(name).map(|portal| (&portal.body, portal.columns)),
        };
        let (body, columns) = found.ok_or_else(|| missing(target, name))?;
        if self.status() == Status::Failed && body.returns_rows() {
            return Err(refusal("25P02", ABORTED));
        }
        if target == Target::Statement {
            self.check_columns(body, columns)?;
        }
        Ok(Described { body: body.clone(), columns })
    }

    pub(in crate::backend) fn close(&mut self, target: Target, name: &[u8]) {
        match target {
            Target::Statement => drop(self.statements.remove(name)),
            Target::Portal => self.portals.remove(name),
        }
    }

    /// A simple query ends the unnamed statement and portal, as the manual says.
    pub(in crate::backend) fn close_unnamed(&mut self) {
        self.close(Target::Statement, b"");
        self.close(Target::Portal, b"");
    }

    /// # Errors
    /// There is none.
    pub(in crate::backend) fn portal(&mut self, name: &[u8]) -> Result<&mut Portal, SettingRefusal> {
        self.portals.get_mut(name).ok_or_else(|| missing(Target::Portal, name))
    }

    /// PostgreSQL does not run a statement whose columns have changed since it was prepared.
    fn check_columns(&self, body: &Body, columns: usize) -> Result<(), SettingRefusal> {
        if self.columns_of(body) == columns {
            return Ok(());
        }
        Err(refusal("0A000", "cached plan must not change result type"))
    }

    /// How many columns a statement of a table returns now.
    fn columns_of(&self, body: &Body) -> usize {
        if let Body::Wide(table) = body { self.registration.columns(table) } else { 0 }
    }
}

fn missing(target: Target, name: &[u8]) -> SettingRefusal {
    match target {
        // The pooler has names of its own for statements.
        Target::Statement => refusal("26000", "prepared statement does not exist"),
        Target::Portal => refusal("34000", &format!("portal \"{}\" does not exist", String::from_utf8_lossy(name))),
    }
}
