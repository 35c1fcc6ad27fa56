//! In which class a session is: looked up when it asks for a server, by what it is called then and what its text says.

use sql::{CommentTag, comment_tags, may_have_comment_tags};
use wire::frontend::{BindNames, Parse, tag};
use wire::{HEADER_LEN, Header};

use super::Worker;
use crate::classes::{ClassId, Classes, Subject};
use crate::id::ConnId;
use crate::parameters::Tracked;
use crate::queue::Queue;
use crate::session::{Line, Session, State};
use crate::settings::Settings;

/// What is charged to whom while a server is not free.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) class: ClassId,
    pub(crate) since: crate::time::Time,
}

impl Worker {
    /// A session asks for a server, for `bytes`, whole messages first.
    #[inline]
    pub(super) fn classify(&mut self, conn: ConnId, bytes: &[u8]) {
        if !self.settings.classes.is_single() {
            self.classify_by_rules(conn, bytes);
        }
    }

    #[inline(never)]
    fn classify_by_rules(&mut self, conn: ConnId, bytes: &[u8]) {
        let classes = &self.settings.classes;
        if let Some(session) = self.sessions.get_mut(conn) {
            session.class = class_of(classes, session, bytes);
        }
    }

    /// Other classes hold from now on: whoever waits, and whoever has a server, is counted among them anew.
    pub(super) fn reclassify(&mut self, before: &Settings) {
        if before.classes == self.settings.classes {
            return;
        }
        let classes = std::sync::Arc::clone(&self.settings.classes);
        for pool in self.pools.iter_mut().flatten() {
            let old = std::mem::replace(&mut pool.queue, Queue::new(&classes, pool.homes));
            let mut waiters: Vec<_> = old.waiters().collect();
            waiters.sort_by_key(|waiter| waiter.since);
            for waiter in waiters {
                let Some(session) = self.sessions.get_mut(waiter.session) else { continue };
                session.class = class_of(&classes, session, &session.inbox);
                let moved = pool.queue.push(session.class, waiter.session, waiter.since, waiter.since);
                if let State::Waiting { ticket, line: Line::Server | Line::Login, .. } = &mut session.state {
                    *ticket = moved;
                }
            }
        }
        for conn in self.servers.ids() {
            let Some(server) = self.servers.get_mut(conn) else { continue };
            let session = server.session().and_then(|session| self.sessions.get_mut(session));
            if let Some(charge) = &mut server.charge
                && let Some(pool) = self.pools[server.pool.0 as usize].as_deref_mut()
            {
                charge.class = session.map_or(crate::classes::DEFAULT, |session| {
                    session.class = class_of(&classes, session, &[]);
                    session.class
                });
                pool.queue.begin(charge.class, charge.since);
            }
        }
    }
}

fn class_of(classes: &Classes, session: &Session, bytes: &[u8]) -> ClassId {
    let subject = Subject {
        database: session.identity.database.as_bytes(),
        user: session.identity.user.as_bytes(),
        application: session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default(),
    };
    if !classes.reads_tags() {
        return classes.of(&subject, &[]);
    }
    let text = first_text(session, bytes).filter(|text| may_have_comment_tags(text)).unwrap_or_default();
    let tags: Vec<CommentTag<'_>> = comment_tags(text).collect();
    classes.of(&subject, &tags)
}

/// The text that a transaction begins with, as far as it is at hand: of a Query or a Parse, or what a Bind names.
pub(super) fn first_text<'a>(session: &'a Session, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let header = Header::parse(bytes).ok().flatten()?;
    let body = &bytes[HEADER_LEN..bytes.len().min(header.total_len())];
    match header.tag {
        tag::QUERY => Some(body.strip_suffix(b"\0").unwrap_or(body)),
        tag::PARSE => Parse::decode(body).ok().map(|parse| parse.query),
        tag::BIND => {
            let names = BindNames::decode(body)?;
            session.names.as_deref()?.get(names.statement).map(|statement| statement.query())
        }
        _ => None,
    }
}
