//! Facts for the log. Its text is an interface: words and shapes as PgBouncer's.

use std::net::SocketAddr;
use std::sync::Arc;

use units::names::shown;
use units::{ConnId, limits};

/// How much a fact matters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Log,
    Warning,
    Error,
    /// What must not happen has happened.
    Fatal,
}

/// Where a client came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Peer {
    /// Its address, and the one of ours that it came to.
    Tcp { from: SocketAddr, to: SocketAddr },
    /// A Unix socket, with the process's ids as the kernel tells them.
    Unix { pid: u32, uid: u32 },
}

/// Both ends of a TCP connection to a PostgreSQL.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// What a connection is called in the log and the console.
#[derive(Clone, Debug)]
pub enum About {
    Pooler,
    /// `C-…: db/user@addr`; names are `None` before the startup packet.
    Client {
        conn: ConnId,
        /// What it is called from its first packet until it leaves, wherever it lives meanwhile.
        name: ConnId,
        database: Option<Arc<str>>,
        user: Option<Arc<str>>,
        peer: Peer,
        /// As far as it is known: the session's current one.
        application: Option<Box<str>>,
    },
    /// `S-…: db/user@addr`.
    Server {
        conn: ConnId,
        /// What it is called for as long as it stands, whichever worker has it.
        name: ConnId,
        database: Arc<str>,
        user: Arc<str>,
        address: Arc<connections::databases::Address>,
    },
}

impl About {
    /// Names as the log shows them.
    pub fn cut_names(&mut self) {
        if let About::Client { application: Some(name), .. } = self
            && name.len() > limits::SHOWN_NAME_LEN_MAX
        {
            *name = shown(name).into();
        }
        let names = match self {
            About::Pooler => [None, None],
            About::Client { database, user, .. } => [database.as_mut(), user.as_mut()],
            About::Server { database, user, .. } => [Some(database), Some(user)],
        };
        for name in names.into_iter().flatten() {
            if name.len() > limits::SHOWN_NAME_LEN_MAX {
                *name = shown(name).into();
            }
        }
    }
}

/// Which of the log's switches a line obeys.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `log_connections`
    Connections,
    /// `log_disconnections`
    Disconnections,
    /// `log_pooler_errors`
    PoolerErrors,
    /// Statements that took long: `log_min_duration`
    Statements,
    /// Always.
    General,
}

/// Which lines the log takes, so that no text is made for nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    pub connections: bool,
    pub disconnections: bool,
    pub pooler_errors: bool,
    /// Lines of level debug, too.
    pub debug: bool,
}

impl Default for LogFilter {
    /// Everything.
    fn default() -> LogFilter {
        LogFilter { connections: true, disconnections: true, pooler_errors: true, debug: true }
    }
}

impl LogFilter {
    #[must_use]
    pub fn passes(self, level: Level, topic: Topic) -> bool {
        let topic = match topic {
            Topic::Connections => self.connections,
            Topic::Disconnections => self.disconnections,
            Topic::PoolerErrors => self.pooler_errors,
            Topic::Statements | Topic::General => true,
        };
        topic && (self.debug || level > Level::Debug)
    }
}

/// One line.
#[derive(Clone, Debug)]
pub struct Fact {
    pub level: Level,
    pub topic: Topic,
    pub about: About,
    /// Without names that clients choose in raw form: control characters are replaced where the line is written.
    pub text: String,
    /// Present if it is about a statement that took long.
    pub slow: Option<Box<SlowStatement>>,
}

/// A statement that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    /// How long its session had waited for a server.
    pub queued_us: u64,
    /// From when it was sent, or the answer before it came, until its answer was complete.
    pub ran_us: u64,
    /// As its command tags say.
    pub rows: u64,
    /// What the server is called.
    pub server: ConnId,
    /// The class of its client, where there are several.
    pub class: Option<Arc<str>>,
    /// Its beginning; empty if it is not known.
    pub statement: String,
    /// Tags of its comments, as key and value.
    pub tags: Vec<(&'static str, String)>,
}

impl Fact {
    #[must_use]
    pub fn new(level: Level, topic: Topic, about: About, text: String) -> Fact {
        Fact { level, topic, about, text, slow: None }
    }

    /// With PostgreSQL's word for it.
    #[must_use]
    pub fn of_statement(level: Level, topic: Topic, about: About, slow: SlowStatement) -> Fact {
        let text =
            format!("duration: {} ms queue: {} ms", millis(slow.queued_us + slow.ran_us), millis(slow.queued_us));
        Fact { slow: Some(Box::new(slow)), ..Fact::new(level, topic, about, text) }
    }

    /// About the process itself.
    #[must_use]
    pub fn of_the_pooler(level: Level, text: String) -> Fact {
        Fact::new(level, Topic::General, About::Pooler, text)
    }
}

/// With a point.
fn millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1_000, micros % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_a_character_and_not_before_postgresql_would() {
        let name = |len: usize| "n".repeat(len);
        assert_eq!(shown(&name(63)), name(63));
        assert_eq!(shown(&name(64)), name(63) + "…");
        assert_eq!(shown(&"ä".repeat(5_000)), "ä".repeat(31) + "…");
    }
    #[test]
    fn a_line_is_wanted_by_its_topic_and_its_level() {
        let hearing = |on: bool, debug| LogFilter { connections: on, disconnections: on, pooler_errors: on, debug };
        for topic in [Topic::Connections, Topic::Disconnections, Topic::PoolerErrors] {
            assert!(hearing(true, false).passes(Level::Log, topic) && hearing(true, true).passes(Level::Debug, topic));
            assert!(
                !hearing(true, false).passes(Level::Debug, topic) && !hearing(false, true).passes(Level::Log, topic)
            );
        }
        assert!(hearing(false, false).passes(Level::Log, Topic::General));
        assert!(!hearing(false, false).passes(Level::Debug, Topic::General));
    }
}
