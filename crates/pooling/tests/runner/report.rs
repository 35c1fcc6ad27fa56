//! What was seen, line by line: sends to one connection in one line, then everything else in order.

use std::collections::BTreeMap;

use super::socket::{Role, Socket};

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) shows_mail: bool,
    /// Every line of the log, instead of all but the ones that can be told beforehand.
    pub(crate) shows_log: bool,
    /// Hosts that are to be probed.
    pub(crate) shows_probes: bool,
    /// Logins in full, instead of `welcome`.
    pub(crate) shows_startup: bool,
    lines: Vec<String>,
    /// Whose sends are being gathered.
    current: Option<usize>,
    /// Statements' names on servers, in order of appearance.
    statements: BTreeMap<String, usize>,
}

impl Report {
    pub(crate) fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    /// A line that the next one makes needless.
    pub(crate) fn forget(&mut self, line: &str) {
        self.lines.retain(|known| known != line);
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn turn_to(&mut self, socket: usize, sockets: &mut [Socket]) {
        if self.current != Some(socket) {
            self.flush(sockets);
            self.current = Some(socket);
        }
    }

    pub(crate) fn flush(&mut self, sockets: &mut [Socket]) {
        let Some(socket) = self.current.take() else { return };
        let socket = &mut sockets[socket];
        let mut items = socket.take();
        if !self.shows_startup && socket.role == Role::Client {
            items = abbreviated(items);
        }
        let hidden = socket.quiet && !self.shows_startup && socket.role == Role::Server;
        if items.is_empty() || hidden {
            return;
        }
        let line = format!("{} <- {}", socket.name, folded(items).join(" | "));
        let line = self.name_statements(&line);
        self.lines.push(line);
    }

    /// The line with the statements' names on servers in place of `weir.1`, `weir.2`, as far as they have appeared.
    pub(crate) fn with_server_names(&self, line: &str) -> String {
        let mut by_number: Vec<_> = self.statements.iter().map(|(digest, number)| (number, digest)).collect();
        by_number.sort_by(|one, other| other.cmp(one));
        by_number.iter().fold(line.to_owned(), |line, (number, digest)| {
            line.replace(&format!("weir.{number}"), &format!("pgweir_{digest}"))
        })
    }

    /// A digest as a name says nothing to a reader: `weir.1`, `weir.2`.
    fn name_statements(&mut self, line: &str) -> String {
        const PREFIX: &str = "pgweir_";
        let mut parts = line.split(PREFIX);
        let mut named = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((digest, rest)) = part.split_at_checked(32) else {
                named += PREFIX;
                named += part;
                continue;
            };
            let next = self.statements.len() + 1;
            let number = *self.statements.entry(digest.to_owned()).or_insert(next);
            named += &format!("weir.{number}{rest}");
        }
        named
    }
}

/// The messages that let a client in as one word.
fn abbreviated(items: Vec<String>) -> Vec<String> {
    let Some(start) = items.iter().position(|item| item == "AuthenticationOk") else { return items };
    let mut short = items[..start].to_vec();
    let mut rest = &items[start + 1..];
    short.push("welcome".to_owned());
    while let [first, after @ ..] = rest {
        let part = first.starts_with("ParameterStatus ") || first.starts_with("BackendKeyData");
        if !part && first != "ReadyForQuery I" {
            short.push(first.clone());
        }
        rest = after;
        if first == "ReadyForQuery I" {
            break;
        }
    }
    short.extend_from_slice(rest);
    short
}

/// Many of the same in a row, as one with a count.
fn folded(items: Vec<String>) -> Vec<String> {
    const MANY: usize = 5;
    let mut folded = Vec::new();
    for run in items.chunk_by(|one, next| one == next) {
        match run.len() {
            0..MANY => folded.extend_from_slice(run),
            count => folded.push(format!("{count} times {}", run[0])),
        }
    }
    folded
}
