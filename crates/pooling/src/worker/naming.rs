//! Names of statements that a server says as it knows them, and its client does not.

use wire::backend::tag;

use super::answers::Answers;
use crate::prepared::find_server_name;

impl Answers<'_> {
    /// An error of its client's speaks of a statement by the name that servers have for it: the client is told its own name.
    pub(super) fn says_it_by_name(&mut self, body: &[u8]) -> bool {
        let Some((conn, session)) = &self.session else { return false };
        let Some(names) = &session.names else { return false };
        let (mut told, mut rest) = (Vec::new(), body);
        while let Some(place) = find_server_name(rest) {
            let name = names.of_server_name(&rest[place.clone()]).unwrap_or(&rest[place.clone()]);
            told.extend_from_slice(&rest[..place.start]);
            told.extend_from_slice(name);
            rest = &rest[place.end..];
        }
        if told.is_empty() {
            return false;
        }
        told.extend_from_slice(rest);
        let conn = *conn;
        self.flush();
        self.pool.totals.sent += told.len() as u64;
        self.actions.send_new(conn, |out| wire::message(out, tag::ERROR, |out| out.extend_from_slice(&told)));
        true
    }
}
