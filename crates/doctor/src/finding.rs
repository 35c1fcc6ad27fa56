//! What a rule has found.

/// How much it matters; the weightiest first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It fails, or will once it is busy.
    Critical,
    /// It costs time, memory or room now.
    Warning,
    /// It is as it need not be, or will be missed when something goes wrong.
    Notice,
}

impl Weight {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Weight::Critical => "critical",
            Weight::Warning => "warning",
            Weight::Notice => "notice",
        }
    }
}

/// Texts may hold names and statements of others as they are: they are made visible where they are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name, which stays the same in later versions.
    pub rule: &'static str,
    pub weight: Weight,
    pub title: String,
    /// What was seen, with its numbers.
    pub evidence: Vec<String>,
    /// Why it matters.
    pub reason: String,
    /// Where that is written.
    pub source: &'static str,
    /// Commands or settings; what follows `--` is a comment.
    pub mend: Vec<String>,
}
