//! What a check may read: the whole world.

use crate::course::{Course, Stage};
use crate::crowd::Crowd;
use crate::history::History;
use crate::machines::Machines;
use crate::network::Network;
use crate::plan::Plan;
use crate::pooler::Pooler;
use crate::postgres::Postgres;

#[derive(Copy, Clone, Debug)]
pub(crate) struct WorldView<'w> {
    pub(crate) plan: &'w Plan,
    pub(crate) now: u64,
    pub(crate) stage: Stage,
    /// When a server last died, or a login at PostgreSQL last failed.
    pub(crate) trouble_at: Option<u64>,
    /// The same without what is known to last.
    pub(crate) struck_at: Option<u64>,
    pub(crate) network: &'w Network,
    pub(crate) machines: &'w Machines,
    pub(crate) postgres: &'w Postgres,
    pub(crate) crowd: &'w Crowd,
    /// The history of each database, if databases have two hosts.
    pub(crate) histories: &'w [History],
}

impl<'w> WorldView<'w> {
    pub(crate) fn new(
        course: &'w Course,
        pooler: &'w Pooler,
        postgres: &'w Postgres,
        crowd: &'w Crowd,
        histories: &'w [History],
    ) -> WorldView<'w> {
        WorldView {
            plan: &course.plan,
            now: course.now(),
            stage: course.stage,
            trouble_at: course.trouble_at(),
            network: &pooler.network,
            machines: &pooler.machines,
            postgres,
            crowd,
            struck_at: course.struck_at(),
            histories,
        }
    }
}
