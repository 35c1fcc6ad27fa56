//! A role that PostgreSQL refuses to a session since it was renamed, dropped or revoked: the session gives it up by RESET ROLE and its like,
//! which need a server without the role.
//!
//! Promises: only requests that cannot fail, and run nothing else, are taken for such ones. A request that fails would leave the session with
//! its role, and the server without.
//!
//! //= pg18 sql-set-role

use session_state::state::{Effects, RoleReset};
use sql::Text;
use wire::frontend::{BindNames, BindResults, Describe, Execute, Parse, Query, tag};
use wire::{HEADER_LEN, Header};

use crate::caches::Caches;
use crate::session::Session;

/// The role that the session's first request takes away, if the session has it and the request does nothing else. The request is a simple
/// query, or a batch up to its Sync.
pub fn role_reset(session: &Session, caches: &mut Caches) -> Option<RoleReset> {
    let rules = caches.reader.rules(&session.parameters)?;
    let texts = request_texts(session)?;
    let mut reset = None;
    for text in texts {
        reset = reset.max(Some(Effects::read(&Text::new(text, rules), &caches.tracked).only_reset_role()?));
    }
    let tracker = session.facts.tracker.as_ref()?;
    reset.filter(|reset| tracker.journal.has_role_of(*reset))
}

/// A statement that a batch has parsed: its name and its text.
type Parsed<'s> = (&'s [u8], &'s [u8]);

/// The texts of the first request, in order. `None`: it is not complete, or may fail before it has run them.
fn request_texts(session: &Session) -> Option<Vec<&[u8]>> {
    let mut rest = &*session.incoming.inbox;
    let (mut texts, mut parsed, mut bound) = (Vec::new(), Vec::<Parsed<'_>>::new(), None);
    loop {
        let header = Header::parse(rest).ok()??;
        let body = rest.get(HEADER_LEN..header.total_len())?;
        rest = &rest[header.total_len()..];
        match header.tag {
            tag::QUERY if texts.is_empty() && parsed.is_empty() && bound.is_none() => {
                return Some(vec![Query::decode(body).ok()?.text]);
            }
            tag::PARSE => {
                let parse = Parse::decode(body).ok()?;
                let is_taken = parsed.iter().any(|(name, _)| *name == parse.name) || is_prepared(session, parse.name);
                if is_taken && !parse.name.is_empty() {
                    return None;
                }
                parsed.push((parse.name, parse.query));
            }
            tag::BIND => bound = Some(bound_text(session, body, &parsed)?),
            tag::DESCRIBE => is_of_unnamed_portal(Describe::decode(body).ok()?.name, bound)?,
            tag::EXECUTE => {
                is_of_unnamed_portal(Execute::decode(body).ok()?.portal, bound)?;
                texts.push(bound.take()?);
            }
            tag::SYNC => return Some(texts),
            _ => return None,
        }
    }
}

/// Whether the session has prepared a statement of this name, by the protocol or by SQL.
fn is_prepared(session: &Session, name: &[u8]) -> bool {
    let by_protocol = session.statements.names.as_ref().is_some_and(|names| names.get(name).is_some());
    by_protocol || session.facts.tracker.as_ref().is_some_and(|tracker| tracker.statements.has(name))
}

/// The text that a Bind without parameters binds to the unnamed portal.
fn bound_text<'s>(session: &'s Session, body: &'s [u8], parsed: &[Parsed<'s>]) -> Option<&'s [u8]> {
    let names = BindNames::decode(body)?;
    if !names.portal.is_empty() || BindResults::decode(&body[names.len..]).ok()?.parameters > 0 {
        return None;
    }
    match parsed.iter().rfind(|(name, _)| *name == names.statement) {
        Some((_, text)) => Some(text),
        None => session.statements.names.as_ref()?.get(names.statement).map(|statement| statement.query()),
    }
}

fn is_of_unnamed_portal(name: &[u8], bound: Option<&[u8]>) -> Option<()> {
    (name.is_empty() && bound.is_some()).then_some(())
}
