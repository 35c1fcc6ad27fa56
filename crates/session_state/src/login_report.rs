//! What a new server reports, once its `connect_query` has run: what clients are told at their login.
//!
//! Does not know which pool it is of.

use std::ops::Range;
use std::sync::Arc;

use wire::backend::ParameterStatus;

use crate::catalogue::counts_changes;
use crate::parameters::{Parameters, Reported, Tracked};
use crate::state::Base;

/// What a new server reports, once its `connect_query` has run: what clients are told at their login.
#[derive(Debug)]
pub struct LoginReport {
    /// All ParameterStatus, in the server's order.
    pub reported: Reported,
    /// The tracked ones among them.
    pub parameters: Arc<Parameters>,
    /// What else it begins with.
    pub base: Arc<Base>,
    /// Such a server counts what changes in its catalogues, and the counts can be relied on.
    pub counts_changes: bool,
    /// All of them as messages, for a client that has nothing of its own.
    encoded: Vec<u8>,
    /// Of each: where its message lies, and which tracked one it is.
    places: Vec<(Range<usize>, Option<usize>)>,
}

impl LoginReport {
    pub fn new(reported: Reported, parameters: Arc<Parameters>, base: Arc<Base>, tracked: &Tracked) -> LoginReport {
        let (mut encoded, mut places) = (Vec::new(), Vec::new());
        for (name, value) in &reported {
            let start = encoded.len();
            ParameterStatus { name, value }.encode(&mut encoded);
            places.push((start..encoded.len(), tracked.index(name)));
        }
        let version = reported.iter().find(|(name, _)| **name == *b"server_version");
        let counts_changes = version.is_some_and(|(_, version)| counts_changes(version));
        LoginReport { reported, parameters, base, counts_changes, encoded, places }
    }

    /// What a session that begins with these has after a RESET, where that is not what PostgreSQL gives its server then.
    pub fn reset_to(&self) -> Option<Arc<Parameters>> {
        self.base.sets_reported.then(|| Arc::clone(&self.parameters))
    }

    /// Appends the ParameterStatus messages for a client with these values; `others`: those of parameters that are not tracked.
    pub fn write(&self, own: &Parameters, others: &Reported, out: &mut Vec<u8>) {
        // What lies between two values of the client's own is copied in one run.
        let mut from = 0;
        for ((name, reported), (place, tracked)) in self.reported.iter().zip(&self.places) {
            let value = match tracked {
                Some(index) => own.get(*index).filter(|value| *value != &**reported),
                None => others.iter().find(|(other, _)| other == name).map(|(_, value)| &**value),
            };
            if let Some(value) = value {
                out.extend_from_slice(&self.encoded[from..place.start]);
                ParameterStatus { name, value }.encode(out);
                from = place.end;
            }
        }
        out.extend_from_slice(&self.encoded[from..]);
    }
}
