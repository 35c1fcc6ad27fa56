//! Events and actions as lines of the trace.

use machine::{Action, Actions, Event, Exchange, Mail, ToWorker};

/// As much of a message's bytes as a line shows.
const SHOWN: usize = 400;

fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN)];
    format!("{} bytes: {}{}", bytes.len(), head.escape_ascii(), if bytes.len() > SHOWN { "…" } else { "" })
}

fn mail(mail: &Mail) -> String {
    let text = match mail {
        Mail::ToWorker(_, ToWorker::Arrive(arrival)) => {
            format!("Arrive {:?} at {:?}, leftover {}", arrival.key, arrival.pool, arrival.leftover.len())
        }
        Mail::ToWorker(_, ToWorker::Exchange(mail)) => exchange(mail),
        Mail::ToWorker(_, mail) => format!("{mail:?}"),
        Mail::ToCoordinator(mail) => format!("{mail:?}"),
        Mail::ToDoor(_, mail) => format!("{mail:?}"),
    };
    text.chars().take(160).collect()
}

fn exchange(mail: &Exchange) -> String {
    match mail {
        Exchange::Lend(lent) => format!("Lend {:?}", lent.pool()),
        Exchange::Beg { .. } => format!("{mail:?}"),
    }
}

pub(crate) fn event(event: &Event<'_>) -> String {
    match event {
        Event::Received { conn, bytes } => format!("{conn:?} received {}", shown(bytes)),
        Event::Mail(letter) => format!("mail {}", mail(letter)),
        Event::Returned(mail) => format!("returned {}", exchange(mail)),
        Event::Computed { conn, .. } => format!("{conn:?} computed"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn action(action: &Action, actions: &Actions, chunk: &[u8]) -> String {
    match action {
        Action::Send { conn, piece } => format!("send {conn:?} {}", shown(actions.bytes(*piece, chunk))),
        Action::Post { mail: letter, carrying } => format!("post {:?} {} {carrying:?}", letter.place(), mail(letter)),
        Action::Tell(fact) => format!("tell {}", fact.text),
        Action::Compute { conn, .. } => format!("compute {conn:?}"),
        Action::Open { conn, address } => format!("open {conn:?} to port {}", address.port),
        other => format!("{other:?}"),
    }
}
