//! The answer to a client that has applied for a home and gets none: by its door, or by the process in which it stays.

use machine::action::Actions;
use machine::mail::{Applicant, Refusal, ToDoor};
use machine::upgrade::{ToOther, ToPredecessor};

pub(crate) fn refuse(applicant: Applicant, why: Refusal, actions: &mut Actions) {
    match applicant {
        Applicant::Login { door, login } => actions.post_to_door(door, ToDoor::NotPlaced { login, why }),
        Applicant::Elsewhere { ticket } => {
            actions.tell_other(ToOther::Predecessor(ToPredecessor::NotAdmitted { ticket, why }));
        }
    }
}
