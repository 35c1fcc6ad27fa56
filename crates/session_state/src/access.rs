//! Whether a statement, or a text of several, may write or commit. The pooler may cancel a statement only if it commits nothing, and only then
//! is it certainly undone when its answer is lost.
//!
//! //= pg18 sql-set-transaction

/// Several in one batch are the greatest of them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It only reads.
    ReadOnly,
    /// It may write. Outside a transaction block it commits when it ends.
    ReadWrite,
    /// It begins a transaction block, which what stands before it in the same batch belongs to, and ends none.
    Begin,
    /// It may end a transaction block, commits at once wherever it stands, or is not known.
    #[default]
    Commit,
}
