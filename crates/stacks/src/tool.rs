//! The two programs that look at stacks.

/// What looks at stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Perf,
    Gdb,
}

impl Tool {
    /// The program's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::Perf => "perf",
            Tool::Gdb => "gdb",
        }
    }
}
