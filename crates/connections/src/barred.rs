//! A message that may not pass, because a setting forbids it.

units::reasons! {
    /// Why a message may not pass.
    #[derive(Copy, Clone, Debug, PartialEq, Eq)]
    pub enum Barred {
        /// By `max_packet_size`.
        TooLarge { len: usize, max: usize } => [PROGRAM_LIMIT_EXCEEDED] "a message of {len} bytes is longer than max_packet_size ({max})";
        /// By `disable_pqexec`.
        Query => [PROTOCOL_VIOLATION] "PQexec disallowed";
    }
}

impl Barred {
    #[must_use]
    pub fn code(&self) -> wire::SqlState {
        self.codes()[0]
    }
}
