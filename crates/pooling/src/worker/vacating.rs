//! A client has said something that wants nobody in a database: our servers leave it.

use sql::{Marks, Summary, Text};

use super::requests::Requests;
use super::{Turn, Worker};
use crate::action::Action;
use crate::id::PoolId;
use crate::mail::{Mail, Place};
use crate::server::{Group, Server};
use crate::state::Reading;

const WHY: &str = "its database is to be empty";

impl Requests<'_> {
    /// A text is sent, after which the databases that it names may have to be empty.
    pub(super) fn vacate(&mut self, text: &[u8], reading: Reading) {
        if !reading.marks.any(Marks::EMPTY_DATABASE) {
            return;
        }
        let Some(rules) = self.reader.rules(&self.server.parameters) else { return };
        let names = Summary::of(&Text::new(text, rules)).words().into();
        self.actions.push(Action::Post { to: Place::Coordinator, mail: Mail::Empty { names }, carrying: None });
    }
}

impl Worker {
    /// Closes the idle servers of a pool. Those in use stay: whoever says DROP DATABASE may not be allowed to.
    pub(super) fn vacate(&mut self, turn: &mut Turn<'_>, pool: PoolId) {
        for conn in self.servers.ids() {
            let idle = |server: &&Server| server.pool == pool && server.state.group() == Group::Idle;
            if self.servers.get(conn).filter(idle).is_some() {
                self.close_server(turn, conn, WHY);
            }
        }
    }
}
