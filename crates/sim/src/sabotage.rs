//! Which invariants a deliberate fault breaks: it counts as caught when one of them is reported.

use machine::sabotage::Sabotage;

/// The invariants by which a fault may show.
#[must_use]
pub fn shows_as(fault: Sabotage) -> &'static [u8] {
    match fault {
        // A server that still owes answers is handed on: they reach the wrong client, or the wrong state does.
        Sabotage::ReleaseAtFirstReady | Sabotage::SkipDrain => &[2, 3, 9, 11],
        Sabotage::ForwardLateCancel => &[4],
        // The server is nowhere: its capacity is lost, and who waits for it waits for ever.
        Sabotage::LoseLentServer => &[6, 12],
        Sabotage::NewestWaiterFirst | Sabotage::OwnWaitersFirst => &[7],
        Sabotage::OldestOfAnyClass => &[14],
        Sabotage::LendWhatWasLent => &[6],
        Sabotage::LinkBeforeFatal => &[8],
        // What is struck is another's query, or one that the client did not ask to cancel: its answer is not the twin's.
        Sabotage::HalfASecret => &[4, 11],
        Sabotage::KeepUserLimit | Sabotage::RejuvenateLent => &[5],
        Sabotage::LeaveCopyOpen | Sabotage::OneTooFew => &[12],
        Sabotage::UnlistenForAll => &[9, 11],
        Sabotage::KeepStatements => &[11],
        Sabotage::WithholdNews => &[9],
        Sabotage::ReadOn => &[10],
        Sabotage::LeaveReserve => &[6],
        Sabotage::ForgiveIdleTransactions | Sabotage::RemoveSilently => &[8],
    }
}
