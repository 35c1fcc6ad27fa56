//! A session has the parameters that its pool's servers begin with, where it has set none itself, also when these begin with others: after
//! RECONNECT, a restart, a RELOAD to another host, a change of PostgreSQL's configuration.
//!
//! ```text
//!   told at login: TimeZone UTC, DateStyle ISO ──► SET DateStyle ──► ALTER SYSTEM SET timezone ──► next link
//!                                                                     a server reports it            ParameterStatus TimeZone
//! ```
//!
//! Does not do: noticing that they do ([`crate::parameter_reports`], [`crate::server_login`]).
//!
//! //= pg18 protocol-flow#PROTOCOL-ASYNC

use session_state::login_report::LoginReport;
use session_state::parameters::Reported;
use wire::backend::ParameterStatus;

use crate::caches::Caches;
use crate::pool::Pool;
use crate::session::Session;

/// A session is about to be linked: gives it what its pool's servers begin with by now. Returns the ParameterStatus messages for its
/// client.
pub fn rebase(session: &mut Session, pool: &Pool, caches: &mut Caches) -> Option<Vec<u8>> {
    let report = pool.welcome.report.as_ref()?;
    if session.own.edition.replace(report.edition) == Some(report.edition) {
        return None;
    }
    let mut news = Vec::new();
    let parameters = session.parameters.rebased(&report.parameters, session.own.now);
    for (index, name) in caches.tracked.names().enumerate() {
        let value = parameters.get(index).filter(|value| session.parameters.get(index) != Some(value));
        if let Some(value) = value {
            ParameterStatus { name: name.as_bytes(), value }.encode(&mut news);
        }
    }
    session.parameters = caches.interned.intern(parameters);
    if let Some(reset_to) = &session.reset_to {
        let reset_to = reset_to.rebased(&report.parameters, session.own.at_login);
        session.reset_to = Some(caches.interned.intern(reset_to));
    }
    let told = session.facts.tracker.as_ref().and_then(|tracker| tracker.reported_at_login.clone()).unwrap_or_default();
    if let Some(last) = &pool.welcome.last {
        write_untracked(last, report, &told, caches, &mut news);
    }
    (!news.is_empty()).then_some(news)
}

/// Of those that are not tracked, what is another, unless the session began with its own.
fn write_untracked(last: &LoginReport, report: &LoginReport, told: &Reported, caches: &Caches, news: &mut Vec<u8>) {
    let is_in = |list: &Reported, name: &[u8], value: &[u8]| {
        list.iter().any(|(known, before)| **known == *name && **before == *value)
    };
    for (name, value) in &report.reported {
        let is_own = caches.tracked.index(name).is_some() || told.iter().any(|(known, _)| known == name);
        if !is_own && !is_in(&last.reported, name, value) {
            ParameterStatus { name, value }.encode(news);
        }
    }
}
