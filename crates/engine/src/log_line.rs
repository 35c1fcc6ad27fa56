//! What a line of the log looks like: PgBouncer's shape, or JSON.
//!
//! Promises that no name and no text can begin another line: control characters are replaced in the one, and escaped in the other. The names of
//! JSON's fields stay as they are: programs match on them.

use std::fmt::{self, Write as _};

use connections::databases::{Address, Host};
use jiff::Zoned;
use machine::{About, Fact, Level, Peer, Topic};
use serde_json::{Map, Value, json};
use units::ConnId;

use crate::options::LogFormat;

/// One fact, at a moment.
pub(crate) struct LogLine<'a> {
    pub(crate) moment: &'a Zoned,
    pub(crate) pid: u32,
    pub(crate) fact: &'a Fact,
    /// The port in the name of our Unix socket.
    pub(crate) port: u16,
}

impl LogLine<'_> {
    /// Appends it, with a line feed.
    pub(crate) fn write(&self, format: LogFormat, page: &mut String) {
        let outcome = match format {
            LogFormat::Plain => {
                let time = self.moment.strftime("%Y-%m-%d %H:%M:%S.%3f %Z");
                writeln!(page, "{time} [{}] {} {}", self.pid, word(self.fact.level), self.words())
            }
            LogFormat::Json => writeln!(page, "{}", self.json()),
        };
        outcome.expect("a string takes all");
    }

    /// Whom it is about, and the text.
    pub(crate) fn words(&self) -> String {
        let prefix = Prefix { about: &self.fact.about, port: self.port };
        let mut words = format!("{prefix}{}", Clean(&self.fact.text));
        if let Some(slow) = &self.fact.slow {
            let _ = write!(words, " rows: {} server: {}", slow.rows, id('S', slow.server));
            if let Some(class) = &slow.class {
                let _ = write!(words, " class: {}", Clean(class));
            }
            if let About::Client { application: Some(name), .. } = &self.fact.about {
                let _ = write!(words, " application_name: {}", Clean(name));
            }
            let _ = write!(words, " statement: {}", Clean(&slow.statement));
        }
        words
    }

    fn json(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| _ = fields.insert(name.to_owned(), value);
        put("time", json!(self.moment.strftime("%Y-%m-%dT%H:%M:%S.%3f%:z").to_string()));
        put("pid", json!(self.pid));
        put("level", json!(word(self.fact.level)));
        put("topic", json!(topic(self.fact.topic)));
        put("message", json!(self.fact.text));
        match &self.fact.about {
            About::Pooler => {}
            About::Client { name, database, user, peer, application, .. } => {
                put("client", json!(id('C', *name)));
                database.iter().for_each(|database| put("database", json!(**database)));
                user.iter().for_each(|user| put("user", json!(**user)));
                put("address", json!(of_peer(*peer, self.port)));
                application.iter().for_each(|name| put("application_name", json!(**name)));
            }
            About::Server { name, database, user, address, .. } => {
                put("server", json!(id('S', *name)));
                put("database", json!(**database));
                put("user", json!(**user));
                put("address", json!(Place(address).to_string()));
            }
        }
        if let Some(slow) = &self.fact.slow {
            put("server", json!(id('S', slow.server)));
            put("queue_ms", json!(millis(slow.queued_us)));
            put("run_ms", json!(millis(slow.ran_us)));
            put("rows", json!(slow.rows));
            slow.class.iter().for_each(|class| put("class", json!(**class)));
            put("statement", json!(slow.statement));
            slow.tags.iter().for_each(|(tag, value)| put(tag, json!(value)));
        }
        Value::Object(fields)
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits after the point are wanted")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn topic(topic: Topic) -> &'static str {
    match topic {
        Topic::Connections => "connections",
        Topic::Disconnections => "disconnections",
        Topic::PoolerErrors => "pooler_errors",
        Topic::Statements => "statements",
        Topic::General => "general",
    }
}

fn id(letter: char, conn: ConnId) -> String {
    format!("{letter}-{:#x}", conn.to_bits())
}

fn of_peer(peer: Peer, port: u16) -> String {
    match peer {
        Peer::Tcp { from, .. } => format!("{}:{}", Ip(from.ip()), from.port()),
        Peer::Unix { pid, .. } => format!("unix({pid}):{port}"),
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Debug => "DEBUG",
        Level::Log => "LOG",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
        Level::Fatal => "FATAL",
    }
}

/// `C-0x…: db/user@addr:port `, or nothing for the pooler's own lines.
struct Prefix<'a> {
    about: &'a About,
    port: u16,
}

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.about {
            About::Pooler => Ok(()),
            About::Client { name, database, user, peer, .. } => {
                let (database, user) = (database.as_deref(), user.as_deref());
                names(f, 'C', *name, database.unwrap_or("(nodb)"), user.unwrap_or("(nouser)"))?;
                write!(f, "{} ", of_peer(*peer, self.port))
            }
            About::Server { name, database, user, address, .. } => {
                names(f, 'S', *name, database, user)?;
                write!(f, "{} ", Place(address))
            }
        }
    }
}

fn names(f: &mut fmt::Formatter<'_>, letter: char, conn: ConnId, database: &str, user: &str) -> fmt::Result {
    write!(f, "{}: {}/{}@", id(letter, conn), Clean(database), Clean(user))
}

struct Ip(std::net::IpAddr);

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_canonical() {
            std::net::IpAddr::V4(ip) => write!(f, "{ip}"),
            std::net::IpAddr::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}

struct Place<'a>(&'a Address);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.host {
            Host::Unix(_) => write!(f, "unix:{}", self.0.port),
            Host::Ip(ip) => write!(f, "{}:{}", Ip(*ip), self.0.port),
            Host::Name(name) => write!(f, "{}:{}", Clean(name), self.0.port),
        }
    }
}

/// Text without control characters, since a name with a line feed could forge a line.
struct Clean<'a>(&'a str);

impl fmt::Display for Clean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.split(char::is_control).enumerate() {
            if index > 0 {
                f.write_char('?')?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> About {
        let address = |text: &str| text.parse().expect("an address");
        let peer = Peer::Tcp { from: address("[::1]:5123"), to: address("[::1]:6432") };
        let (conn, name_of) = (ConnId::from_bits(0x9999), ConnId::from_bits(0x1234));
        About::Client {
            conn,
            name: name_of,
            database: Some(name.into()),
            user: None,
            peer,
            application: Some("a \"b\"\n".into()),
        }
    }

    #[test]
    fn a_line_names_the_client_and_cannot_be_forged() {
        let about = client("shop\n2026");
        let prefix = Prefix { about: &about, port: 6432 }.to_string();
        assert_eq!(prefix, "C-0x1234: shop?2026/(nouser)@[::1]:5123 ");
        assert_eq!(Clean("a\r\n\u{1b}[0mb").to_string(), "a???[0mb");
    }

    #[test]
    fn a_mapped_address_is_shown_as_the_old_one() {
        assert_eq!(Ip("::ffff:10.0.0.1".parse().expect("an address")).to_string(), "10.0.0.1");
    }

    #[test]
    fn json_is_one_line_whatever_it_says() {
        let moment: Zoned = "2026-11-25T12:00:00.5+01:00[Europe/Zurich]".parse().expect("a time of day");
        let about = client("shop\n\"x\"");
        let fact = Fact::new(Level::Warning, Topic::PoolerErrors, about, "a\nb\u{1b}".to_owned());
        let line = LogLine { moment: &moment, pid: 7, fact: &fact, port: 6432 };
        let mut page = String::new();
        line.write(LogFormat::Json, &mut page);
        assert_eq!(page.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&page).expect("JSON");
        let expected = json!({
            "time": "2026-11-25T12:00:00.500+01:00", "pid": 7, "level": "WARNING", "topic": "pooler_errors", "message": "a\nb\u{1b}",
            "client": "C-0x1234", "database": "shop\n\"x\"", "address": "[::1]:5123",
            "application_name": "a \"b\"\n",
        });
        assert_eq!(read, expected);
        let own = Fact { about: About::Pooler, ..fact.clone() };
        let read = LogLine { fact: &own, ..line }.json();
        assert_eq!((read.get("client"), read.get("user")), (None, None));
    }

    #[test]
    fn a_slow_statement_is_shown_with_its_wait_and_whose_it_was() {
        let moment: Zoned = "2026-11-25T12:00:00+00:00[UTC]".parse().expect("a time of day");
        let slow = machine::SlowStatement {
            queued_us: 250_500,
            ran_us: 1_000_001,
            rows: 3,
            class: Some("batch\n".into()),
            server: ConnId::from_bits(0x77),
            statement: "select 1\n-- x".to_owned(),
            tags: vec![("traceparent", "00-1-2-01".to_owned())],
        };
        let fact = Fact::of_statement(Level::Log, Topic::Statements, client("shop"), slow);
        let line = LogLine { moment: &moment, pid: 7, fact: &fact, port: 6432 };
        let words = "C-0x1234: shop/(nouser)@[::1]:5123 duration: 1250.501 ms queue: 250.500 ms rows: 3 server: S-0x77 \
                     class: batch? application_name: a \"b\"? statement: select 1?-- x";
        assert_eq!(line.words(), words);
        let expected = json!({
            "time": "2026-11-25T12:00:00.000+00:00", "pid": 7, "level": "LOG", "topic": "statements",
            "message": "duration: 1250.501 ms queue: 250.500 ms", "client": "C-0x1234", "database": "shop",
            "address": "[::1]:5123", "application_name": "a \"b\"\n", "server": "S-0x77", "queue_ms": 250.5, "run_ms": 1000.001,
            "rows": 3, "class": "batch\n", "statement": "select 1\n-- x", "traceparent": "00-1-2-01",
        });
        assert_eq!(line.json(), expected);
    }
}
