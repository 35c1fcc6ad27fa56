//! What the console's sessions ask the control plane, in a transcript's words.

use machine::{Manner, Question};

/// How a transcript says that a command has come to the control plane.
pub(crate) fn asked(who: &str, Question { text, manner, user, admin }: &Question) -> String {
    let rights = if *admin { "an admin" } else { "no admin" };
    let text = super::words::show(text);
    let manner = match manner {
        Manner::Query => "is asked".to_owned(),
        Manner::Describe { formats } => format!("describes in {formats:?}"),
        Manner::Execute { formats } => format!("executes in {formats:?}"),
    };
    format!("control {manner} {text} by {who}: {user} ({rights})")
}
