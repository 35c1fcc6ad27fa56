//! A verdict in words: one sentence, its root, and the statement that ends it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use observe::can_be_terminated;
use units::PoolKey;
use units::names::shown;

use super::chain::{Link, LinkOwner, LinkState, WaitChain};
use super::survey::Servers;
use super::{Busiest, LockOn, Queue, Trouble, Verdict, Why, tags_shown};
use crate::moment::EndedDeadlock;

/// The sentence if the observer has not looked.
pub const NOTHING_KNOWN: &str = "Nothing is known: pgweir has not looked yet, or does not look (observe_interval = 0).";

/// What a reader may see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// For users in `admin_users`: tags and statements, too.
    Full,
    /// For users in `stats_users`: neither tags nor statements.
    WithoutStatements,
    /// For the metrics, which need no login: nor addresses, nor the gid of a prepared transaction.
    Public,
}

/// How to end a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// An SQL statement, or a command of the console.
    pub statement: String,
    /// Where it is to be run, and as whom: `the console`, `db1:5432`.
    pub place: String,
}

/// Characters that are shown of a text that a client has chosen.
const TEXT_CHARS_MAX: usize = 40;

impl Verdict {
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Verdict::Trouble(trouble) => Some(trouble),
            Verdict::NothingWrong { .. } => None,
        }
    }

    /// The whole verdict. Names and tags in it are as clients chose them, shortened.
    #[must_use]
    pub fn sentence(&self, detail: Detail) -> String {
        self.sentence_with("To end it", detail)
    }

    /// The same for a moment that is over: what ended the root then may hit another one now.
    #[must_use]
    pub fn past_sentence(&self, detail: Detail) -> String {
        self.sentence_with("To end it then", detail)
    }

    fn sentence_with(&self, to_end: &str, detail: Detail) -> String {
        match self {
            Verdict::Trouble(trouble) => trouble.sentence(to_end, detail),
            Verdict::NothingWrong { unseen, deadlock } => {
                let mut text = "Nothing is wrong: no client has waited for 1 s or longer.".to_owned();
                if let Some((pool, ended)) = deadlock {
                    _ = write!(text, " {} of {}.", ended_words(ended), pool_name(pool));
                }
                if !unseen.is_empty() {
                    _ = write!(text, " pgweir does not see all of what goes on at {}.", unseen.join(", "));
                }
                text
            }
        }
    }
}

impl Trouble {
    #[must_use]
    pub fn queue(&self) -> Option<Queue> {
        self.why.queue()
    }

    /// The root of the chain, or the client that is idle or keeps a server for longest.
    #[must_use]
    pub fn root(&self, detail: Detail) -> Option<String> {
        Some(label(self.culprit()?, detail))
    }

    /// How to end the root. `None`: there is none, or it is not to be ended.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        ending(self.culprit()?)
    }

    /// The statement that ends the root, for the metrics: without a gid.
    #[must_use]
    pub fn public_ending(&self) -> Option<String> {
        let culprit = self.culprit()?;
        match culprit.who {
            LinkOwner::Prepared(_) => Some(ASK_FOR_GIDS.to_owned()),
            _ => ending(culprit).map(|ending| ending.statement),
        }
    }

    fn culprit(&self) -> Option<&Link> {
        match &self.why {
            Why::Behind(chain) | Why::LockOnly(chain) => chain.root(),
            Why::IdleInTransaction(link) | Why::Kept(link) => Some(link),
            Why::Standby
            | Why::Computing(_)
            | Why::Ending
            | Why::Held
            | Why::NoServer
            | Why::NoHost(_)
            | Why::Unseen => None,
        }
    }

    fn sentence(&self, to_end: &str, detail: Detail) -> String {
        let (servers, pool) = (&self.servers, pool_name(&self.pool));
        let mut text = match &self.why {
            Why::LockOnly(chain) => {
                let who = counted(chain.behind, "client");
                let verbs = if chain.behind == 1 { "has a server and waits" } else { "have a server and wait" };
                let queued = match self.waiting {
                    0 => "No client waits for a server".to_owned(),
                    count => format!("{} for a server, and none of these has waited for 1 s", waits(count)),
                };
                format!("{who} of {pool} {verbs} for a lock {}. {queued}", behind(chain, detail))
            }
            why => {
                let wait = if self.waiting == 1 { "waits" } else { "wait" };
                format!("{} of {pool} {wait}, because {}", counted(self.waiting, "client"), self.reason(why, detail))
            }
        };
        text.push('.');
        if let Some(advice) = advice(&self.why, servers) {
            _ = write!(text, " {advice}");
        }
        if let Some(chain) = chain_of(&self.why)
            && let left @ 1.. = servers.behind.saturating_sub(chain.behind)
        {
            let wait = if left == 1 { "waits" } else { "wait" };
            _ = write!(text, " {left} more of its servers {wait} behind others: SHOW LOCKS.");
        }
        if let Some(ended) = &self.deadlock {
            _ = write!(text, " {}.", ended_words(ended));
        }
        if let Some(ending) = self.ending() {
            let place = if ending.place == CONSOLE { String::new() } else { format!(" at {}", ending.place) };
            _ = write!(text, " {to_end}{place}: {}", ending.statement);
        }
        text
    }

    fn reason(&self, why: &Why, detail: Detail) -> String {
        let servers = &self.servers;
        match why {
            Why::Behind(chain) | Why::LockOnly(chain) => {
                let (count, verb) = part(chain.behind, servers.open, "wait");
                format!("{count} {verb} {}", behind(chain, detail))
            }
            Why::Standby => {
                let (count, verb) = part(servers.standby, servers.open, "wait");
                format!("{count} {verb} until a synchronous standby has confirmed their commits")
            }
            Why::Computing(busiest) => {
                let longest = seconds(servers.longest_statement);
                let busiest = busiest.as_ref().filter(|_| detail == Detail::Full);
                let most = busiest.map(|busiest| most_run(servers, busiest)).unwrap_or_default();
                format!("{}{most}; the longest statement has run for {longest}", doings(servers))
            }
            Why::Ending => doings(servers),
            Why::Unseen => format!("{}; what these wait for at PostgreSQL is not known", doings(servers)),
            Why::IdleInTransaction(link) => {
                format!("{}; the longest idle is {}{}", doings(servers), label(link, detail), state(link, detail))
            }
            Why::Kept(link) => format!("{}; one of these is kept by {}", doings(servers), label(link, detail)),
            Why::Held => format!("they may not have a server: {}", doings(servers)),
            Why::NoServer if servers.login > 0 => {
                format!("its pool has no server yet: {}", doings(servers))
            }
            Why::NoServer => "its pool has no server".to_owned(),
            Why::NoHost(hosts) => format!("no host can be used ({hosts})"),
        }
    }
}

/// `A deadlock ended 4 s ago: PostgreSQL ended a statement of billing (client 7)`.
fn ended_words(ended: &EndedDeadlock) -> String {
    let (ago, client, name) = (seconds(ended.ago), ended.client, chosen(&ended.application_name));
    let who = if name.is_empty() { format!("client {client}") } else { format!("{name} (client {client})") };
    format!("A deadlock ended {ago} ago: PostgreSQL ended a statement of {who}")
}

fn chain_of(why: &Why) -> Option<&WaitChain> {
    match why {
        Why::Behind(chain) | Why::LockOnly(chain) => Some(chain),
        _ => None,
    }
}

/// The advice, as a sentence.
fn advice(why: &Why, servers: &Servers) -> Option<&'static str> {
    Some(match why {
        Why::LockOnly(chain) | Why::Behind(chain) if chain.is_deadlock => {
            "PostgreSQL ends one of them after deadlock_timeout."
        }
        Why::LockOnly(_) => return None,
        Why::Behind(chain) if chain.links.is_empty() => {
            "More servers would not help. SHOW LOCKS says behind whom they wait, once locks have been read."
        }
        Why::Behind(_) => "More servers would not help.",
        Why::Standby => "More servers would not help. pg_stat_replication has the standbys.",
        Why::Computing(_) if servers.on_processor * 2 >= servers.computing => {
            "The pool is too small for its statements. As most of them compute, a larger pool helps only while PostgreSQL has idle cores, and \
             faster statements always (SHOW WAITS BY STATEMENT)."
        }
        Why::Computing(_) => {
            "The pool is too small for its statements: a larger pool would help, or faster statements (SHOW WAITS BY STATEMENT)."
        }
        Why::IdleInTransaction(_) => "Its transactions are long: shorter ones, or a larger pool, would help.",
        Why::Kept(_) => "A larger pool would help, or clients that do not keep a server (SHOW PINS).",
        Why::Held => "A limit or a PAUSE holds them back: SHOW LIMITS, SHOW CLASSES, SHOW DATABASES.",
        Why::NoServer if servers.login > 0 => {
            "PostgreSQL does not accept connections fast enough, or not at all: the log has its errors."
        }
        Why::NoServer => {
            "It is paused, or PostgreSQL refuses connections, or a limit is reached: SHOW DATABASES, and the log."
        }
        Why::NoHost(_) => "They wait until one can, for failover_wait at most: SHOW HOSTS, and the log.",
        Why::Ending => "They are free when PostgreSQL has ended these statements: SHOW SERVERS.",
        Why::Unseen => "With observe_user, pgweir asks PostgreSQL.",
    })
}

/// `its 20 servers all wait`, `19 of its 20 servers wait`, `its only server waits`: how many, and the verb.
fn part(count: u32, open: u32, verb: &str) -> (String, String) {
    match (count, open) {
        (1, 1) => ("its only server".to_owned(), format!("{verb}s")),
        (1, _) => (format!("1 of its {open} servers"), format!("{verb}s")),
        _ if count >= open => (format!("its {count} servers all"), verb.to_owned()),
        _ => (format!("{count} of its {open} servers"), verb.to_owned()),
    }
}

/// `, 4 of them select … from orders [report]`.
fn most_run(servers: &Servers, busiest: &Busiest) -> String {
    let tags = tags_shown(&busiest.tags);
    let tags = if tags.is_empty() { tags } else { format!(" [{tags}]") };
    let statement = bounded_to(&busiest.statement, 2 * TEXT_CHARS_MAX);
    match servers.computing {
        1 => format!(": {statement}{tags}"),
        _ => format!(", {} of them {statement}{tags}", busiest.count),
    }
}

/// `of its 20 servers 15 run statements and 5 wait for a lock`.
fn doings(servers: &Servers) -> String {
    let all = [
        (servers.computing, "runs statements", "run statements"),
        (servers.unseen, "runs something", "run something"),
        (
            servers.idle_in_transaction,
            "is idle in a transaction for its client",
            "are idle in a transaction for their clients",
        ),
        (servers.kept, "is kept by a client between transactions", "are kept by clients between transactions"),
        (servers.behind, "waits for a lock", "wait for a lock"),
        (
            servers.ending,
            "ends a statement of a client that has gone or cancelled",
            "end statements of clients that have gone or cancelled",
        ),
        (servers.standby, "waits for a standby", "wait for a standby"),
        (servers.idle, "is idle", "are idle"),
        (servers.login, "is being connected", "are being connected"),
    ];
    let mut some: Vec<(u32, &str, &str)> = all.into_iter().filter(|(count, ..)| *count > 0).collect();
    some.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    if let [(count, one, many)] = some[..]
        && count == servers.open
    {
        let all =
            |many: &str| many.strip_prefix("are ").map_or(format!("all {many}"), |rest| format!("are all {rest}"));
        return if count == 1 {
            format!("its only server {one}")
        } else {
            format!("its {count} servers {}", all(many))
        };
    }
    let part = |(count, one, many): &(u32, &str, &str)| format!("{count} {}", if *count == 1 { one } else { many });
    let parts: Vec<String> = some.iter().map(part).collect();
    let listed = match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => "none does anything".to_owned(),
    };
    format!("of its {} {listed}", counted(servers.open, "server"))
}

/// `behind ALTER TABLE parent of jobs [migrate], and that waits for … behind billing, which holds …, in its transaction for 25 s`.
fn behind(chain: &WaitChain, detail: Detail) -> String {
    if chain.is_deadlock {
        return "behind each other, in a circle".to_owned();
    }
    let mut text = String::new();
    for (at, link) in chain.links.iter().enumerate() {
        let gap = if at == 0 { "behind " } else { " behind " };
        _ = write!(text, "{gap}{}", label(link, detail));
        match &link.state {
            LinkState::Waits(on, _) if at + 1 < chain.links.len() => {
                _ = write!(text, ", and that waits for {}", lock(on, Side::Wanted));
            }
            _ => {
                if let Some(on) = &link.holds {
                    _ = write!(text, ", which holds {}", lock(on, Side::Held));
                }
                text.push_str(&state(link, detail));
            }
        }
    }
    if text.is_empty() { "for locks".to_owned() } else { text }
}

enum Side {
    Held,
    Wanted,
}

/// `AccessShareLock on parent`.
fn lock(on: &LockOn, side: Side) -> String {
    match (&on.name, &*on.kind, side) {
        (None, "transactionid" | "tuple", Side::Held) => "rows that it has changed".to_owned(),
        (None, "transactionid" | "tuple", Side::Wanted) => "a row".to_owned(),
        (name, kind, _) => format!("{} on {}", on.mode.name(), name.as_deref().unwrap_or(kind)),
    }
}

/// The state of a root, behind a comma.
fn state(link: &Link, detail: Detail) -> String {
    if let LinkOwner::Prepared(prepared) = &link.who {
        return prepared
            .as_ref()
            .map(|prepared| format!(", prepared {} ago", seconds(prepared.age)))
            .unwrap_or_default();
    }
    let transaction =
        link.transaction.map(|age| format!(", in its transaction for {}", seconds(age))).unwrap_or_default();
    match &link.state {
        LinkState::Idle(idle) if link.transaction.is_some_and(|age| age >= *idle + Duration::from_secs(1)) => {
            format!("{transaction}, idle for {}", seconds(*idle))
        }
        LinkState::Idle(idle) => format!(", idle in its transaction for {}", seconds(*idle)),
        LinkState::Runs(age) => {
            let statement = match detail {
                Detail::Full if link.command.is_none() && !link.statement.is_empty() => {
                    format!(" {}", bounded_to(&link.statement, 2 * TEXT_CHARS_MAX))
                }
                _ => " a statement".to_owned(),
            };
            format!(", and has run{statement} for {}", seconds(*age))
        }
        LinkState::Waits(..) | LinkState::Other => transaction,
    }
}

/// `ALTER TABLE parent of jobs [migrate, mig-8ab39e]`.
fn label(link: &Link, detail: Detail) -> String {
    let address = link.client_addr.as_deref().filter(|_| detail != Detail::Public);
    let at = address.map(|addr| format!(" at {addr}")).unwrap_or_default();
    let tags = if detail == Detail::Full { tags_shown(&link.tags) } else { String::new() };
    let tags = if tags.is_empty() { tags } else { format!(" [{tags}]") };
    let name = chosen(&link.application_name);
    let who = match &link.who {
        LinkOwner::Session { client, .. } if name.is_empty() => format!("client {client}{tags}{at}"),
        LinkOwner::Session { .. } => format!("{name}{tags}"),
        LinkOwner::Direct { pid, user } => {
            let name = if name.is_empty() { shown(user) } else { Cow::Owned(name) };
            let from = match (detail, address) {
                (Detail::Public, _) => String::new(),
                (_, Some(address)) => format!(" from {address}"),
                (_, None) => " from PostgreSQL's own machine".to_owned(),
            };
            format!("{name}{tags}, a connection past pgweir{from} (pid {pid}, user {})", shown(user))
        }
        LinkOwner::Prepared(Some(prepared)) if detail == Detail::Public => {
            format!("a prepared transaction of {} in database {}", shown(&prepared.owner), shown(&prepared.database))
        }
        LinkOwner::Prepared(Some(prepared)) => {
            let (gid, owner) = (shown(&prepared.gid), shown(&prepared.owner));
            format!("prepared transaction '{gid}' of {owner} in database {}", shown(&prepared.database))
        }
        LinkOwner::Prepared(None) => "a prepared transaction".to_owned(),
        LinkOwner::Autovacuum { pid, prevents_wraparound: false } => format!("autovacuum (pid {pid})"),
        LinkOwner::Autovacuum { pid, .. } => format!("autovacuum against wraparound (pid {pid})"),
        LinkOwner::Abandoned { pid } => {
            format!("{name}{tags}, whose client has gone (pid {pid})").trim_start_matches(", ").to_owned()
        }
        // Its name may be that of the client before.
        LinkOwner::Changed => format!("a short transaction{tags}"),
        LinkOwner::WalSender { pid } => format!("WAL sender {name}{at} (pid {pid})"),
        LinkOwner::Process { pid, kind } => format!("{kind} (pid {pid})"),
        LinkOwner::Unseen { pid } => format!("a backend that pgweir may not see (pid {pid})"),
    };
    match (link.command, &link.state, &link.holds) {
        (Some(command), LinkState::Waits(on, _), _) | (Some(command), _, Some(on)) if on.name.is_some() => {
            format!("{command} {} of {who}", on.name.as_deref().unwrap_or_default())
        }
        (Some(command), ..) => format!("{command} of {who}"),
        (None, ..) => who,
    }
}

const CONSOLE: &str = "the console";

const ASK_FOR_GIDS: &str = "SELECT gid, owner, database FROM pg_prepared_xacts;";

fn ending(link: &Link) -> Option<Ending> {
    let server = link.server.as_deref().unwrap_or("PostgreSQL");
    let at_server = |statement: String| Some(Ending { statement, place: server.to_owned() });
    match &link.who {
        LinkOwner::Session { client, .. } => {
            Some(Ending { statement: format!("KILL_CLIENT {client};"), place: CONSOLE.to_owned() })
        }
        LinkOwner::Prepared(Some(prepared)) => Some(Ending {
            statement: prepared.rollback(),
            place: format!(
                "{server}, in database {} as {} or a superuser",
                shown(&prepared.database),
                shown(&prepared.owner)
            ),
        }),
        LinkOwner::Prepared(None) => at_server(ASK_FOR_GIDS.to_owned()),
        // It begins again, and has to come to its end one day.
        LinkOwner::Autovacuum { prevents_wraparound: true, .. } => None,
        LinkOwner::Process { kind, .. } if !can_be_terminated(kind) => None,
        // A short transaction is over before an operator could end it, and its client has done nothing wrong.
        LinkOwner::Changed => None,
        LinkOwner::Direct { pid, .. }
        | LinkOwner::Autovacuum { pid, .. }
        | LinkOwner::Abandoned { pid }
        | LinkOwner::WalSender { pid }
        | LinkOwner::Process { pid, .. }
        | LinkOwner::Unseen { pid } => at_server(format!("SELECT pg_terminate_backend({pid});")),
    }
}

/// A name that a client has chosen, in quotes if it could be taken for words of the sentence.
fn chosen(name: &str) -> String {
    let name = bounded(name);
    let is_plain = |char: char| char.is_alphanumeric() || " -_/@…".contains(char);
    if name.chars().all(is_plain) { name } else { format!("'{}'", name.replace('\'', "''")) }
}

fn pool_name(pool: &PoolKey) -> String {
    format!("{}/{}", shown(&pool.database), shown(&pool.user))
}

/// `3 clients wait`.
fn waits(count: u32) -> String {
    format!("{} {}", counted(count, "client"), if count == 1 { "waits" } else { "wait" })
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `0.4 s`, `25 s`, `12 min`, `3 h 20 min`.
fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{}.{} s", seconds, time.subsec_millis() / 100).replace(".0 s", " s"),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

pub(super) fn bounded(text: &str) -> String {
    bounded_to(text, TEXT_CHARS_MAX)
}

/// The beginning, in one line, without control characters: a terminal would obey them.
fn bounded_to(text: &str, chars_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "?");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
