//! Which invariants a deliberate fault breaks: it counts as caught when one of them is reported.

use machine::sabotage::Sabotage;

/// The invariants that a fault may violate.
#[must_use]
pub fn shows_as(fault: Sabotage) -> &'static [u8] {
    match fault {
        // A server that still owes answers is linked to another session: its answers or its state reach the wrong
        // client.
        Sabotage::ReleaseAtFirstReady | Sabotage::SkipDrain => &[2, 3, 9, 11],
        Sabotage::ForwardLateCancel | Sabotage::PassOnTwice | Sabotage::CancelCommits => &[4],
        // A later query of the same client is interrupted, which it has not asked for.
        Sabotage::EndCancelEarly => &[4, 11],
        // The server is lost: so is its capacity, and a session that waits for it waits for ever.
        Sabotage::LoseLentServer => &[6, 12],
        Sabotage::NewestWaiterFirst | Sabotage::OwnWaitersFirst => &[7],
        Sabotage::OldestOfAnyClass => &[14],
        Sabotage::LendWhatWasLent => &[6],
        Sabotage::LinkBeforeFatal => &[8],
        // The cancel interrupts another client's query, or one that the client did not want to cancel: the answer
        // differs from the twin's.
        Sabotage::HalfASecret => &[4, 11],
        Sabotage::KeepUserLimit | Sabotage::RejuvenateLent => &[5],
        Sabotage::LeaveCopyOpen | Sabotage::OneTooFew | Sabotage::KeepTokensOfMembers => &[12],
        Sabotage::UnlistenForAll => &[9, 11],
        Sabotage::KeepStatements => &[11],
        Sabotage::WithholdNews => &[9],
        Sabotage::ReadOn => &[10],
        Sabotage::LeaveReserve => &[6],
        Sabotage::ReadSuspended => &[16],
        Sabotage::OverlookCancel => &[18],
        Sabotage::WithholdFailedHosts => &[17],
        Sabotage::TakeAnyRole => &[19],
        // A client in a block that has failed gets the answer of one that has not.
        Sabotage::ForgetLostBlock | Sabotage::KeepSavepoints => &[11, 26],
        // The client that was sent an answer behind a lost one may notice, too.
        Sabotage::RetryWrites => &[24],
        Sabotage::DenyCommits => &[27],
        Sabotage::LinkLentAnywhere => &[20],
        Sabotage::ForgetTimelines => &[21],
        // A standby is chosen, and its servers are refused as what they are.
        Sabotage::TakeSilenceForPromotion => &[21, 19],
        Sabotage::HoldForEver => &[22],
        Sabotage::KeepSilentServers => &[23],
        Sabotage::SkipRamp => &[25],
        Sabotage::ForgiveIdleTransactions | Sabotage::RemoveSilently => &[8],
    }
}
