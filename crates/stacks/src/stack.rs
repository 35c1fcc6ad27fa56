//! A stack as a tool tells it, before names are made readable.

/// One call. What a tool does not know is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawFrame {
    pub(crate) function: Option<String>,
    /// The file of the program or library, as a path, or perf's word in brackets.
    pub(crate) module: Option<String>,
    /// Where it goes on.
    pub(crate) address: Option<u64>,
}

/// The calls of one thread at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawStack {
    /// Of the process, where the tool says it.
    pub(crate) pid: Option<u32>,
    pub(crate) thread: String,
    /// The innermost first.
    pub(crate) frames: Vec<RawFrame>,
    /// The outermost calls are missing.
    pub(crate) is_cut: bool,
}
