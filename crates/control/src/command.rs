//! All commands of the console, as a closed list, and their parser.
//!
//! One command a query; case does not matter; blanks around words and one `;` at the end are allowed, comments and
//! quotes are not (`//= pgbouncer usage.md#admin-console`). Rights are checked elsewhere.

use settings::nearest;

use crate::admin::Show;
use crate::admin::shown::Shown;
use crate::courtesy::Courtesy;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Show(Shown),
    /// What drivers send without being asked.
    Courtesy(Courtesy),
    Reload,
    Shutdown(When),
    Order(Order),
    Set {
        key: String,
        value: String,
    },
}

/// What is ordered for one database (`Some`) or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Pause(Option<String>),
    Resume(Option<String>),
    Suspend,
    Disable(String),
    Enable(String),
    Reconnect(Option<String>),
    Kill(Option<String>),
    /// The id of SHOW CLIENTS, as typed.
    KillClient(String),
    /// As for [`Order::KillClient`].
    KillQuery(String),
    WaitClose(Option<String>),
    /// A host, perhaps with a port behind a colon, as typed.
    Promoted(String),
    /// As for [`Order::Promoted`].
    Demoted(String),
}

impl Order {
    /// The command's word, which is its tag, too.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Order::Pause(_) => "PAUSE",
            Order::Resume(_) => "RESUME",
            Order::Suspend => "SUSPEND",
            Order::Disable(_) => "DISABLE",
            Order::Enable(_) => "ENABLE",
            Order::Reconnect(_) => "RECONNECT",
            Order::Kill(_) => "KILL",
            Order::KillClient(_) => "KILL_CLIENT",
            Order::KillQuery(_) => "KILL_QUERY",
            Order::WaitClose(_) => "WAIT_CLOSE",
            Order::Promoted(_) => "PROMOTED",
            Order::Demoted(_) => "DEMOTED",
        }
    }

    /// The database that it names.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        match self {
            Order::Disable(name) | Order::Enable(name) => Some(name),
            Order::Pause(name) | Order::Resume(name) | Order::Reconnect(name) => name.as_deref(),
            Order::Kill(name) | Order::WaitClose(name) => name.as_deref(),
            Order::KillClient(_) | Order::KillQuery(_) | Order::Suspend => None,
            Order::Promoted(_) | Order::Demoted(_) => None,
        }
    }

    /// The host that it names.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Order::Promoted(host) | Order::Demoted(host) => Some(host),
            _ => None,
        }
    }

    fn parse(word: &str, argument: Option<String>) -> Option<Order> {
        Some(match word.to_ascii_uppercase().as_str() {
            "PAUSE" => Order::Pause(argument),
            "RESUME" => Order::Resume(argument),
            // It is for all databases.
            "SUSPEND" if argument.is_none() => Order::Suspend,
            // Without a name none is meant, which is told.
            "DISABLE" => Order::Disable(argument.unwrap_or_default()),
            "ENABLE" => Order::Enable(argument.unwrap_or_default()),
            "RECONNECT" => Order::Reconnect(argument),
            "KILL" => Order::Kill(argument),
            // Without an id it is an id that nobody has, as in PgBouncer.
            "KILL_CLIENT" => Order::KillClient(argument.unwrap_or_default()),
            "KILL_QUERY" => Order::KillQuery(argument.unwrap_or_default()),
            "WAIT_CLOSE" => Order::WaitClose(argument),
            // Without a host none is meant, which is told.
            "PROMOTED" => Order::Promoted(argument.unwrap_or_default()),
            "DEMOTED" => Order::Demoted(argument.unwrap_or_default()),
            _ => return None,
        })
    }
}

/// The one argument of an order: a bare word, or any text in double or single quotes, in which a quote is written twice. `None`: it is
/// more, or not closed.
pub(crate) fn argument(text: &str) -> Option<Option<String>> {
    let text = text.trim();
    let Some(quote) = text.chars().next() else { return Some(None) };
    if quote != '"' && quote != '\'' {
        let is_bare = !text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';'));
        return is_bare.then(|| Some(text.to_owned()));
    }
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let name = inner.replace(&format!("{quote}{quote}"), "\0");
    let is_closed = !name.contains(quote) && !inner.contains('\0');
    is_closed.then(|| Some(name.replace('\0', &quote.to_string())))
}

/// What follows SET: `key = value`, `key=value` or `key TO value`. A value in single quotes may hold anything, one without is one word or none.
fn setting(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let end = text.find(|c: char| c == '=' || c.is_whitespace())?;
    let (key, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => value,
        None => {
            let (word, value) = rest.split_once(char::is_whitespace)?;
            word.eq_ignore_ascii_case("TO").then_some(value)?
        }
    };
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = argument(value)?.or_else(|| Some(String::new())).filter(|_| is_name)?;
    Some((key.to_ascii_lowercase(), value))
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

/// Orders, as `SHOW HELP` has them.
pub(crate) const ORDERS: [&str; 13] = [
    "SET key = arg",
    "PAUSE [<db>]",
    "RESUME [<db>]",
    "SUSPEND",
    "DISABLE <db>",
    "ENABLE <db>",
    "RECONNECT [<db>]",
    "KILL [<db>]",
    "KILL_CLIENT <client_id>",
    "KILL_QUERY <client_id>",
    "WAIT_CLOSE [<db>]",
    "PROMOTED <host>[:<port>]",
    "DEMOTED <host>[:<port>]",
];

/// The command that a mistyped text may mean, without what follows its word: `SHOW POOLS` for `show pool`.
pub(crate) fn suggestion(text: &str) -> Option<String> {
    let text = text.trim_ascii();
    let mut words = text.strip_suffix(';').unwrap_or(text).split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next());
    let firsts = ["SHOW"].into_iter().chain(COMMANDS.iter().map(|(first, _)| *first)).chain(orders());
    let firsts: Vec<&str> = firsts.collect();
    let shows: Vec<&str> = Show::lines().flatten().map(|(word, _)| word).collect();
    match second {
        None => {
            let is_show = shows.iter().find(|word| word.eq_ignore_ascii_case(first));
            is_show.map(|word| format!("SHOW {word}")).or_else(|| nearest(first, &firsts).map(str::to_owned))
        }
        Some(second) => {
            let first = nearest(first, &firsts)?;
            let seconds: Vec<&str> = COMMANDS
                .iter()
                .filter(|(name, _)| *name == first)
                .flat_map(|(_, more)| *more)
                .map(|(name, _)| *name)
                .collect();
            match first {
                "SHOW" => nearest(second, &shows).map(|word| format!("SHOW {word}")),
                // Its argument is a name or a number that nobody can guess.
                _ if seconds.is_empty() => Some(first.to_owned()),
                _ => nearest(second, &seconds).map(|second| format!("{first} {second}")),
            }
        }
    }
}

/// The words of [`ORDERS`].
fn orders() -> impl Iterator<Item = &'static str> {
    ORDERS.iter().filter_map(|usage| usage.split(' ').next())
}

impl Command {
    /// The command in a query's text; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Command> {
        if let Some(courtesy) = Courtesy::parse(text) {
            return Some(Command::Courtesy(courtesy));
        }
        let text = text.trim_ascii();
        let text = text.strip_suffix(';').unwrap_or(text);
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if orders().any(|word| word.eq_ignore_ascii_case(first)) {
            let rest = text.trim_start().strip_prefix(first)?;
            if first.eq_ignore_ascii_case("SET") {
                return setting(rest).map(|(key, value)| Command::Set { key, value });
            }
            let argument = argument(rest)?.filter(|name| !name.is_empty() || rest.trim().is_empty());
            if argument.is_none() && !rest.trim().is_empty() {
                return None;
            }
            return Order::parse(first, argument).map(Command::Order);
        }
        // PgBouncer has both words for it.
        if first.eq_ignore_ascii_case("SHOW") || first.eq_ignore_ascii_case("SELECT") {
            return Shown::parse(text.trim_start().strip_prefix(first)?).map(Command::Show);
        }
        let second = words.next().unwrap_or_default();
        if words.next().is_some() {
            return None;
        }
        let lines = COMMANDS.iter().filter(|(name, _)| name.eq_ignore_ascii_case(first));
        let mut commands = lines.flat_map(|(_, commands)| *commands);
        commands.find(|(name, _)| name.eq_ignore_ascii_case(second)).map(|(_, command)| command.clone())
    }

    /// Whether a user in `stats_users` may run it.
    #[must_use]
    pub(crate) fn is_for_stats_users(&self) -> bool {
        match self {
            Command::Show(shown) => shown.show.is_for_stats_users(),
            Command::Courtesy(_) => true,
            Command::Reload | Command::Shutdown(_) | Command::Order(_) => false,
            Command::Set { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // tidy: a table
    #[test]
    fn a_table_of_texts() {
        let show = |show| Some(Command::Show(Shown::all(show)));
        let order = |order| Some(Command::Order(order));
        let app = || Some("app".to_owned());
        let set = |key: &str, value: &str| Some(Command::Set { key: key.to_owned(), value: value.to_owned() });
        let table = [
            ("show pools", show(Show::Pools)),
            ("SHOW POOLS;", show(Show::Pools)),
            ("select pools", show(Show::Pools)),
            ("SELECT Pools;", show(Show::Pools)),
            ("select 1", None),
            ("select * from pools", None),
            ("  Show\t\n pools ; ", show(Show::Pools)),
            ("show classes", show(Show::Classes)),
            ("show pins", show(Show::Pins)),
            ("show stats_totals", show(Show::StatsTotals)),
            ("show sockets", show(Show::Sockets)),
            ("reload", Some(Command::Reload)),
            ("RELOAD ;", Some(Command::Reload)),
            ("shutdown", Some(Command::Shutdown(When::Now))),
            ("SHUTDOWN wait_for_servers", Some(Command::Shutdown(When::ServersReleased))),
            ("SHUTDOWN WAIT_FOR_CLIENTS;", Some(Command::Shutdown(When::ClientsGone))),
            ("pause", order(Order::Pause(None))),
            ("pause app;", order(Order::Pause(app()))),
            (" Pause\n app ; ", order(Order::Pause(app()))),
            ("resume \"app\"", order(Order::Resume(app()))),
            ("resume 'app';", order(Order::Resume(app()))),
            ("reconnect \"a \"\"b\"\"; c\"", order(Order::Reconnect(Some("a \"b\"; c".to_owned())))),
            ("disable app", order(Order::Disable("app".to_owned()))),
            ("ENABLE my-app.x", order(Order::Enable("my-app.x".to_owned()))),
            ("kill", order(Order::Kill(None))),
            ("kill_client 7", order(Order::KillClient("7".to_owned()))),
            ("Kill_Query 7;", order(Order::KillQuery("7".to_owned()))),
            ("wait_close", order(Order::WaitClose(None))),
            ("promoted db2", order(Order::Promoted("db2".to_owned()))),
            ("Demoted [::1]:5433;", order(Order::Demoted("[::1]:5433".to_owned()))),
            ("promoted '/run/postgresql'", order(Order::Promoted("/run/postgresql".to_owned()))),
            ("promoted", order(Order::Promoted(String::new()))),
            ("promoted db1 db2", None),
            ("disable", order(Order::Disable(String::new()))),
            ("kill_client", order(Order::KillClient(String::new()))),
            ("pause app other", None),
            ("pause \"app", None),
            ("pause \"\"", None),
            ("pause \"a\"b\"", None),
            ("pause app; pause app", None),
            ("pauseapp", None),
            ("set pool_mode = 'session'", set("pool_mode", "session")),
            ("SET Pool_Mode=session;", set("pool_mode", "session")),
            ("set auth_query to 'select ''a; b'' '", set("auth_query", "select 'a; b' ")),
            ("set verbose TO 2 ;", set("verbose", "2")),
            ("set logfile = ''", set("logfile", "")),
            ("set logfile =", set("logfile", "")),
            ("set verbose 2", None),
            ("set verbose", None),
            ("set = 2", None),
            ("set verbose = 2 3", None),
            ("set a.b = 2", None),
            ("begin", Some(Command::Courtesy(Courtesy::Tag("BEGIN")))),
            ("suspend", order(Order::Suspend)),
            ("suspend app", None),
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
    fn a_mistyped_command_has_a_suggestion_where_it_is_near_one() {
        let table = [
            ("show pool", Some("SHOW POOLS")),
            ("shwo pools;", Some("SHOW POOLS")),
            ("Show Client like 'x'", Some("SHOW CLIENTS")),
            ("show lock", Some("SHOW LOCKS")),
            ("pools", Some("SHOW POOLS")),
            ("why;", Some("SHOW WHY")),
            ("relaod", Some("RELOAD")),
            ("resme app", Some("RESUME")),
            ("kill_clinet 7", Some("KILL_CLIENT")),
            ("promote db2", Some("PROMOTED")),
            ("shutdown wait_for_server", Some("SHUTDOWN WAIT_FOR_SERVERS")),
            ("shutdown now", None),
            ("show nothing", None),
            ("select * from pools", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(suggestion(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn stats_users_only_look() {
        for text in ["show pools", "show classes", "show config", "show help", "show workers", "show pins"] {
            assert!(Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
        for text in ["show fds", "reload", "shutdown", "pause", "kill x", "kill_query 7", "set a=1", "promoted db2"] {
            assert!(!Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
    }
}
