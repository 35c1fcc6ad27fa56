//! What the rules of classes leave to tags, once for all sessions of whom the same is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use queueing::classes::{Classes, Standing, Subject};
use session_state::parameters::{Parameters, Tracked};
use units::limits;

use crate::session::Session;

/// What rules leave to tags, once for all sessions of whom the same is left: rules may be many, and sessions are.
#[derive(Debug, Default)]
pub struct Standings {
    /// By the rules that ask for tags, and who fits none of them.
    known: BTreeMap<Box<[u32]>, Arc<Standing>>,
    looked_for: Vec<u32>,
}

impl Standings {
    /// Of a session as it is called now.
    #[inline(never)]
    pub fn of_session(&mut self, classes: &Classes, session: &Session) -> Box<(Arc<Parameters>, Arc<Standing>)> {
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

    /// Other rules hold.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}
