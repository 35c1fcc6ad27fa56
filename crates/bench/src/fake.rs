//! A PostgreSQL that has nothing to do: it answers at once, so that the pooler in front of it is the bottleneck.
//!
//! Promises: speaks startup (everybody is trusted), simple queries of several statements, the extended protocol with
//! named statements and errors that skip to Sync, transaction status and reported parameters as PostgreSQL does.
//! The machine is pure: bytes in, bytes out.
//! Does not: COPY, function calls, portals with a row limit, or read a statement further than its first words.

use std::collections::{BTreeMap, HashMap};

use client::{Frames, put, text};

/// What a statement of the load returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One row of eight bytes: 66 bytes for the whole answer to a simple query.
    Small,
    /// A hundred kilobytes as 1,000 rows of 100 bytes.
    Rows,
    /// A hundred kilobytes as one row.
    Value,
}

impl Answer {
    /// The simple statement that asks for it. `Small` makes a Query message of 57 bytes.
    pub fn sql(self) -> &'static str {
        match self {
            Answer::Small => "SELECT v FROM accounts WHERE account_id = 1234567 ;",
            Answer::Rows => "SELECT v FROM bench_rows",
            Answer::Value => "SELECT v FROM bench_value",
        }
    }

    fn of(sql: &str) -> Answer {
        match sql {
            _ if sql.contains("bench_rows") => Answer::Rows,
            _ if sql.contains("bench_value") => Answer::Value,
            _ => Answer::Small,
        }
    }

    /// Number of rows and bytes in each: what the client checks.
    pub fn shape(self) -> (usize, usize) {
        match self {
            Answer::Small => (1, 8),
            Answer::Rows => (1000, 100),
            Answer::Value => (1, 100_000),
        }
    }
}

/// A prepared statement or a portal, as far as the fake needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prepared {
    Empty,
    Select(Answer),
    Question(Question),
    Other,
}

/// What a pooler asks for itself, and not for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// What is left in the session: nothing ever is.
    Left,
    /// The side effects of the database's functions, triggers and views: there are none.
    Catalogue,
    /// Whether the catalogue has changed: it never does.
    Poll,
    /// Its role, and how far it is.
    Role,
}

impl Question {
    fn of(sql: &str) -> Option<Question> {
        const STARTS: [(&str, Question); 5] = [
            ("SELECT pg_catalog.sum(pg_catalog.pg_stat_get_tuples_updated", Question::Poll),
            ("SELECT EXISTS (SELECT FROM pg_catalog.pg_depend", Question::Left),
            ("WITH\nown AS MATERIALIZED", Question::Catalogue),
            ("SELECT pg_catalog.count(*) AS rows", Question::Poll),
            ("SELECT r, (SELECT system_identifier", Question::Role),
        ];
        STARTS.iter().find(|(start, _)| sql.starts_with(start)).map(|(_, question)| *question)
    }

    fn columns(self) -> u16 {
        match self {
            Question::Left | Question::Role => 5,
            Question::Catalogue => 4,
            Question::Poll => 2,
        }
    }

    /// The rows, and the end of the statement.
    fn answer(self, is_standby: bool, out: &mut Vec<u8>) {
        let role: [&[u8]; 2] = if is_standby { [b"t", b"1"] } else { [b"f", b"00000001"] };
        let row: &[Option<&[u8]>] = match self {
            Question::Role => {
                let [recovers, timeline] = role;
                &[
                    Some(recovers),
                    Some(b"7512345678901234567"),
                    Some(timeline),
                    Some(b"0/3000060"),
                    Some(b"1764000000.123456"),
                ]
            }
            Question::Left => &[Some(b"f"), Some(b"f"), Some(b"f"), None, Some(b"")],
            Question::Catalogue => return complete(out, "SELECT 0"),
            Question::Poll => &[Some(b"0"), None],
        };
        let mut body = (row.len() as u16).to_be_bytes().to_vec();
        for value in row {
            body.extend_from_slice(&value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend_from_slice(value.unwrap_or_default());
        }
        put(out, b'D', &[&body]);
        complete(out, "SELECT 1");
    }
}

#[derive(Debug)]
enum Phase {
    Startup,
    Ready,
    /// An error in an extended sequence: everything up to Sync is skipped.
    Skipping,
    Over,
}

/// One connection to the fake PostgreSQL.
#[derive(Debug)]
pub struct FakeServer {
    phase: Phase,
    startup: Vec<u8>,
    frames: Frames,
    session: Session,
}

/// What outlives a message.
#[derive(Debug)]
struct Session {
    status: u8,
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Prepared>,
    parameters: BTreeMap<&'static str, String>,
    /// The peer may be waiting for what was written so far.
    flush: bool,
}

/// The parameters that PostgreSQL reports, with the values of an unchanged session.
//= pg18 protocol-flow#PROTOCOL-ASYNC
const REPORTED: [(&str, &str); 13] = [
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "Etc/UTC"),
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("default_transaction_read_only", "off"),
    (IN_HOT_STANDBY, "off"),
    ("integer_datetimes", "on"),
    ("is_superuser", "off"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("session_authorization", "bench"),
    ("standard_conforming_strings", "on"),
];

/// The parameter that is `on` at a standby.
const IN_HOT_STANDBY: &str = "in_hot_standby";

impl FakeServer {
    /// One that says that it is a standby; nothing else is different.
    pub fn standby() -> Self {
        let mut server = FakeServer::default();
        server.session.set(IN_HOT_STANDBY, "on");
        server
    }
}

impl Default for FakeServer {
    fn default() -> Self {
        let parameters = REPORTED.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let session =
            Session { status: b'I', statements: HashMap::new(), portals: HashMap::new(), parameters, flush: false };
        FakeServer { phase: Phase::Startup, startup: Vec::new(), frames: Frames::default(), session }
    }
}

impl FakeServer {
    /// Takes what arrived, appends the answers to `out`, and says whether they are to be sent now
    /// (PostgreSQL keeps the answers of a pipeline until Sync or Flush).
    ///
    /// Errors: bytes that are not the protocol. The connection is then to be closed.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, String> {
        self.session.flush = false;
        let rest;
        let bytes = match self.phase {
            Phase::Startup => {
                self.startup.extend_from_slice(bytes);
                rest = self.start(out)?;
                &rest[..]
            }
            _ => bytes,
        };
        let (phase, session) = (&mut self.phase, &mut self.session);
        self.frames.feed(bytes, |tag, body| {
            *phase = session.message(phase, tag, body, out)?;
            Ok(())
        })?;
        Ok(self.session.flush)
    }

    /// The peer said goodbye; nothing more will be answered.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Answers startup packets while whole ones are at hand; returns the bytes that follow the last.
    //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
    fn start(&mut self, out: &mut Vec<u8>) -> Result<Vec<u8>, String> {
        while matches!(self.phase, Phase::Startup) {
            let Some((length, rest)) = self.startup.split_first_chunk::<4>() else { return Ok(Vec::new()) };
            let length = u32::from_be_bytes(*length) as usize;
            if !(8..=10_000).contains(&length) {
                return Err(format!("a startup packet of {length} bytes"));
            }
            let Some(packet) = rest.get(..length - 4) else { return Ok(Vec::new()) };
            let packet = packet.to_vec();
            self.startup.drain(..length);
            self.session.flush = true;
            self.start_packet(&packet, out)?;
        }
        Ok(std::mem::take(&mut self.startup))
    }

    fn start_packet(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let (code, mut rest) = packet.split_first_chunk::<4>().ok_or("a startup packet without a version")?;
        match u32::from_be_bytes(*code) {
            //= pg18 protocol-message-formats#SSLRequest (and GSSENCRequest): 'N' refuses.
            80_877_103 | 80_877_104 => out.push(b'N'),
            //= pg18 protocol-message-formats#CancelRequest: no answer, the connection is closed.
            80_877_102 => self.phase = Phase::Over,
            version if version >> 16 == 3 => {
                while rest.first().is_some_and(|byte| *byte != 0) {
                    let (name, after) = text(rest)?;
                    let (value, after) = text(after)?;
                    rest = after;
                    self.session.set(name, value);
                }
                self.session.welcome(out);
                self.phase = Phase::Ready;
            }
            version => return Err(format!("protocol version {version:#x}")),
        }
        Ok(())
    }
}

impl Session {
    fn welcome(&self, out: &mut Vec<u8>) {
        put(out, b'R', &[&[0; 4]]);
        for (name, value) in &self.parameters {
            report(out, name, value);
        }
        put(out, b'K', &[&[0, 0, 1, 0, 0, 0, 0, 7]]);
        put(out, b'Z', &[b"I"]);
    }

    /// Sets a reported parameter; says under which name PostgreSQL reports it, if it does and it changed.
    fn set(&mut self, name: &str, value: &str) -> Option<&'static str> {
        let (known, held) = self.parameters.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        if held == value {
            return None;
        }
        value.clone_into(held);
        Some(known)
    }

    fn message(&mut self, phase: &Phase, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Phase, String> {
        match (phase, tag) {
            (Phase::Over, _) | (_, b'X') => return Ok(Phase::Over),
            (_, b'S') => {
                put(out, b'Z', &[&[self.status]]);
                self.flush = true;
            }
            (Phase::Skipping, _) => return Ok(Phase::Skipping),
            (_, b'Q') => self.simple(text(body)?.0, out),
            (_, b'H') => self.flush = true,
            _ => match self.extended(tag, body, out)? {
                Ok(()) => {}
                Err((sqlstate, message)) => {
                    error(out, sqlstate, &message);
                    self.status = if self.status == b'I' { b'I' } else { b'E' };
                    return Ok(Phase::Skipping);
                }
            },
        }
        Ok(Phase::Ready)
    }

    /// A simple query: each statement is answered, then one ReadyForQuery.
    //= pg18 protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY
    fn simple(&mut self, sql: &str, out: &mut Vec<u8>) {
        // A comment behind the last semicolon is no statement.
        let is_comment = |one: &str| one.starts_with("/*") && one.ends_with("*/");
        let statements = sql.split(';').map(str::trim).filter(|one| !one.is_empty() && !is_comment(one));
        let statements: Vec<&str> = statements.collect();
        if statements.is_empty() {
            put(out, b'I', &[]);
        }
        for statement in statements {
            match prepare(statement) {
                Prepared::Empty | Prepared::Other => self.command(statement, out),
                prepared => {
                    row_description(out, prepared.columns());
                    self.execute(out, prepared);
                }
            }
        }
        put(out, b'Z', &[&[self.status]]);
        self.flush = true;
    }

    /// A statement that returns no rows.
    fn command(&mut self, statement: &str, out: &mut Vec<u8>) {
        let mut words = statement.split_whitespace().map(str::to_ascii_uppercase);
        let first = words.next().unwrap_or_default();
        match first.as_str() {
            "BEGIN" | "START" => self.status = b'T',
            "COMMIT" | "END" | "ROLLBACK" | "ABORT" => self.status = b'I',
            "SET" => self.assign(statement, out),
            "DISCARD" if words.next().as_deref() == Some("ALL") => self.discard(out),
            "RESET" if words.next().as_deref() == Some("ALL") => self.reset(out),
            "DEALLOCATE" => self.statements.clear(),
            _ => {}
        }
        let tag = match first.as_str() {
            "DISCARD" => "DISCARD ALL",
            "START" => "BEGIN",
            "END" => "COMMIT",
            "ABORT" => "ROLLBACK",
            other => other,
        };
        complete(out, tag);
    }

    /// `SET name = value`, `SET name TO 'value'`, `SET SESSION name TO …`.
    fn assign(&mut self, statement: &str, out: &mut Vec<u8>) {
        let rest = statement[3..].trim_start();
        let rest = rest.strip_prefix("SESSION ").or_else(|| rest.strip_prefix("session ")).unwrap_or(rest);
        let end = rest.find(|sign: char| sign == '=' || sign.is_whitespace()).unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        let value = value.trim_start().trim_start_matches('=');
        let value = value.strip_prefix("TO ").or_else(|| value.strip_prefix("to ")).unwrap_or(value);
        let value = value.trim().trim_matches('\'');
        if let Some(known) = self.set(name, value) {
            report(out, known, value);
        }
    }

    fn reset(&mut self, out: &mut Vec<u8>) {
        for (name, value) in REPORTED {
            if ![IN_HOT_STANDBY, "application_name"].contains(&name) && self.set(name, value).is_some() {
                report(out, name, value);
            }
        }
    }

    fn discard(&mut self, out: &mut Vec<u8>) {
        self.reset(out);
        self.statements.clear();
        self.portals.clear();
    }

    /// One message of the extended protocol. The inner error is PostgreSQL's answer, the outer one a broken peer.
    //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
    fn extended(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Result<(), Refusal>, String> {
        match tag {
            b'P' => {
                let (name, rest) = text(body)?;
                if !name.is_empty() && self.statements.contains_key(name) {
                    return Ok(Err(("42P05", format!("prepared statement \"{name}\" already exists"))));
                }
                self.statements.insert(name.to_owned(), prepare(text(rest)?.0));
                put(out, b'1', &[]);
            }
            b'B' => {
                let (portal, rest) = text(body)?;
                let name = text(rest)?.0;
                let Some(prepared) = self.statements.get(name) else {
                    return Ok(Err(unknown("prepared statement", name)));
                };
                self.portals.insert(portal.to_owned(), *prepared);
                put(out, b'2', &[]);
            }
            b'D' => return self.describe(body, out),
            b'E' => {
                let name = text(body)?.0;
                let Some(prepared) = self.portals.get(name) else { return Ok(Err(unknown("portal", name))) };
                let prepared = *prepared;
                self.execute(out, prepared);
            }
            b'C' => {
                let (kind, rest) = body.split_first().ok_or("an empty Close")?;
                let named = if *kind == b'S' { &mut self.statements } else { &mut self.portals };
                named.remove(text(rest)?.0);
                put(out, b'3', &[]);
            }
            tag => return Err(format!("a message '{}' that the fake does not know", tag.escape_ascii())),
        }
        Ok(Ok(()))
    }

    fn execute(&self, out: &mut Vec<u8>, prepared: Prepared) {
        match prepared {
            Prepared::Empty => put(out, b'I', &[]),
            Prepared::Other => complete(out, "SET"),
            Prepared::Select(answer) => {
                rows(out, answer);
                complete(out, &format!("SELECT {}", answer.shape().0));
            }
            Prepared::Question(question) => question.answer(self.parameters[IN_HOT_STANDBY] == "on", out),
        }
    }

    fn describe(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Result<(), Refusal>, String> {
        let (kind, rest) = body.split_first().ok_or("an empty Describe")?;
        let name = text(rest)?.0;
        let (named, noun) =
            if *kind == b'S' { (&self.statements, "prepared statement") } else { (&self.portals, "portal") };
        let Some(prepared) = named.get(name) else { return Ok(Err(unknown(noun, name))) };
        if *kind == b'S' {
            put(out, b't', &[&[0, 0]]);
        }
        match prepared {
            Prepared::Empty | Prepared::Other => put(out, b'n', &[]),
            prepared => row_description(out, prepared.columns()),
        }
        Ok(Ok(()))
    }
}

/// SQLSTATE and message of an ErrorResponse.
type Refusal = (&'static str, String);

fn unknown(noun: &str, name: &str) -> Refusal {
    let sqlstate = if noun == "portal" { "34000" } else { "26000" };
    (sqlstate, format!("{noun} \"{name}\" does not exist"))
}

impl Prepared {
    fn columns(self) -> u16 {
        if let Prepared::Question(question) = self { question.columns() } else { 1 }
    }
}

fn prepare(sql: &str) -> Prepared {
    let sql = sql.trim();
    if let Some(question) = Question::of(sql) {
        return Prepared::Question(question);
    }
    match sql.get(..6) {
        _ if sql.is_empty() => Prepared::Empty,
        Some(word) if word.eq_ignore_ascii_case("select") => Prepared::Select(Answer::of(sql)),
        _ => Prepared::Other,
    }
}

/// So many columns named "v", of type text.
//= pg18 protocol-message-formats#RowDescription
fn row_description(out: &mut Vec<u8>, columns: u16) {
    let column = b"v\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
    put(out, b'T', &[&columns.to_be_bytes()[..], &column.repeat(columns.into())]);
}

//= pg18 protocol-message-formats#DataRow
fn rows(out: &mut Vec<u8>, answer: Answer) {
    let (count, bytes) = answer.shape();
    for _ in 0..count {
        out.push(b'D');
        out.extend_from_slice(&(bytes as u32 + 10).to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(&(bytes as u32).to_be_bytes());
        out.resize(out.len() + bytes, b'7');
    }
}

fn complete(out: &mut Vec<u8>, tag: &str) {
    put(out, b'C', &[tag.as_bytes(), b"\0"]);
}

fn report(out: &mut Vec<u8>, name: &str, value: &str) {
    put(out, b'S', &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"]);
}

fn error(out: &mut Vec<u8>, sqlstate: &str, message: &str) {
    put(out, b'E', &[format!("SERROR\0VERROR\0C{sqlstate}\0M{message}\0\0").as_bytes()]);
}

#[cfg(test)]
#[path = "fake_tests.rs"]
mod tests;
