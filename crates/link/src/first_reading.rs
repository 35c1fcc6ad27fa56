//! The reading of a Query that the fast case has declined.

use session_state::state::Reading;

use crate::server::Said;

/// The reading of a Query's text, which need not be read again. The bytes at hand have this Query and nothing else.
#[derive(Copy, Clone, Debug)]
pub struct FirstReading {
    pub(crate) reading: Reading,
    pub(crate) said: Said,
}
