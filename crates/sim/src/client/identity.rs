//! A client's identity and the database and parameters that it asks for.

use settings::{Fidelity, PoolMode};
use wire::backend::Notification;

use crate::plan::{ANY_NAME, Plan};
use crate::random::Random;

#[derive(Debug)]
pub struct Identity {
    pub number: u32,
    pub mode: PoolMode,
    /// Its index in the plan.
    pub(super) database: usize,
    /// The name of the database it asks for.
    pub name: String,
    pub user: usize,
    /// Its role at PostgreSQL.
    pub(super) login: String,
    /// Its state must follow it from server to server.
    pub(super) followed: bool,
    /// The tracked parameters in its startup packet.
    pub(super) wishes: Vec<usize>,
}

impl Identity {
    pub(super) fn draw(number: u32, plan: &Plan, random: &mut Random) -> Identity {
        let database = random.below(plan.databases.len() as u64) as usize;
        let user = random.below(plan.users.len() as u64) as usize;
        let name = match plan.databases[database].name.as_str() {
            ANY_NAME => format!("auto{}", random.below(6)),
            name => name.to_owned(),
        };
        let login = plan.users[plan.databases[database].forced.unwrap_or(user)].name.clone();
        let key = units::PoolKey { database: name.as_str().into(), user: login.as_str().into() };
        let followed = plan.settings.global.pools.pool_fidelity != Fidelity::Classic;
        Identity { number, mode: plan.mode(&key), database, name, user, login, followed, wishes: Vec::new() }
    }

    /// Whether its server may die without ending the session.
    pub(super) fn may_lose(&self, plan: &Plan) -> bool {
        plan.faults.every > 0 && self.mode != PoolMode::Session
    }

    /// The channel that all clients of its database share, where they do.
    pub(super) fn shared_channel(&self) -> String {
        format!("all_of_{}", self.name)
    }

    /// Whether this is another client's notification on the channel that all clients of a database share.
    pub(super) fn is_news_of_others(&self, body: &[u8]) -> bool {
        let Ok(said) = Notification::decode(body) else { return false };
        let own = format!("c{}.", self.number);
        said.channel == self.shared_channel().as_bytes() && !said.payload.starts_with(own.as_bytes())
    }
}
