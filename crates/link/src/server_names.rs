//! What PostgreSQL is told in `application_name` of the client that a server works for, where `server_application_name` says what.
//!
//! ```text
//!   client    application_name = shop                    its own, which it reads, and which follows it as ever
//!   server    application_name = shop@10.0.0.7/web       shown: pg_stat_activity and PostgreSQL's log have it
//! ```
//!
//! A server's kept parameters are always what its client is to see. What PostgreSQL has instead is kept beside them
//! ([`ShownName`]), and goes to the server in the same Query as the other parameters. Where PostgreSQL reports the shown name, for
//! instance after a rollback, the client gets its own.
//!
//! Does not hide the shown name from a client that asks PostgreSQL for it in a transaction that has begun with something else: if the
//! first text of a transaction has the word `application_name`, PostgreSQL is told the client's own.
//!
//! PostgreSQL manual, "application_name", "log_line_prefix".

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Settings;
use machine::observe::Peer;
use memchr::memchr_iter;
use session_state::parameters::{Interned, Parameters, Tracked, clean_application_name};
use settings::{NamePart, ServerName};
use sql::WantedTag;
use units::ConnId;

use crate::first_text::first_text;
use crate::server::{Kept, ShownName};
use crate::session::Session;

/// PostgreSQL cuts longer names to this: NAMEDATALEN less one.
const NAME_LEN_MAX: usize = 63;

/// The template, and what is made of it once.
#[derive(Debug, Default)]
pub struct ServerNames {
    template: ServerName,
    /// A name depends on the text that a session gets its server for.
    depends_on_text: bool,
    /// By the places of its tags.
    tags: Vec<WantedTag>,
    /// The names of sessions that have been linked, where they do not depend on the text.
    names: BTreeMap<ConnId, SessionName>,
}

/// The name that servers have for a session.
#[derive(Debug)]
struct SessionName {
    /// The parameters that it was made of.
    parameters: Arc<Parameters>,
    name: Box<[u8]>,
}

/// The name that a server has, and the one that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    pub from: Box<[u8]>,
    pub to: Box<[u8]>,
}

impl ServerNames {
    #[must_use]
    pub fn of(settings: &Settings) -> ServerNames {
        let template = settings.global.startup.server_application_name.clone();
        let depends_on_text = template.parts().any(|part| matches!(part, NamePart::Tag(_) | NamePart::Class));
        let tags = template.parts().filter_map(|part| match part {
            NamePart::Tag(key) => Some(WantedTag::new(key.as_bytes())),
            _ => None,
        });
        ServerNames { tags: tags.collect(), names: BTreeMap::new(), depends_on_text, template }
    }

    /// Whether servers have other names than their clients.
    #[inline]
    #[must_use]
    pub fn are_used(&self) -> bool {
        !self.template.is_empty()
    }

    /// The name for a session that gets a server for what is in its inbox.
    fn name_for(&self, session: &Session, class: &str) -> Vec<u8> {
        let own = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let text = first_text(session, &session.incoming.inbox).unwrap_or_default();
        if !self.are_used() || mentions_name(text) {
            return own.to_vec();
        }
        self.name_with(session, class, text)
    }

    /// The name for a session that gets a server for this text.
    fn name_with(&self, session: &Session, class: &str, text: &[u8]) -> Vec<u8> {
        let own = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let mut name = Vec::with_capacity(2 * NAME_LEN_MAX);
        let mut tags = self.tags.iter();
        for part in self.template.parts() {
            match part {
                NamePart::Text(fixed) => name.extend_from_slice(fixed.as_bytes()),
                NamePart::Application => name.extend_from_slice(own),
                NamePart::Address => name.extend_from_slice(address(session.identity.peer).as_bytes()),
                NamePart::Class => name.extend_from_slice(class.as_bytes()),
                NamePart::Client => name.extend_from_slice(session.identity.serial.0.to_string().as_bytes()),
                NamePart::User => name.extend_from_slice(session.identity.user.as_bytes()),
                NamePart::Tag(_) => {
                    let tag = tags.next().and_then(|tag| tag.first(text));
                    name.extend_from_slice(&tag.unwrap_or_default());
                }
            }
        }
        cut(clean_application_name(&name))
    }

    /// Whether a server keeps its name when this session gets it for these messages.
    #[inline(always)]
    pub(crate) fn keeps(&mut self, conn: ConnId, session: &Session, kept: &Kept, messages: &[u8]) -> bool {
        if self.are_used() { self.has_name_for(conn, session, kept, messages) } else { kept.shown_name.is_none() }
    }

    #[inline(never)]
    fn has_name_for(&mut self, conn: ConnId, session: &Session, kept: &Kept, messages: &[u8]) -> bool {
        if self.depends_on_text {
            return false;
        }
        let found = self.names.get(&conn).filter(|known| Arc::ptr_eq(&known.parameters, &session.parameters));
        let has_it = match found {
            Some(known) => *known.name == *kept.name_at_postgresql(),
            None => {
                let name: Box<[u8]> = self.name_with(session, "", b"").into();
                let has_it = *name == *kept.name_at_postgresql();
                self.names.insert(conn, SessionName { parameters: Arc::clone(&session.parameters), name });
                has_it
            }
        };
        // The text may be that of a statement which a Bind names.
        has_it && !mentions_name(first_text(session, messages).unwrap_or_default())
    }

    /// A session has ended.
    pub fn forget(&mut self, conn: ConnId) {
        self.names.remove(&conn);
    }

    /// A session gets a server: what the server's name becomes, besides its other parameters. From now on the server's parameters
    /// have the session's own name. To be called before the parameters are compared.
    pub fn rename(&self, session: &Session, class: &str, kept: &mut Kept, interned: &mut Interned) -> Option<Renaming> {
        if !self.are_used() && kept.shown_name.is_none() {
            return None;
        }
        let own = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let from: Box<[u8]> = kept.name_at_postgresql().into();
        let to: Box<[u8]> = self.name_for(session, class).into();
        kept.shown_name =
            (*to != *own).then(|| Box::new(ShownName { shown: to.clone(), own: own.into(), is_in_force: true }));
        if kept.parameters.get(Tracked::APPLICATION_NAME) != Some(own)
            && let Some(changed) = kept.parameters.with(Tracked::APPLICATION_NAME, own)
        {
            kept.parameters = shared(changed, &session.parameters, interned);
        }
        Some(Renaming { from, to })
    }
}

/// Mostly these are the session's.
fn shared(changed: Parameters, wanted: &Arc<Parameters>, interned: &mut Interned) -> Arc<Parameters> {
    if changed == **wanted { Arc::clone(wanted) } else { interned.intern(changed) }
}

fn address(peer: Peer) -> String {
    match peer {
        Peer::Tcp { from, .. } => from.ip().to_canonical().to_string(),
        // As `%h` of log_line_prefix has it.
        Peer::Unix { .. } => "[local]".to_owned(),
    }
}

fn cut(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(NAME_LEN_MAX);
    name
}

/// Whether a text may ask for the name, or change it.
fn mentions_name(text: &[u8]) -> bool {
    const HALVES: [&[u8]; 2] = [b"application", b"name"];
    memchr_iter(b'_', text).any(|at| {
        let before = at.checked_sub(HALVES[0].len()).map(|from| &text[from..at]);
        let behind = text.get(at + 1..at + 1 + HALVES[1].len());
        before.is_some_and(|before| before.eq_ignore_ascii_case(HALVES[0]))
            && behind.is_some_and(|behind| behind.eq_ignore_ascii_case(HALVES[1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_the_name_of_the_setting_is_found() {
        for text in ["show application_name", "SHOW APPLICATION_NAME", "select current_setting('Application_Name')"] {
            assert!(mentions_name(text.as_bytes()), "{text}");
        }
        for text in ["", "_", "_name", "application_", "select application name", "select x_application, name_y"] {
            assert!(!mentions_name(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_name_is_cut_as_postgresql_cuts_it() {
        assert_eq!(cut(clean_application_name(&[b'x'; 100])).len(), NAME_LEN_MAX);
        assert_eq!(cut(clean_application_name("a\nä".as_bytes())), br"a\x0a\xc3\xa4");
    }
}
