//! What a new server reports, once its `connect_query` has run: what clients are told at their login.
//!
//! Does not know which pool it is of.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use wire::backend::ParameterStatus;

use crate::catalogue::counts_changes;
use crate::parameters::{Parameters, Reported, Tracked};

/// What a new server reports, once its `connect_query` has run: what clients are told at their login.
#[derive(Debug)]
pub struct LoginReport {
    /// All ParameterStatus, in the server's order.
    pub reported: Reported,
    /// The tracked ones among them.
    pub parameters: Arc<Parameters>,
    /// The tracked parameters before `connect_query`: PostgreSQL's RESET brings them back on the server.
    pub at_login: Arc<Parameters>,
    /// How often servers of its pool have begun to report other values than before. A session that was told what another
    /// edition says gets the values of this one, where it has set none itself.
    pub edition: NonZeroU32,
    /// Such a server counts what changes in its catalogues, and the counts can be relied on.
    pub counts_changes: bool,
    /// All of them as messages, for a client that has nothing of its own.
    encoded: Vec<u8>,
    /// Of each: where its message lies, and which tracked one it is.
    places: Vec<(Range<usize>, Option<usize>)>,
}

impl LoginReport {
    pub fn new(
        reported: Reported,
        parameters: Arc<Parameters>,
        at_login: Arc<Parameters>,
        tracked: &Tracked,
    ) -> LoginReport {
        let (mut encoded, mut places) = (Vec::new(), Vec::new());
        for (name, value) in &reported {
            let start = encoded.len();
            ParameterStatus { name, value }.encode(&mut encoded);
            places.push((start..encoded.len(), tracked.index(name)));
        }
        let version = reported.iter().find(|(name, _)| **name == *b"server_version");
        let counts_changes = version.is_some_and(|(_, version)| counts_changes(version));
        LoginReport { reported, parameters, at_login, edition: NonZeroU32::MIN, counts_changes, encoded, places }
    }

    /// A copy with other values of the tracked parameters, and other ones before `connect_query`.
    pub fn with(&self, parameters: Arc<Parameters>, at_login: Arc<Parameters>, tracked: &Tracked) -> LoginReport {
        let mut reported = self.reported.clone();
        for (name, known) in &mut reported {
            if let Some(value) = tracked.index(name).and_then(|index| parameters.get(index)) {
                *known = value.into();
            }
        }
        LoginReport::new(reported, parameters, at_login, tracked)
    }

    /// A copy with another value of a parameter that is not tracked. `None`: servers do not report it, or this is its value.
    pub fn with_untracked(&self, name: &[u8], value: &[u8], tracked: &Tracked) -> Option<LoginReport> {
        let mut reported = self.reported.clone();
        let known = reported.iter_mut().find(|(known, before)| **known == *name && **before != *value)?;
        known.1 = value.into();
        Some(LoginReport::new(reported, Arc::clone(&self.parameters), Arc::clone(&self.at_login), tracked))
    }

    /// A copy for another worker: `intern` shares its values there.
    pub fn interned(&self, mut intern: impl FnMut(&Parameters) -> Arc<Parameters>, tracked: &Tracked) -> LoginReport {
        let [parameters, at_login] = [&self.parameters, &self.at_login].map(|values| intern(values));
        LoginReport { edition: self.edition, ..LoginReport::new(self.reported.clone(), parameters, at_login, tracked) }
    }

    /// A `connect_query` has changed parameters that servers report.
    fn sets_reported(&self) -> bool {
        self.at_login != self.parameters
    }

    /// Whether both report the same values.
    pub fn is_same(&self, other: &LoginReport) -> bool {
        self.reported == other.reported
    }

    /// The parameters of a session after RESET, if PostgreSQL's RESET gives its server other ones.
    pub fn reset_to(&self) -> Option<Arc<Parameters>> {
        self.sets_reported().then(|| Arc::clone(&self.parameters))
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
