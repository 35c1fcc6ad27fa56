//! SQL's EXECUTE: what the statement that it names does to the session, and which columns it has.
//!
//! Promises: an EXECUTE has all effects of the statement that it runs. Does not do: bringing that statement to the server
//! ([`Requests::remedy`]).

use std::sync::Arc;

use session_state::prepared;
use session_state::prepared::{Statement, StatementId};
use session_state::state::{Effect, Effects, Remedy};
use wire::frontend::Parse;

use crate::requests::Requests;

impl Requests<'_> {
    /// Adds to each EXECUTE among the effects of a text what the statement does that it runs.
    pub fn add_executed(&mut self, effects: &mut Effects) {
        if !effects.iter().any(|effect| matches!(effect, Effect::Execute(_))) {
            return;
        }
        let rules = self.rules().unwrap_or_default();
        let names = self.session.statements.names.as_deref();
        if let Some(tracker) = &self.session.tracker {
            tracker.add_executed(effects, names, rules, &self.caches.tracked);
        }
    }

    /// Which statement a Parse of EXECUTE means: its columns are those of what its name means now, to this session.
    #[cold]
    pub fn identify_executing(&mut self, parse: &Parse<'_>, statement: &Statement) -> StatementId {
        let effects = self.effects(parse.query);
        let (tracker, names) = (self.session.tracker.as_ref(), self.session.statements.names.as_ref());
        let of = |name: &[u8]| {
            let prepared = tracker.and_then(|tracker| tracker.prepared_text(name));
            let of_protocol = || names?.get(name).map(|statement| Arc::from(statement.query()));
            prepared.or_else(of_protocol)
        };
        let texts: Vec<Option<Arc<[u8]>>> = effects
            .iter()
            .filter_map(|effect| if let Effect::Execute(name) = effect { Some(of(name)) } else { None })
            .collect();
        let first = statement.id.to_be_bytes();
        let meaning = std::iter::once(Some(&first[..])).chain(texts.iter().map(Option::as_deref));
        prepared::identify(self.caches.catalog.secret(), parse, meaning, self.pool.names.generation)
    }

    /// A statement is about to be parsed or described that may name another: that must be there, or it has no columns. False:
    /// not before what is under way has been answered.
    pub fn bring_executed(&mut self, statement: &Statement) -> bool {
        if !statement.executes() || !self.follows() {
            return true;
        }
        let effects = self.effects(statement.query());
        let remedy = self.remedy(statement.reading(&self.pool.names.known), &effects, statement.query());
        self.run_aside(remedy.as_ref().unwrap_or(&Remedy::new()));
        remedy.is_some()
    }
}
