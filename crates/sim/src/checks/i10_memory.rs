//! I10: what is kept for a connection is bounded.

use pooling::{ConnId, limits};

use crate::world::World;

impl World {
    pub(crate) fn check_backlog(&mut self, conn: ConnId, len: usize) {
        if len > limits::BACKLOG_LEN_MAX {
            self.fail(10, format!("{len} bytes are kept for {conn:?}"));
        }
    }
}
