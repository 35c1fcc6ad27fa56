//! What is shipped for Grafana and Prometheus, held against the program under load: every metric and label in the dashboard and in the
//! alert rules is exported, each alert has its section in the manual, and a real Prometheus evaluates every query.
// tidy: one line over, for the observer that the dashboard shows

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Program, Stage, Wishes, eventually};
use serde_json::Value;

/// Of Prometheus itself, with the labels of the target.
const OF_PROMETHEUS: &str = "up";
/// Labels that Prometheus puts on everything that it scrapes.
const OF_TARGETS: [&str; 2] = ["job", "instance"];

/// What Grafana's mixin for PgBouncer asks for (grafana/jsonnet-libs, pgbouncer-mixin: signals, alerts and variables), which was made
/// for pgbouncer_exporter as dashboard 14022 was, with the labels that it selects or shows. Its `pgbouncer_stats_…` are below.
const OF_THE_MIXIN: [(&str, &[&str]); 11] = [
    ("pgbouncer_pools_client_waiting_connections", &["database", "user"]),
    ("pgbouncer_pools_client_active_connections", &["database", "user"]),
    ("pgbouncer_pools_client_maxwait_seconds", &["database", "user"]),
    ("pgbouncer_pools_server_active_connections", &["database", "user"]),
    ("pgbouncer_pools_server_idle_connections", &["database", "user"]),
    ("pgbouncer_pools_server_used_connections", &["database", "user"]),
    ("pgbouncer_pools_server_login_connections", &["database", "user"]),
    ("pgbouncer_pools_server_testing_connections", &["database", "user"]),
    ("pgbouncer_databases_max_connections", &["database"]),
    ("pgbouncer_databases_current_connections", &["database"]),
    ("pgbouncer_config_max_client_connections", &[]),
];

/// Names that the mixin and other dashboards have from the exporter's README. The exporter's code says `pgbouncer_stats_totals_…`:
/// deploy/prometheus/pgbouncer-names.rules.yaml records the one as the other.
const OF_THE_README: [&str; 6] = [
    "queries_pooled_total",
    "queries_duration_seconds_total",
    "sql_transactions_pooled_total",
    "server_in_transaction_seconds_total",
    "received_bytes_total",
    "sent_bytes_total",
];

/// Panels that show nothing while all is well, and why this load does not bring anything there.
const MAY_BE_EMPTY: [(&str, &str); 1] =
    [("Changes of size", "auto changes a size when it has tried others, for seconds")];

/// Until each query has something to show: many times what it takes.
const COMES_WITHIN: Duration = Duration::from_secs(600);

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An expression, and where it stands.
struct Query {
    place: String,
    expression: String,
    /// Labels that the legend shows.
    shown: Vec<String>,
}

fn dashboard() -> Value {
    serde_json::from_str(&file("deploy/grafana/pgweir.json")).expect("it is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn queries_of_dashboard() -> Vec<Query> {
    let dashboard = dashboard();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let parts = text(&target["legendFormat"]).split("{{").skip(1);
            let shown = parts.map(|part| part.split("}}").next().unwrap_or_default().trim().to_owned()).collect();
            let expression = text(&target["expr"]).to_owned();
            queries.push(Query { place: text(&panel["title"]).to_owned(), expression, shown });
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if let Some((expression, label)) = label_values(variable) {
            let place = format!("variable {}", text(&variable["name"]));
            queries.push(Query { place, expression: expression.to_owned(), shown: vec![label.to_owned()] });
        }
    }
    queries
}

/// The expression and the label where a variable finds its values; `None` for the data source.
fn label_values(variable: &Value) -> Option<(&str, &str)> {
    let inner = variable["query"]["query"].as_str()?.strip_prefix("label_values(")?;
    let (expression, label) = inner.trim_end_matches(')').rsplit_once(',').expect("a metric and a label");
    Some((expression, label.trim()))
}

/// The alerts of the rules' file: the name, the expression and `runbook_url`. It knows as much YAML as the file has.
fn alerts() -> Vec<(String, String, String)> {
    let mut alerts: Vec<(String, String, String)> = Vec::new();
    let mut depth = None;
    for line in file("deploy/prometheus/pgweir.rules.yaml").lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        if depth.is_some_and(|depth| indent > depth) {
            alerts.last_mut().expect("an expression is of an alert").1 += &format!("{line} ");
            continue;
        }
        depth = None;
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push((name.to_owned(), String::new(), String::new()));
        } else if line == "expr: |" {
            depth = Some(indent);
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            expression.clone_into(&mut alerts.last_mut().expect("an expression is of an alert").1);
        } else if let Some(url) = line.strip_prefix("runbook_url: ") {
            url.clone_into(&mut alerts.last_mut().expect("a URL is of an alert").2);
        }
    }
    alerts
}

/// What an expression of PromQL names.
#[derive(Debug, Default)]
struct Names {
    /// Metrics, and the labels in the braces behind each.
    metrics: Vec<(String, BTreeSet<String>)>,
    /// Labels of `by`, `without`, `on`, `ignoring`, and of `group_left` and `group_right`.
    grouped: BTreeSet<String>,
    /// Labels that `label_replace` makes.
    made: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Words, strings and signs; durations in brackets are left out.
fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                let mut text = String::new();
                while let Some(c) = rest.next().filter(|c| *c != '"') {
                    text.push(if c == '\\' { rest.next().expect("something behind a backslash") } else { c });
                }
                tokens.push(Token::Text(text));
            }
            '[' => while rest.next().is_some_and(|c| c != ']') {},
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '.')) {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Sign(c)),
        }
    }
    tokens
}

fn names(expression: &str) -> Names {
    const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
    const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let tokens = tokens(expression);
    let mut names = Names::default();
    let mut at = 0;
    // The words up to a closing sign.
    let words_to = |from: usize, end: char| {
        let inner: Vec<&Token> = tokens[from..].iter().take_while(|token| **token != Token::Sign(end)).collect();
        let words =
            inner.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.clone()) } else { None });
        (words.collect::<BTreeSet<_>>(), from + inner.len() + 1)
    };
    while at < tokens.len() {
        let Token::Word(word) = &tokens[at] else {
            at += 1;
            continue;
        };
        let next = tokens.get(at + 1);
        if GROUPING.contains(&word.as_str()) && next == Some(&Token::Sign('(')) {
            let (labels, behind) = words_to(at + 2, ')');
            names.grouped.extend(labels);
            at = behind;
        } else if next == Some(&Token::Sign('{')) {
            let (labels, behind) = words_to(at + 2, '}');
            names.metrics.push((word.clone(), labels));
            at = behind;
        } else {
            let is_called = next == Some(&Token::Sign('('))
                || matches!(next, Some(Token::Word(next)) if GROUPING.contains(&next.as_str()));
            let is_grouping = GROUPING.contains(&word.as_str());
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if !is_called && !is_number && !is_grouping && !OPERATORS.contains(&word.as_str()) {
                names.metrics.push((word.clone(), BTreeSet::new()));
            }
            at += 1;
        }
    }
    if let Some(place) = tokens.iter().position(|token| *token == Token::Word("label_replace".to_owned())) {
        let made = tokens[place..]
            .iter()
            .find_map(|token| if let Token::Text(text) = token { Some(text.clone()) } else { None });
        names.made.extend(made);
    }
    names
}

/// The labels of each series, by the metric's name.
fn exported(page: &str) -> BTreeMap<String, Vec<BTreeSet<String>>> {
    let mut exported: BTreeMap<String, Vec<BTreeSet<String>>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // The values have no such signs in them.
        let labels = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
        exported.entry(name.to_owned()).or_default().push(labels.collect());
    }
    exported
}

/// The program under a load that has something for each panel: classes, limits that refuse, a size found by auto, pinned sessions, refused
/// logins.
struct Load {
    stage: Stage,
    http: u16,
    stop: Arc<AtomicBool>,
    clients: Vec<thread::JoinHandle<()>>,
}

const CLASSES: &str = "\
[classes]
default = long=reports long_after=0.1
reports = max=1
web = weight=4 max_active=50
background = max=1 max_waiting=1 overflow=reject-newest
api = tps=5 over=reject
";
const RULES: &str = "all all puma all web\nall all sidekiq all background\nall all api all api\n";

/// Database, application, statements one after the other, and how many such clients there are.
const CLIENTS: [(&str, &str, &str, usize); 7] = [
    ("postgres", "puma", "select 1", 3),
    ("postgres", "sidekiq", "select pg_sleep(0.02)", 4),
    ("postgres", "api", "select 2", 1),
    ("postgres", "psql", "select pg_sleep(0.2)", 2),
    ("sized", "psql", "select 3", 6),
    // One waits for the other: a verdict.
    ("tight", "psql", "select pg_sleep(2.5)", 2),
    ("watched", "psql", "select pg_advisory_lock(1);select pg_advisory_unlock(1)", 1),
];

impl Load {
    fn start() -> Load {
        let http = demo::free_port();
        let settings = vec![
            ("http_listen", format!("127.0.0.1:{http}")),
            ("max_db_connections", "50".to_owned()),
            ("fingerprint_max_active", "1000".to_owned()),
            ("fingerprint_limits", "54856474b8f4c0e4:2".to_owned()),
            ("auto_pool_size_max", "8".to_owned()),
            ("observe_interval", "1".to_owned()),
        ];
        let stage = Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() });
        let (host, port, password) = (stage.cluster.host(), stage.cluster.port(), stage.cluster.password());
        let postgres = format!("host={host} port={port} user=postgres password={password} dbname=postgres");
        let databases = format!(
            "sized = {postgres} pool_size=auto\nwatched = {postgres} pool_fidelity=strict\ntight = {postgres} pool_size=1\n\
             listed = {postgres} target_session_attrs=primary host={host},localhost\n"
        );
        let rules = stage.pooler.dir().join("classes.conf");
        fs::write(&rules, RULES).expect("its directory is ours");
        let ini = fs::read_to_string(stage.pooler.dir().join("pooler.ini")).expect("its ini file");
        let section = format!("{databases}{CLASSES}[pgbouncer]\nclass_file = {}\n", rules.display());
        fs::write(stage.pooler.dir().join("pooler.ini"), ini.replace("[pgbouncer]\n", &section)).expect("it is ours");
        let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
        let answer = console.query("reload").expect("an answer");
        assert!(answer.errors.is_empty(), "{answer:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        let address = stage.pooler.address();
        for (database, application, statements, count) in CLIENTS {
            for _ in 0..count {
                let stop = Arc::clone(&stop);
                let one = move || work(address, database, application, statements, &stop);
                clients.push(thread::spawn(one));
            }
        }
        let stopped = Arc::clone(&stop);
        clients.push(thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                assert!(Client::login(address, "postgres", "nowhere").is_err(), "there is no such database");
                drop(Client::login(address, "postgres", "postgres"));
                thread::sleep(Duration::from_millis(200));
            }
        }));
        Load { stage, http, stop, clients }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("each client was answered");
        }
        self.stage.assert_healthy();
    }
}

/// A client of the load, until it is to stop.
fn work(address: SocketAddr, database: &str, application: &str, statements: &str, stop: &AtomicBool) {
    let mut client = Client::login(address, "postgres", database).expect("let in");
    client.query(&format!("set application_name = '{application}'")).expect("an answer");
    for statement in statements.split(';').cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        // An error is what is wanted of some.
        let answer = client.query(statement).expect("an answer");
        let pause = if answer.errors.is_empty() { 1 } else { 50 };
        thread::sleep(Duration::from_millis(pause));
    }
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(120))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// What is wrong with an expression's names, in words.
fn mistakes(query: &Query, exported: &BTreeMap<String, Vec<BTreeSet<String>>>) -> Vec<String> {
    let names = names(&query.expression);
    let mut mistakes = Vec::new();
    let mut known: BTreeSet<String> = names.made.iter().cloned().chain(OF_TARGETS.map(str::to_owned)).collect();
    if names.metrics.is_empty() {
        mistakes.push(format!("{}: it names no metric", query.place));
    }
    for (metric, labels) in names.metrics.iter().filter(|(metric, _)| metric != OF_PROMETHEUS) {
        let Some(series) = exported.get(metric) else {
            mistakes.push(format!("{}: {metric} is not exported", query.place));
            continue;
        };
        known.extend(series.iter().flatten().cloned());
        let own: BTreeSet<&String> = labels.iter().filter(|label| !OF_TARGETS.contains(&label.as_str())).collect();
        if !series.iter().any(|series| own.iter().all(|label| series.contains(*label))) {
            mistakes.push(format!("{}: {metric} has no series with the labels {own:?}", query.place));
        }
    }
    let strange = names.grouped.iter().chain(&query.shown).filter(|label| !known.contains(*label));
    mistakes.extend(strange.map(|label| format!("{}: no metric of it has the label {label}", query.place)));
    mistakes
}

/// Series that are there once something has happened.
const AFTER_EVENTS: [&str; 8] = [
    "pgweir_events_count_total{",
    "pgweir_lanes_count{",
    "pgweir_sizing_size{",
    "pgweir_fidelity_reasons_pin_count_total{",
    "fingerprint=\"",
    "pgweir_holders{",
    "pgweir_why_waiting{",
    "pgweir_why_behind{",
];

#[test]
fn every_metric_and_label_is_exported() {
    let load = Load::start();
    let mut page = String::new();
    // Who holds a server is another one each second.
    eventually(&format!("there are {AFTER_EVENTS:?}"), || {
        page = get(load.http, "/metrics").unwrap_or_default();
        AFTER_EVENTS.iter().all(|series| page.contains(series))
    });
    let exported = exported(&page);
    let mut queries = queries_of_dashboard();
    let alerts = alerts();
    assert!(queries.len() > 50 && alerts.len() > 15, "{} queries, {} alerts", queries.len(), alerts.len());
    queries.extend(alerts.into_iter().map(|(place, expression, _)| Query { place, expression, shown: Vec::new() }));
    let mut mistakes: Vec<String> = queries.iter().flat_map(|query| mistakes(query, &exported)).collect();
    for (metric, labels) in OF_THE_MIXIN {
        let labels: BTreeSet<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let fits = exported.get(metric).is_some_and(|series| series.iter().all(|series| labels.is_subset(series)));
        mistakes
            .extend((!fits).then(|| format!("{metric} with {labels:?} is not exported, and the mixin asks for it")));
    }
    for name in OF_THE_README {
        let metric = format!("pgbouncer_stats_totals_{name}");
        let fits = exported.get(&metric).is_some_and(|series| series.iter().all(|labels| labels.contains("database")));
        mistakes.extend((!fits).then(|| format!("{metric} is not exported")));
    }
    assert_eq!(mistakes, Vec::<String>::new());
    load.end();
}

#[test]
fn each_alert_has_a_section_in_the_manual() {
    let page = file("docs/guide/alerts.md");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## Pgweir")).collect();
    let mut alerts = alerts();
    for (alert, _, url) in &alerts {
        assert_eq!(*url, format!("docs/guide/alerts.md#{}", alert.to_lowercase()), "{alert}");
    }
    alerts.sort();
    let named: BTreeSet<String> = sections.iter().map(|section| format!("Pgweir{section}")).collect();
    assert_eq!(named.into_iter().collect::<Vec<_>>(), alerts.into_iter().map(|(alert, ..)| alert).collect::<Vec<_>>());
}

#[test]
fn the_dashboard_loads_by_import_and_by_a_file() {
    let dashboard = dashboard();
    assert_eq!((text(&dashboard["uid"]), &dashboard["id"]), ("pgweir-overview", &Value::Null));
    assert_eq!(dashboard["schemaVersion"], 39);
    let variables: Vec<&str> =
        dashboard["templating"]["list"].as_array().expect("variables").iter().map(|one| text(&one["name"])).collect();
    assert_eq!(variables, ["DS_PROMETHEUS", "job", "instance", "database", "user"]);
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its own id");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = text(&panel["title"]);
        assert!(text(&panel["description"]).ends_with(['.', '?']), "{title}: a description in sentences");
        if text(&panel["type"]) != "row" {
            assert_eq!(text(&panel["datasource"]["uid"]), "${DS_PROMETHEUS}", "{title}");
        }
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        for (x, y) in (0..place("w")).flat_map(|x| (0..place("h")).map(move |y| (x, y))) {
            assert!(
                place("x") + x < 24 && taken.insert((place("x") + x, place("y") + y)),
                "{title}: lies on another panel"
            );
        }
    }
}

/// Ended with the test.
struct Prometheus {
    process: Child,
    port: u16,
    log: PathBuf,
}

impl Prometheus {
    /// It scrapes `http` and itself, which is no pgweir, every other second, and evaluates the rules that are shipped as often.
    fn start(program: &Program, folder: &Path, http: u16) -> Prometheus {
        fs::create_dir(folder).expect("its directory is ours");
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/*.rules.yaml");
        let mut config = String::from("global: { scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s }\n");
        writeln!(config, "rule_files: [ \"{}\" ]", rules.display()).expect("writing to a String cannot fail");
        config += "scrape_configs:\n";
        let (port, log) = (demo::free_port(), folder.join("log"));
        for (job, target) in [("pgweir", http), ("prometheus", port)] {
            let line =
                format!("  - {{ job_name: {job}, static_configs: [ {{ targets: [ \"127.0.0.1:{target}\" ] }} ] }}\n");
            config += &line;
        }
        fs::write(folder.join("prometheus.yml"), config).expect("its directory is ours");
        let mut command = program.command();
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("its directory is ours"));
        Prometheus { process: command.spawn().expect("it starts"), port, log }
    }

    /// The answer of its interface; `None` while it is not up, or where it refuses.
    fn ask(&self, path: &str) -> Result<Value, String> {
        let body = get(self.port, path).ok_or_else(|| fs::read_to_string(&self.log).unwrap_or_default())?;
        let answer: Value = serde_json::from_str(&body).map_err(|_| body.clone())?;
        if answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(body) }
    }

    /// The numbers of an expression's series, of those that have one.
    fn numbers(&self, expression: &str) -> Result<Vec<f64>, String> {
        let data = self.ask(&format!("/api/v1/query?query={}", encoded(expression)))?;
        let series = data["result"].as_array().ok_or("no result")?;
        let numbers = series.iter().map(|series| text(&series["value"][1]).parse::<f64>().expect("a number"));
        Ok(numbers.filter(|number| !number.is_nan()).collect())
    }

    /// What Grafana puts for each variable when All is chosen: its `allValue`, or else the values that its query finds.
    fn all_values(&self) -> Vec<(String, String)> {
        let mut all = vec![("$__rate_interval".into(), "20s".into()), ("$__range".into(), "1m".into())];
        for variable in dashboard()["templating"]["list"].as_array().expect("variables") {
            let Some((expression, label)) = label_values(variable) else { continue };
            let of_query = || {
                let matching = encoded(&filled_in(expression, &all));
                let found = self.ask(&format!("/api/v1/label/{label}/values?match[]={matching}")).unwrap_or_default();
                let found: Vec<&str> = found.as_array().into_iter().flatten().map(text).collect();
                format!("({})", found.join("|"))
            };
            let value = variable["allValue"].as_str().map_or_else(of_query, str::to_owned);
            all.push((format!("${}", text(&variable["name"])), value));
        }
        all
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        write!(encoded, "%{byte:02X}").expect("writing to a String cannot fail");
    }
    encoded
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn filled_in(expression: &str, values: &[(String, String)]) -> String {
    values.iter().fold(expression.to_owned(), |filled, (variable, value)| filled.replace(variable, value))
}

#[test]
fn prometheus_evaluates_every_query_and_rule() {
    let Some(program) = Program::built_by("prometheus") else { return };
    let load = Load::start();
    let prometheus = Prometheus::start(&program, &load.stage.pooler.dir().join("prometheus"), load.http);
    let mut queries = queries_of_dashboard();
    queries.retain(|query| !query.place.starts_with("variable "));
    let recorded = OF_THE_README.map(|name| format!("rate(pgbouncer_stats_{name}[20s])"));
    queries.extend(recorded.map(|expression| Query { place: "recorded".to_owned(), expression, shown: Vec::new() }));
    let empty = || -> Vec<String> {
        let all = prometheus.all_values();
        let of = |query: &Query| match prometheus.numbers(&filled_in(&query.expression, &all)) {
            Ok(numbers) if numbers.is_empty() => {
                Some(format!("{}: nothing for {}", query.place, filled_in(&query.expression, &all)))
            }
            Ok(_) => None,
            Err(why) => Some(format!("{}: {why}", query.place)),
        };
        queries
            .iter()
            .filter(|query| !MAY_BE_EMPTY.iter().any(|(title, _)| *title == query.place))
            .filter_map(of)
            .collect()
    };
    let deadline = Instant::now() + COMES_WITHIN;
    while !empty().is_empty() {
        assert!(Instant::now() < deadline, "after {COMES_WITHIN:?} still: {:#?}", empty());
        thread::sleep(Duration::from_secs(1));
    }
    let all = prometheus.all_values();
    let numbers = |title: &str| {
        let query = queries.iter().find(|query| query.place == title).expect("there is such a panel");
        prometheus.numbers(&filled_in(&query.expression, &all)).unwrap_or_else(|error| panic!("{title}: {error}"))
    };
    for (title, why) in MAY_BE_EMPTY {
        println!("{title}: {} series ({why})", numbers(title).len());
    }
    // Of what Prometheus scrapes, one target is no pgweir.
    // A scrape that a busy machine has made too late is made good by the next one.
    eventually("the one that is one answers", || {
        (numbers("Processes that answer"), numbers("Processes that do not answer")) == (vec![1.0], vec![0.0])
    });
    let rules = || -> Vec<Value> {
        let rules = prometheus.ask("/api/v1/rules").expect("an answer");
        let groups = rules["groups"].as_array().expect("groups").iter();
        groups.flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
    };
    assert_eq!(rules().iter().filter(|rule| rule["type"] == "alerting").count(), alerts().len());
    let wrong: Vec<Value> = rules().into_iter().filter(|rule| rule["health"] != "ok").collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let of_outages = ["PgweirDown", "PgweirAbsent", "PgweirNoServers", "PgweirWorkerPanicked"];
    eventually("no alert of an outage is on", || {
        rules().iter().all(|rule| rule["state"] == "inactive" || !of_outages.contains(&text(&rule["name"])))
    });
    println!("{} queries and {} alerts evaluated", queries.len(), alerts().len());
    drop(prometheus);
    load.end();
}

#[test]
fn what_an_expression_names_is_found() {
    let of = |expression| {
        let names = names(expression);
        let metrics: Vec<_> = names
            .metrics
            .into_iter()
            .map(|(name, labels)| (name, labels.into_iter().collect::<Vec<_>>().join(" ")))
            .collect();
        (
            metrics,
            names.grouped.into_iter().collect::<Vec<_>>().join(" "),
            names.made.into_iter().collect::<Vec<_>>().join(" "),
        )
    };
    let metrics = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, labels)| ((*name).to_owned(), (*labels).to_owned())).collect()
    };
    let quantile = r#"histogram_quantile(0.5, sum by (database, le) (rate(waits_bucket{job=~"$job", user!="a,b\"}"}[$__rate_interval])))"#;
    assert_eq!(of(quantile), (metrics(&[("waits_bucket", "job user")]), "database le".to_owned(), String::new()));
    let joined = r#"a > 0 and b == 1e3 unless on (job, name) label_replace(c, "database", "$1", "name", "(.*)") == 1 offset 15m"#;
    assert_eq!(of(joined), (metrics(&[("a", ""), ("b", ""), ("c", "")]), "job name".to_owned(), "database".to_owned()));
}
