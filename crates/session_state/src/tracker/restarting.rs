//! Tracked parameters that the statements being answered have reset, by index: the server has its own values, and the session what
//! it began with; but what a statement has set behind that is as it was set.

#[derive(Copy, Clone, Debug, Default)]
pub struct Restarting {
    reset: u64,
    /// Reset, and set behind that.
    set: u64,
}

fn bit(index: usize) -> u64 {
    1 << (index & 63)
}

impl Restarting {
    pub(super) fn reset(&mut self, index: usize) {
        self.reset |= bit(index);
        self.set &= !bit(index);
    }

    pub(super) fn reset_all(&mut self) {
        *self = Restarting { reset: u64::MAX, set: 0 };
    }

    pub(super) fn set(&mut self, index: usize) {
        let was_reset = self.reset & bit(index);
        self.reset &= !was_reset;
        self.set |= was_reset;
    }

    pub fn is_any(&self) -> bool {
        self.reset | self.set != 0
    }

    /// Whether a parameter that is reported now is so because the client has reset it.
    pub fn is_reset(&self, index: usize) -> bool {
        self.reset & bit(index) != 0
    }

    /// Whether the client has set it behind that. A server before PostgreSQL 14 may have reported it when it was still taken for reset.
    pub fn is_set(&self, index: usize) -> bool {
        self.set & bit(index) != 0
    }
}
