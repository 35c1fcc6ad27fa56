//! All commands of the console, as a closed list, and their parser.
//!
//! One command a query; case does not matter; blanks around words and one `;` at the end are allowed, comments and
//! quotes are not (`//= pgbouncer usage.md#admin-console`). Rights are checked elsewhere.

use crate::admin::Show;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Show(Show),
    Reload,
    Shutdown(When),
    /// A command of PgBouncer that is not supported yet, with its name for the error.
    NotYet(&'static str),
}

/// When `SHUTDOWN` takes effect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    ServersReleased,
    ClientsGone,
}

/// First words of the commands that are there, and what may follow each. A line each, as `SHOW HELP` has them.
pub(crate) const COMMANDS: [(&str, &[(&str, Command)]); 3] = [
    ("RELOAD", &[("", Command::Reload)]),
    ("SHUTDOWN", &[("", Command::Shutdown(When::Now))]),
    (
        "SHUTDOWN",
        &[
            ("WAIT_FOR_SERVERS", Command::Shutdown(When::ServersReleased)),
            ("WAIT_FOR_CLIENTS", Command::Shutdown(When::ClientsGone)),
        ],
    ),
];

/// Commands that are not there yet, as `SHOW HELP` has them; what follows the first word is not looked at.
pub(crate) const NOT_YET: [&str; 10] = [
    "SET key = arg",
    "PAUSE [<db>]",
    "RESUME [<db>]",
    "DISABLE <db>",
    "ENABLE <db>",
    "RECONNECT [<db>]",
    "KILL <db>",
    "KILL_CLIENT <client_id>",
    "SUSPEND",
    "WAIT_CLOSE [<db>]",
];

impl Command {
    /// The command in a query's text; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Command> {
        let text = text.trim();
        let text = text.strip_suffix(';').unwrap_or(text);
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        let first_words = NOT_YET.iter().filter_map(|usage| usage.split(' ').next());
        if let Some(name) = first_words.into_iter().find(|name| name.eq_ignore_ascii_case(first)) {
            return Some(Command::NotYet(name));
        }
        let second = words.next().unwrap_or_default();
        if words.next().is_some() {
            return None;
        }
        if first.eq_ignore_ascii_case("SHOW") {
            return Show::by_word(second).map(Command::Show);
        }
        let lines = COMMANDS.iter().filter(|(name, _)| name.eq_ignore_ascii_case(first));
        let mut commands = lines.flat_map(|(_, commands)| *commands);
        commands.find(|(name, _)| name.eq_ignore_ascii_case(second)).map(|(_, command)| command.clone())
    }

    /// Whether a user in `stats_users` may run it.
    #[must_use]
    pub(crate) fn is_for_stats_users(&self) -> bool {
        match self {
            // Its rows would hold passwords, keys and descriptors.
            Command::Show(Show::NotYet(name)) => *name != "SHOW FDS",
            Command::Show(_) => true,
            Command::Reload | Command::Shutdown(_) | Command::NotYet(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_texts() {
        let show = |show| Some(Command::Show(show));
        let table = [
            ("show pools", show(Show::Pools)),
            ("SHOW POOLS;", show(Show::Pools)),
            ("  Show\t\n pools ; ", show(Show::Pools)),
            ("show classes", show(Show::Classes)),
            ("show pins", show(Show::Pins)),
            ("show stats_totals", show(Show::StatsTotals)),
            ("show sockets", show(Show::NotYet("SHOW SOCKETS"))),
            ("reload", Some(Command::Reload)),
            ("RELOAD ;", Some(Command::Reload)),
            ("shutdown", Some(Command::Shutdown(When::Now))),
            ("SHUTDOWN wait_for_servers", Some(Command::Shutdown(When::ServersReleased))),
            ("SHUTDOWN WAIT_FOR_CLIENTS;", Some(Command::Shutdown(When::ClientsGone))),
            ("pause", Some(Command::NotYet("PAUSE"))),
            ("pause app;", Some(Command::NotYet("PAUSE"))),
            ("set pool_mode = 'session'", Some(Command::NotYet("SET"))),
            ("kill_client 7", Some(Command::NotYet("KILL_CLIENT"))),
            ("", None),
            (";", None),
            ("show", None),
            ("show foo", None),
            ("show pools x", None),
            ("show 'pools'", None),
            ("show pools; show pools", None),
            ("show pools ; ;", None),
            ("show/*c*/pools", None),
            ("-- x\nshow state", None),
            ("shutdown now", None),
            ("reload x", None),
            ("select 1", None),
        ];
        for (text, expected) in table {
            assert_eq!(Command::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn stats_users_only_look() {
        for text in ["show pools", "show classes", "show config", "show help", "show workers", "show pins"] {
            assert!(Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
        for text in ["show fds", "reload", "shutdown", "pause", "kill x", "set a=1"] {
            assert!(!Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
    }
}
