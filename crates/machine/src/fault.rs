//! The deliberate faults that show whether a check finds them.

/// One fault.
#[cfg(debug_assertions)]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A server is released at the first ReadyForQuery, whatever is still owed on it (breaks I2, I3).
    ReleaseAtFirstReady,
    /// A cancel is forwarded to the server a session had last, although that is another session's now (breaks I4).
    ForwardLateCancel,
    /// A lent server never arrives (breaks I12).
    LoseLentServer,
    /// A server whose client vanished is handed out without reading what it still owes (breaks I2, I3).
    SkipDrain,
    /// The newest waiter is served first (breaks I7).
    NewestWaiterFirst,
    /// A worker's own waiters are served before any stranger (breaks I7 between workers).
    OwnWaitersFirst,
    /// The oldest waiter of any class is served first, whatever its class has had (breaks I14).
    OldestOfAnyClass,
    /// A server that was lent may be lent on before it has served anybody: it travels for ever (breaks I6).
    LendWhatWasLent,
    /// Clients' events come before servers', so that a session is linked to a server whose FATAL is unread. The
    /// fault is the caller's: nothing in this crate changes.
    LinkBeforeFatal,
    /// Of a cancel's secret only one half is compared (breaks I4).
    HalfASecret,
    /// A reload does not change max_user_connections (breaks I5).
    KeepUserLimit,
    /// A COPY whose client has gone is not ended (breaks I12).
    LeaveCopyOpen,
    /// One session's UNLISTEN is one for all (breaks I9, I11).
    UnlistenForAll,
    /// An idle client gets notifications with its next request only (breaks I9).
    WithholdNews,
    /// A server is read although its client does not take what it says (breaks I10).
    ReadOn,
    /// A pool keeps one server fewer than min_pool_size (breaks I12).
    OneTooFew,
    /// No worker requests the reserve (breaks I6).
    LeaveReserve,
    /// A server that is lent is as good as new (breaks I5).
    RejuvenateLent,
    /// Statements are shared across a change of their tables (breaks I11).
    KeepStatements,
    /// Clients may stay idle in a transaction for as long as they like (breaks I8).
    ForgiveIdleTransactions,
    /// Clients of a removed database get no error (breaks I8).
    RemoveSilently,
    /// A cancel request is passed on to its peer twice (breaks I4).
    PassOnTwice,
    /// Servers are read although SUSPEND is in force (breaks I16).
    ReadSuspended,
    /// A commit that takes too long is cancelled (breaks I4).
    CancelCommits,
    /// A client is told that its cancel is over as soon as it has come (breaks I4).
    EndCancelEarly,
    /// The tokens of a process that has left are counted as before (breaks I12).
    KeepTokensOfMembers,
    /// A cancel that begins is not noted among what makes a link special (breaks I18).
    OverlookCancel,
    /// Only the worker that has observed it knows that a host has failed (breaks I17).
    WithholdFailedHosts,
    /// The role of a new server is not judged (breaks I19).
    TakeAnyRole,
    /// The rest of a block whose server was lost goes to another server (breaks I26).
    ForgetLostBlock,
    /// With retry_reads, what may write is sent again too (breaks I24).
    RetryWrites,
    /// A client whose COMMIT was under way when its server was lost gets 08006, as if nothing could have been committed (breaks I27).
    DenyCommits,
    /// In such a block ROLLBACK TO a savepoint succeeds, as if the savepoint were there (breaks I26).
    KeepSavepoints,
    /// A server that was lent is not compared with the decision about the primary (breaks I20).
    LinkLentAnywhere,
    /// The coordinator does not know timelines, so any host that accepts writes is a successor (breaks I21).
    ForgetTimelines,
    /// A host that does not answer is followed by the other ones, standbys included (breaks I21, I19).
    TakeSilenceForPromotion,
    /// Clients are held for a host though failover_wait is over (breaks I22).
    HoldForEver,
    /// Servers at a host that does not answer are kept (breaks I23).
    KeepSilentServers,
    /// A host that was lost is met by all logins at once (breaks I25).
    SkipRamp,
}

#[cfg(debug_assertions)]
impl Sabotage {
    pub const ALL: [Sabotage; 39] = [
        Sabotage::ReleaseAtFirstReady,
        Sabotage::ForwardLateCancel,
        Sabotage::LoseLentServer,
        Sabotage::SkipDrain,
        Sabotage::NewestWaiterFirst,
        Sabotage::OwnWaitersFirst,
        Sabotage::OldestOfAnyClass,
        Sabotage::LendWhatWasLent,
        Sabotage::LinkBeforeFatal,
        Sabotage::HalfASecret,
        Sabotage::KeepUserLimit,
        Sabotage::LeaveCopyOpen,
        Sabotage::UnlistenForAll,
        Sabotage::WithholdNews,
        Sabotage::ReadOn,
        Sabotage::OneTooFew,
        Sabotage::LeaveReserve,
        Sabotage::RejuvenateLent,
        Sabotage::KeepStatements,
        Sabotage::ForgiveIdleTransactions,
        Sabotage::RemoveSilently,
        Sabotage::PassOnTwice,
        Sabotage::ReadSuspended,
        Sabotage::CancelCommits,
        Sabotage::EndCancelEarly,
        Sabotage::KeepTokensOfMembers,
        Sabotage::OverlookCancel,
        Sabotage::WithholdFailedHosts,
        Sabotage::TakeAnyRole,
        Sabotage::ForgetLostBlock,
        Sabotage::RetryWrites,
        Sabotage::DenyCommits,
        Sabotage::KeepSavepoints,
        Sabotage::LinkLentAnywhere,
        Sabotage::ForgetTimelines,
        Sabotage::TakeSilenceForPromotion,
        Sabotage::HoldForEver,
        Sabotage::KeepSilentServers,
        Sabotage::SkipRamp,
    ];
}

/// The name of a fault at the place in the code that has it. Without debug assertions it has no effect.
#[cfg(debug_assertions)]
pub use Sabotage as Fault;

#[cfg(not(debug_assertions))]
#[derive(Copy, Clone)]
pub enum Fault {
    HalfASecret,
    KeepUserLimit,
    LeaveCopyOpen,
    UnlistenForAll,
    WithholdNews,
    ReadOn,
    OneTooFew,
    LeaveReserve,
    RejuvenateLent,
    KeepStatements,
    ForgiveIdleTransactions,
    RemoveSilently,
    PassOnTwice,
    ReadSuspended,
    CancelCommits,
    EndCancelEarly,
    KeepTokensOfMembers,
    OverlookCancel,
    WithholdFailedHosts,
    TakeAnyRole,
    ForgetLostBlock,
    RetryWrites,
    DenyCommits,
    KeepSavepoints,
    LinkLentAnywhere,
    ForgetTimelines,
    TakeSilenceForPromotion,
    HoldForEver,
    KeepSilentServers,
    SkipRamp,
}
