//! The rules of classes that apply to sessions, stored once for all sessions with the same rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use queueing::classes::{Classes, Standing, Subject};
use session_state::parameters::{Parameters, Tracked};
use units::limits;

use crate::session::Session;

/// The rules that apply to sessions apart from their comments. There may be many rules, and there are many sessions, so
/// equal results are shared.
#[derive(Debug, Default)]
pub struct Standings {
    /// By the rules that depend on tags in comments, and the class if none of them fits.
    known: BTreeMap<Box<[u32]>, Arc<Standing>>,
    looked_for: Vec<u32>,
}

impl Standings {
    /// What a session's claim has of the rules of classes is of its present parameters from now on.
    #[inline]
    pub fn look_up(&mut self, classes: &Classes, session: &mut Session) {
        if session.facts.claim.standing(&session.parameters).is_none() {
            session.facts.claim.standing = Some(self.of_session(classes, session));
        }
    }

    /// The standing of a session with its present parameters.
    #[inline(never)]
    fn of_session(&mut self, classes: &Classes, session: &Session) -> Box<(Arc<Parameters>, Arc<Standing>)> {
        let subject = Subject {
            database: session.identity.database.as_bytes(),
            user: session.identity.user.as_bytes(),
            application: session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default(),
        };
        Box::new((Arc::clone(&session.parameters), self.of(classes, &subject)))
    }

    fn of(&mut self, classes: &Classes, subject: &Subject<'_>) -> Arc<Standing> {
        self.looked_for.clear();
        let otherwise = classes.tagged_rules(subject, &mut self.looked_for);
        let tagged = self.looked_for.len();
        self.looked_for.push(otherwise.0.into());
        if let Some(known) = self.known.get(&*self.looked_for) {
            return Arc::clone(known);
        }
        let standing = Arc::new(classes.standing_by(&self.looked_for[..tagged], otherwise));
        if self.known.len() >= limits::STANDINGS_MAX {
            self.known.clear();
        }
        self.known.insert(self.looked_for.as_slice().into(), Arc::clone(&standing));
        standing
    }

    /// The rules have changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}
