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
    /// The statement ends a transaction block, begins none, commits nothing, and is alone.
    Rollback,
    /// The text ends a transaction block, begins none, and may commit.
    End,
    /// The text may end a transaction block or begin one, commits at once even within one, or is not known.
    #[default]
    Commit,
}

impl Access {
    /// The access of a batch that has this one, once `next` is added.
    #[inline]
    #[must_use]
    pub fn then(self, next: Access) -> Access {
        match (self, next) {
            // After the end of a block comes a transaction of its own, or another block.
            (Access::Rollback | Access::End, Access::ReadWrite | Access::Begin) => Access::Commit,
            // A ROLLBACK that is not alone: if its server is lost, nobody knows how far it came.
            (Access::Rollback, Access::ReadOnly)
            | (Access::ReadOnly | Access::ReadWrite | Access::Begin, Access::Rollback) => Access::End,
            _ => self.max(next),
        }
    }

    /// Whether it may commit something by itself, in a transaction block too.
    #[inline]
    #[must_use]
    pub fn commits(self) -> bool {
        matches!(self, Access::End | Access::Commit)
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn what_follows_the_end_of_a_block_may_commit() {
        let of = |batch: &[Access]| batch.iter().copied().reduce(Access::then);
        assert_eq!(of(&[Access::ReadWrite, Access::Rollback, Access::ReadOnly]), Some(Access::End));
        assert_eq!(of(&[Access::Rollback]), Some(Access::Rollback));
        assert_eq!(of(&[Access::Begin, Access::ReadWrite, Access::End]), Some(Access::End));
        assert_eq!(of(&[Access::Rollback, Access::ReadWrite]), Some(Access::Commit));
        assert_eq!(of(&[Access::End, Access::Begin]), Some(Access::Commit));
        assert_eq!(of(&[Access::Commit, Access::ReadOnly]), Some(Access::Commit));
    }
}
