//! What a tracker needs to know besides what its session says.

use std::sync::Arc;

use units::Time;

use crate::parameters::{Parameters, Tracked};
use crate::prepared::StatementNames;
use crate::state::Base;
use crate::state::prepared::OnServer;

/// In which a server tells what a session has left on it.
#[derive(Copy, Clone, Debug)]
pub struct Circumstances<'a> {
    pub now: Time,
    /// What its pool's servers begin with.
    pub base: &'a Base,
    /// Its row is written in UTF-8.
    pub is_utf8: bool,
    /// It has answered other questions.
    pub is_readable: bool,
    /// As [`Places::local_rights`].
    pub local_rights: bool,
}

/// Where what a statement did is noted besides.
pub struct Places<'a> {
    pub now: Time,
    pub on_server: &'a mut OnServer,
    /// The server listens to something.
    pub listens: &'a mut bool,
    pub names: Option<&'a mut StatementNames>,
    pub tracked: &'a Tracked,
    /// Of the tracked parameters, what the server has reported last, and what its pool's servers begin with.
    pub reported: &'a Arc<Parameters>,
    pub first: Option<&'a Arc<Parameters>>,
    /// Of all others, what they begin with.
    pub base: &'a Base,
    /// Which role's rights it has is not known: another's may hold for the transaction alone.
    pub local_rights: bool,
}
