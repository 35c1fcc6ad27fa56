//! What texts mean while the server has not reported yet: it reports its parameters with ReadyForQuery only, and what stands in
//! the same batch after a SET is read by it already.

use std::sync::Arc;

use crate::parameters::{Parameters, Tracked};

/// No server has an encoding, or a switch, of this name: what is read by it is unknown.
const VAGUE: &[u8] = b"?";

/// The tracked parameters that texts are read by, where they are not those that the server has reported.
//= pg18 protocol-flow#PROTOCOL-ASYNC
#[derive(Debug, Default)]
pub struct Meaning {
    parameters: Option<Arc<Parameters>>,
}

impl Meaning {
    /// Whether nobody knows how texts are read until the server tells of its parameters.
    pub fn is_vague(&self) -> bool {
        let decisive = [Tracked::CLIENT_ENCODING, Tracked::STANDARD_STRINGS];
        self.parameters.as_ref().is_some_and(|meant| decisive.iter().any(|index| meant.get(*index) == Some(VAGUE)))
    }

    /// `None`: those that the server has reported.
    pub fn parameters(&self) -> Option<&Arc<Parameters>> {
        self.parameters.as_ref()
    }

    /// A parameter was set; `None`: its value is unknown. `reported`: what the server has reported last.
    pub(super) fn set(&mut self, index: usize, value: Option<&[u8]>, reported: &Arc<Parameters>) {
        let before = self.parameters.as_ref().unwrap_or(reported);
        let changed = value.and_then(|value| before.with(index, value)).or_else(|| before.with(index, VAGUE));
        self.parameters = changed.map(Arc::new);
    }

    /// A transaction has ended, or gone back, that may have changed it.
    pub(super) fn forget(&mut self, reported: &Arc<Parameters>) {
        if self.parameters.is_some() {
            self.set(Tracked::CLIENT_ENCODING, None, reported);
            self.set(Tracked::STANDARD_STRINGS, None, reported);
        }
    }

    /// Everything is as at the server's beginning.
    pub(super) fn reset(&mut self, first: Option<&Arc<Parameters>>) {
        self.parameters = first.map(Arc::clone);
    }

    /// The server has reported, or is gone.
    pub(super) fn end(&mut self) {
        self.parameters = None;
    }
}
