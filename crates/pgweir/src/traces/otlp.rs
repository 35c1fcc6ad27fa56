//! Spans of traced statements in OTLP's JSON encoding, with the names of OpenTelemetry's semantic conventions for databases.
//!
//! ```text
//!   client's span, or one of ours
//!     ├─ queue                how long the statement waited for a server; left out where it did not
//!     │    └─ connect         how long the server's opening took, if it waited for that
//!     └─ SELECT shop          how long PostgreSQL worked: a client's span, with the statement
//! ```
//!
//! OpenTelemetry Protocol 1.5, "JSON Protobuf Encoding"; Semantic Conventions 1.33, "Database Client Spans".

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connections::databases::Host;
use engine::EndedStatement;
use machine::{About, Peer, Settings};
use serde_json::{Value, json};
use sql::{Rules, Text, redacted};
use units::limits;

/// Kinds of spans.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;

/// The status of a span that has failed.
const ERROR: u8 = 2;

/// What is sent at once.
pub(super) struct Batch<'a> {
    pub(super) statements: &'a [EndedStatement],
    pub(super) settings: &'a Settings,
}

/// Ids of spans, which nobody can foresee.
pub(super) struct SpanIds {
    key: RandomState,
    count: u64,
}

impl SpanIds {
    pub(super) fn new() -> SpanIds {
        SpanIds { key: RandomState::new(), count: 0 }
    }

    /// Not zero, which would be none.
    fn next(&mut self) -> String {
        self.count += 1;
        format!("{:016x}", self.key.hash_one(self.count).max(1))
    }
}

/// One span.
struct Span<'a> {
    name: &'a str,
    kind: u8,
    id: &'a str,
    parent: &'a str,
    begun: SystemTime,
    ended: SystemTime,
    attributes: Vec<Value>,
}

impl Batch<'_> {
    pub(super) fn to_json(&self, ids: &mut SpanIds) -> String {
        let spans: Vec<Value> = self.statements.iter().flat_map(|ended| self.spans(ended, ids)).collect();
        let resource = [
            text("service.name", "pgweir"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            number("process.pid", i64::from(std::process::id())),
        ];
        let scope = json!({"name": "pgweir", "version": env!("CARGO_PKG_VERSION")});
        json!({"resourceSpans": [{
            "resource": {"attributes": resource},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }]})
        .to_string()
    }

    fn spans(&self, ended: &EndedStatement, ids: &mut SpanIds) -> Vec<Value> {
        let traced = &ended.statement;
        let sent_at = before(ended.at, traced.ran_us);
        let queued_at = before(sent_at, traced.queued_us);
        let (parent, state) = match &traced.origin.parent {
            Some((parent, state)) => (hex(&parent.span_id), &**state),
            None => (String::new(), ""),
        };
        let mut spans = Vec::new();
        let mut add = |span: Span<'_>| spans.push(encoded(ended, state, span));
        // Spans of a trace that begins here have one of ours above them.
        let parent = if parent.is_empty() {
            let id = ids.next();
            let span = Span {
                name: "statement",
                kind: INTERNAL,
                id: &id,
                parent: "",
                begun: queued_at,
                ended: ended.at,
                attributes: self.of_client(ended),
            };
            add(span);
            id
        } else {
            parent
        };
        if traced.queued_us > 0 {
            let id = ids.next();
            let (parent, attributes) = (parent.as_str(), self.of_client(ended));
            add(Span { name: "queue", kind: INTERNAL, id: &id, parent, begun: queued_at, ended: sent_at, attributes });
            if let Some(opened_us) = traced.opened_us {
                let (begun, attributes) = (before(sent_at, opened_us), of_server(ended));
                let own = ids.next();
                add(Span { name: "connect", kind: CLIENT, id: &own, parent: &id, begun, ended: sent_at, attributes });
            }
        }
        let (operation, statement) = self.statement(&traced.text, traced.rules);
        let mut attributes = [self.of_client(ended), of_server(ended)].concat();
        attributes.push(text("db.query.text", &statement));
        attributes.push(text("db.operation.name", &operation));
        if traced.has_failed {
            attributes.push(text("error.type", "_OTHER"));
        }
        let name = format!("{operation} {}", traced.pool.database);
        let (name, id) = (name.trim_start(), ids.next());
        add(Span { name, kind: CLIENT, id: &id, parent: &parent, begun: sent_at, ended: ended.at, attributes });
        spans
    }

    /// Its first word, and all of it as it may be told.
    fn statement(&self, bytes: &[u8], rules: Option<Rules>) -> (String, String) {
        let told = without_constants(bytes, rules);
        let word: String = told.chars().take_while(char::is_ascii_alphabetic).take(24).collect();
        let is_private = !self.settings.global.observing.observe_literals;
        let shown = if is_private { told } else { String::from_utf8_lossy(bytes).into_owned() };
        (word.to_ascii_uppercase(), shown)
    }

    fn of_client(&self, ended: &EndedStatement) -> Vec<Value> {
        let traced = &ended.statement;
        let classes = &self.settings.classes;
        let mut attributes = vec![text("db.system.name", "postgresql"), text("db.namespace", &traced.pool.database)];
        if !classes.is_single() {
            attributes.push(text("pgweir.class", &classes.class(traced.class).name));
        }
        if let About::Client { user, peer, application, .. } = &traced.client {
            attributes.extend(user.as_ref().map(|user| text("pgweir.user", user)));
            attributes.extend(application.as_ref().map(|name| text("pgweir.application_name", name)));
            match peer {
                Peer::Tcp { from, .. } => {
                    attributes.push(text("client.address", &from.ip().to_canonical().to_string()));
                    attributes.push(number("client.port", i64::from(from.port())));
                }
                Peer::Unix { pid, .. } => attributes.push(number("pgweir.client_pid", i64::from(*pid))),
            }
        }
        attributes
    }
}

/// As its session reads it; if that is not known for certain, nothing of it.
fn without_constants(bytes: &[u8], rules: Option<Rules>) -> String {
    let read = |rules| redacted(&Text::new(bytes, rules), limits::LOGGED_TEXT_LEN_MAX);
    rules.map_or_else(|| "…".to_owned(), read)
}

fn of_server(ended: &EndedStatement) -> Vec<Value> {
    let traced = &ended.statement;
    let host = match &traced.address.host {
        Host::Unix(dir) => dir.clone(),
        Host::Ip(address) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    vec![
        text("server.address", &host),
        number("server.port", i64::from(traced.address.port)),
        number("pgweir.backend_pid", i64::from(traced.backend_pid)),
    ]
}

fn encoded(ended: &EndedStatement, state: &str, span: Span<'_>) -> Value {
    let is_execute = span.ended == ended.at;
    let status = if ended.statement.has_failed && is_execute { json!({"code": ERROR}) } else { json!({}) };
    let mut value = json!({
        "traceId": hex(&ended.trace_id),
        "spanId": span.id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": nanos(span.begun),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": span.attributes,
        "status": status,
    });
    if !span.parent.is_empty() {
        value["parentSpanId"] = json!(span.parent);
    }
    if !state.is_empty() {
        value["traceState"] = json!(state);
    }
    value
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Numbers of 64 bits are texts in this encoding.
fn number(key: &str, value: i64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn before(at: SystemTime, micros: u64) -> SystemTime {
    at.checked_sub(Duration::from_micros(micros)).unwrap_or(UNIX_EPOCH)
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_end_where_the_session_ends_them() {
        let standard = Rules::default();
        let escaped = Rules { standard_strings: false, ..standard };
        let text = r"select 'it\'s secret'";
        assert_eq!(without_constants(text.as_bytes(), Some(escaped)), "select ?");
        assert_eq!(without_constants(br"select 'c:\', 'x'", Some(standard)), "select ?, ?");
        assert_eq!(without_constants(text.as_bytes(), None), "…");
    }
}
