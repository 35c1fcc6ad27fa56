//! Traces: spans come to a collector as OTLP, below the spans of their clients and with the times that these have measured; a collector that
//! is gone, slow or rude is in nobody's way.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outer::{Client, Stage, Wishes, eventually};
use serde_json::Value;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Between two tries the pooler rests for at most half a minute: spans that take longer than this never come.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a collector behaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Manner {
    Takes,
    /// It reads nothing and says nothing.
    IsSilent,
    /// It refuses once for now, then takes.
    IsBusyOnce,
}

/// A collector of our own.
struct Collector {
    port: u16,
    bodies: Receiver<(String, String)>,
}

impl Collector {
    fn start(manner: Manner) -> Collector {
        Collector::on(TcpListener::bind("127.0.0.1:0").expect("a port is free"), manner)
    }

    fn on(listener: TcpListener, manner: Manner) -> Collector {
        let port = listener.local_addr().expect("it listens").port();
        let (sender, bodies) = channel();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for (number, stream) in listener.incoming().flatten().enumerate() {
                match manner {
                    Manner::IsSilent => silent.push(stream),
                    Manner::IsBusyOnce if number == 0 => answer(stream, "503 Busy", None),
                    _ => answer(stream, "200 OK", Some(&sender)),
                }
            }
        });
        Collector { port, bodies }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1/traces", self.port)
    }

    /// All spans that come until there are so many.
    fn spans(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < count {
            let (_, body) = self.bodies.recv_timeout(PATIENCE).expect("spans come");
            spans.extend(read_spans(&body));
        }
        spans
    }
}

/// Reads a request, and answers it.
fn answer(mut stream: TcpStream, status: &str, bodies: Option<&Sender<(String, String)>>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    let head_len = loop {
        if let Some(at) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
            _ => return,
        }
    };
    let head = String::from_utf8_lossy(&request[..head_len]).into_owned();
    let len = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let len = len.expect("it says how long it is");
    let len: usize = len.parse().expect("a number");
    while request.len() < head_len + len {
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
    let body = String::from_utf8(request[head_len..].to_vec()).expect("JSON is UTF-8");
    if let Some(bodies) = bodies {
        // The test may have ended.
        let _ = bodies.send((head, body));
    }
    // The pooler may be gone.
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").as_bytes());
    let _ = stream.shutdown(Shutdown::Both);
}

#[derive(Clone, Debug)]
struct Span {
    name: String,
    trace: String,
    id: String,
    parent: String,
    state: String,
    begun: Duration,
    ended: Duration,
    has_failed: bool,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn lasted(&self) -> Duration {
        self.ended.checked_sub(self.begun).expect("it ends after it began")
    }
}

fn read_spans(body: &str) -> Vec<Span> {
    let json: Value = serde_json::from_str(body).expect("it is JSON");
    let list = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("it has spans");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = |value: &Value| Duration::from_nanos(text(value).parse().expect("nanoseconds"));
    let spans = list.iter().map(|span| {
        let attributes = span["attributes"].as_array().expect("it has attributes").iter().map(|attribute| {
            let value = &attribute["value"];
            let value = value["stringValue"].as_str().or(value["intValue"].as_str()).expect("a text or a number");
            (text(&attribute["key"]), value.to_owned())
        });
        Span {
            name: text(&span["name"]),
            trace: text(&span["traceId"]),
            id: text(&span["spanId"]),
            parent: text(&span["parentSpanId"]),
            state: text(&span["traceState"]),
            begun: time(&span["startTimeUnixNano"]),
            ended: time(&span["endTimeUnixNano"]),
            has_failed: span["status"]["code"] == 2,
            attributes: attributes.collect(),
        }
    });
    spans.collect()
}

fn stage(pool: u32, settings: &[(&'static str, &str)]) -> Stage {
    let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Stage::set(&Wishes { pool, workers: 1, settings, ..Wishes::default() })
}

fn comment(trace: &str) -> String {
    format!("/*traceparent='00-{trace}-{SPAN}-01',tracestate='congo%3Dt61'*/")
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later")
}

fn ask(client: &mut Client, text: &str) {
    client.query(text).unwrap_or_else(|gone| panic!("{text}: {gone}"));
}

#[test]
fn spans_stand_below_their_clients_and_have_the_times_that_these_measured() {
    let collector = Collector::start(Manner::Takes);
    let mut stage = stage(1, &[("otlp_endpoint", &collector.url()), ("otlp_headers", "x-key=thing, x-more=a=b")]);
    let mut waiter = stage.client();
    ask(&mut waiter, "set application_name = '<script>\u{1b}[2J'");
    let mut holder = stage.client();
    ask(&mut holder, "begin");
    let text = format!("select pg_sleep(0.3), 'a secret' {}", comment(TRACE));
    let begun = since_1970();
    let asked = thread::spawn(move || {
        let began = Instant::now();
        ask(&mut waiter, &text);
        (waiter, began.elapsed())
    });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("the console");
    let mut waits =
        || console.query("show clients").expect("answered").lines().iter().any(|row| row.contains("|waiting|"));
    eventually("it waits", &mut waits);
    let waited = since_1970();
    // So long it waits at least.
    ask(&mut holder, "select pg_sleep(0.3)");
    let freed = since_1970();
    ask(&mut holder, "commit");
    let (mut waiter, measured) = asked.join().expect("it is answered");
    let spans = collector.spans(2);
    let ended = since_1970();
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:?}"));
    let (queue, execute) = (of("queue"), of("SELECT postgres"));
    for span in &spans {
        assert_eq!((&*span.trace, &*span.parent, &*span.state), (TRACE, SPAN, "congo=t61"), "{span:?}");
        assert!(span.begun >= begun && span.ended <= ended, "{begun:?} {span:?} {ended:?}");
        assert_eq!(span.attributes["db.system.name"], "postgresql");
    }
    assert!(queue.begun <= waited && queue.ended >= freed, "{waited:?} {queue:?} {freed:?}");
    assert!(queue.lasted() >= Duration::from_millis(300), "{queue:?}");
    assert!(execute.lasted() >= Duration::from_millis(300), "{execute:?}");
    let sum = queue.lasted() + execute.lasted();
    // No part is missing: the one begins where the other ends, and the rest of what was measured is the client's way.
    assert!(sum <= measured, "{sum:?} of {measured:?}");
    assert_eq!(queue.ended, execute.begun, "{queue:?} {execute:?}");
    assert_eq!(execute.attributes["db.query.text"], "select pg_sleep(?), ?", "no constants, no comment");
    assert_eq!(execute.attributes["server.address"], "127.0.0.1");
    // Where a backslash is no character like others, a constant ends later.
    ask(&mut waiter, "set standard_conforming_strings = off");
    ask(&mut waiter, &format!(r"select 'it\'s secret' {}", comment(TRACE)));
    let spans = collector.spans(1);
    assert_eq!(spans[0].attributes["db.query.text"], "select ?", "{spans:?}");
    ask(&mut waiter, "set standard_conforming_strings = on");
    // An error fails its span, and a hostile comment begins no trace.
    for hostile in
        ["traceparent='00-xx'", "traceparent='00-%00%0a'", "traceparent", "traceparent=''", "traceparent='\u{e9}'"]
    {
        ask(&mut waiter, &format!("select 1 /*{hostile}*/"));
    }
    ask(&mut waiter, &format!("select 1/0 {}", comment(TRACE)));
    let spans = collector.spans(1);
    assert!(spans.len() == 1 && spans[0].has_failed, "{spans:?}");
    assert_ne!(spans[0].id, execute.id);
    stage.assert_healthy();
}

#[test]
fn headers_are_sent_and_metrics_have_exemplars() {
    let collector = Collector::start(Manner::Takes);
    let http = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port is free");
    let settings =
        [("otlp_endpoint", &*collector.url()), ("otlp_headers", "x-key=a=b"), ("http_listen", &*http.to_string())];
    let stage = stage(1, &settings);
    ask(&mut stage.client(), &format!("select 1 {}", comment(TRACE)));
    let (head, _) = collector.bodies.recv_timeout(PATIENCE).expect("spans come");
    assert!(
        head.to_lowercase().contains("\r\nx-key: a=b\r\n") && head.starts_with("POST /v1/traces HTTP/1.1\r\n"),
        "{head}"
    );
    let ask_for = |accept: &str| {
        let mut stream = TcpStream::connect(http).expect("it listens");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it takes it");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        page
    };
    // The page is refused while a worker does not answer in time.
    let page = |accept: &str| {
        let mut page = String::new();
        eventually("all workers have answered", || {
            page = ask_for(accept);
            page.starts_with("HTTP/1.1 200 ")
        });
        page
    };
    let exemplar = format!("# {{trace_id=\"{TRACE}\"}}");
    let open = page("application/openmetrics-text; version=1.0.0");
    let lines: Vec<_> = open.lines().filter(|line| line.contains(&exemplar)).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("pgweir_wait_seconds_bucket{"), "{open}");
    assert!(!page("text/plain").contains("trace_id"));
}

#[test]
fn a_share_of_transactions_without_a_trace_gets_one() {
    let collector = Collector::start(Manner::Takes);
    let mut stage = stage(1, &[("otlp_endpoint", &collector.url()), ("trace_sample", "0.1")]);
    let mut client = stage.client();
    for _ in 0..50 {
        for text in ["begin", "select 1", "commit"] {
            ask(&mut client, text);
        }
    }
    // Of fifty transactions five, of three statements each, each with a span of its own and one for the execution.
    let spans = collector.spans(30);
    let mut traces: BTreeMap<&str, usize> = BTreeMap::new();
    spans.iter().for_each(|span| *traces.entry(&span.trace).or_default() += 1);
    assert_eq!(traces.values().copied().collect::<Vec<_>>(), [6; 5], "{spans:?}");
    let ids: Vec<_> = spans.iter().filter(|span| span.parent.is_empty()).map(|span| &span.id).collect();
    assert!(spans.iter().all(|span| span.parent.is_empty() || ids.contains(&&span.parent)));
    // No others: what came before this one is sent before it.
    ask(&mut client, &format!("select 2 {}", comment(TRACE)));
    let spans = collector.spans(1);
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:?}");
    stage.assert_healthy();
}

#[test]
fn a_collector_that_is_gone_or_silent_delays_nobody() {
    for manner in [Manner::Takes, Manner::IsSilent] {
        let silent = Collector::start(manner);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let gone = listener.local_addr().expect("it listens").port();
        drop(listener);
        let url = if manner == Manner::IsSilent { silent.url() } else { format!("http://127.0.0.1:{gone}/v1") };
        let mut stage = stage(4, &[("otlp_endpoint", &url), ("trace_sample", "1")]);
        let mut client = stage.client();
        let begun = Instant::now();
        // More than the queue holds.
        (0..6_000).for_each(|_| ask(&mut client, "select 1"));
        let took = begun.elapsed();
        println!("{manner:?}: 6000 traced statements took {took:?}");
        eventually("it is said", || stage.pooler.log().contains("traces cannot be sent: "));
        let said = stage.pooler.log().matches("traces cannot be sent: ").count();
        assert_eq!(said, 1, "once");
        stage.assert_healthy();
    }
}

#[test]
fn spans_arrive_when_the_collector_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    drop(listener);
    let url = format!("http://{address}/v1/traces");
    let stage = stage(1, &[("otlp_endpoint", &url)]);
    let mut client = stage.client();
    ask(&mut client, &format!("select 1 {}", comment(TRACE)));
    eventually("it is said", || stage.pooler.log().contains("traces cannot be sent: "));
    let collector = Collector::on(TcpListener::bind(address).expect("nobody has taken it"), Manner::IsBusyOnce);
    // The first ones may have had their three tries before it was there.
    ask(&mut client, &format!("select 2 {}", comment(TRACE)));
    let spans = collector.spans(1);
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:?}");
    eventually("that is said, too", || stage.pooler.log().contains("traces are sent again"));
}
