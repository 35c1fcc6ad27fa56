//! Servers that have to go: the pool has become smaller, or it is another pool's turn at a cap that both share.

use connections::server::Group;

use crate::pool::Pool;

/// Why a server of a pool that has become smaller is closed.
pub const SURPLUS: &str = "too many servers in the pool";

/// Why a server is closed that was in use when another pool's turn came.
pub const YIELDED: &str = "another pool's turn";

impl Pool {
    /// Why a server that is released now is closed, if it is one that has to go.
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

    /// A server has closed, for whatever reason: one less that has to go.
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

    /// Servers here that are not promised to anybody.
    pub fn unpromised(&self) -> u32 {
        let groups = [Group::Opening, Group::Returning, Group::Recovering, Group::Linked];
        let here: u32 = groups.into_iter().map(|group| self.count(group)).sum();
        here.saturating_sub(self.servers.lent + self.servers.yields + self.servers.surplus)
    }
}
