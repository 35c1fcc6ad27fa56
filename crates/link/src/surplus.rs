//! Servers that have to be closed: the pool has become smaller, or another pool is entitled to them under a cap that
//! both share.

use connections::server::Group;

use crate::pool::Pool;

/// Why a server of a pool that has become smaller is closed.
pub const SURPLUS: &str = "too many servers in the pool";

/// Why a server is closed that was in use when another pool became entitled to it.
pub const YIELDED: &str = "another pool's turn";

impl Pool {
    /// Why a server that is released now is closed, if one has to be.
    #[inline]
    pub fn takes_back(&mut self) -> Option<&'static str> {
        if self.servers.yields + self.servers.surplus == 0 {
            return None;
        }
        if self.servers.yields > 0 {
            self.servers.yields -= 1;
            return Some(YIELDED);
        }
        self.servers.surplus -= 1;
        Some(SURPLUS)
    }

    /// A server was closed for any reason: one fewer has to be closed.
    pub fn closed(&mut self, why: &str) {
        if why == SURPLUS || why == YIELDED {
            return;
        }
        if self.servers.yields > 0 {
            self.servers.yields -= 1;
        } else {
            self.servers.surplus = self.servers.surplus.saturating_sub(1);
        }
    }

    /// Servers here that do not have to be closed already, and are not idle.
    pub fn unpromised(&self) -> u32 {
        let groups = [Group::Opening, Group::Returning, Group::Recovering, Group::Linked];
        let here: u32 = groups.into_iter().map(|group| self.count(group)).sum();
        here.saturating_sub(self.servers.lent + self.servers.yields + self.servers.surplus)
    }
}
