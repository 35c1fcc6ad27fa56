//! Events and actions as lines of the trace.

use pooling::{Action, Actions, Event, Mail};

/// As much of a message's bytes as a line shows.
const SHOWN: usize = 400;

fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN)];
    format!("{} bytes: {}{}", bytes.len(), head.escape_ascii(), if bytes.len() > SHOWN { "…" } else { "" })
}

fn mail(mail: &Mail) -> String {
    let text = match mail {
        Mail::Arrive(arrival) => {
            format!("Arrive {:?} at {:?}, leftover {}", arrival.key, arrival.pool, arrival.leftover.len())
        }
        Mail::Lend(lent) => format!("Lend {:?}", lent.pool()),
        other => format!("{other:?}"),
    };
    text.chars().take(160).collect()
}

pub(crate) fn event(event: &Event<'_>) -> String {
    match event {
        Event::Received { conn, bytes } => format!("{conn:?} received {}", shown(bytes)),
        Event::Mail(letter) => format!("mail {}", mail(letter)),
        Event::Returned(letter) => format!("returned {}", mail(letter)),
        Event::Computed { conn, .. } => format!("{conn:?} computed"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn action(action: &Action, actions: &Actions, chunk: &[u8]) -> String {
    match action {
        Action::Send { conn, piece } => format!("send {conn:?} {}", shown(actions.bytes(*piece, chunk))),
        Action::Post { to, mail: letter, carrying } => format!("post {to:?} {} {carrying:?}", mail(letter)),
        Action::Tell(fact) => format!("tell {}", fact.text),
        Action::Compute { conn, .. } => format!("compute {conn:?}"),
        Action::Open { conn, address } => format!("open {conn:?} to port {}", address.port),
        other => format!("{other:?}"),
    }
}
