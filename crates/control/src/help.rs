//! `SHOW HELP`: a notice, not a table. It says what the tables of commands say.
//= pgbouncer usage.md#admin-console

use crate::admin::Show;
use crate::command;

/// The notice's message.
pub(crate) const MESSAGE: &str = "Console usage";

/// The syntax of the parts behind a SHOW.
const PARTS: [&str; 5] = [
    "SHOW <any of these> [LIKE '<pattern>'] [FORMAT CSV|JSON]",
    "SHOW WAITS [BY EVENT|EVENT_CLASS|POOL|CLASS|STATEMENT|BLOCKER|TAG <key>] [<time>]",
    "SHOW WHY [<time>]",
    "SHOW HISTORY [<time>]",
    "<time>: LAST <number>[s|min|h|d], FROM '<clock>', TO '<clock>', FROM '<clock>' LAST …; <clock>: 14:05, 2026-07-01 14:05:00, 2026-07-01T12:05:00Z",
];

/// The notice's detail: a line for each line of the tables.
pub(crate) fn detail() -> String {
    let shows = Show::lines().map(|line| format!("SHOW {}", joined(line.map(|(word, _)| word))));
    let parts = PARTS.map(str::to_owned).into_iter();
    let commands = command::COMMANDS.iter().map(|(first, more)| match joined(more.iter().map(|(second, _)| *second)) {
        second if second.is_empty() => (*first).to_owned(),
        second => format!("{first} {second}"),
    });
    let lines = shows.chain(parts).chain(commands).chain(command::ORDERS.map(str::to_owned));
    lines.fold(String::new(), |text, line| text + "\n\t" + &line)
}

fn joined(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join("|")
}
