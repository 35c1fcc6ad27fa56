//! What is watched by HTTP: metrics that agree with the console, probes that know a shutdown, and strangers who hold nobody up.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually};
use rustix::process::{Pid, Signal, kill_process};

struct Scene {
    stage: Stage,
    http: SocketAddr,
}

fn scene() -> Scene {
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let settings = vec![("http_listen", http.to_string())];
    Scene { stage: Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() }), http }
}

/// The status and the body.
fn get(http: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(http).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("not zero");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (status, body.to_owned())
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// They are refused while a worker does not answer in time.
fn metrics(http: SocketAddr) -> String {
    let mut metrics = String::new();
    eventually("all workers have answered", || {
        let (status, body) = get(http, "/metrics");
        metrics = body;
        status == 200
    });
    metrics
}

#[test]
fn metrics_agree_with_the_console() {
    let Scene { mut stage, http } = scene();
    let mut clients: Vec<Client> = (0..5).map(|_| stage.client()).collect();
    for client in &mut clients[..2] {
        client.query("begin").expect("served");
    }
    clients[2].query("select 1").expect("served");
    let metrics = metrics(http);
    let pool =
        |name: &str| value(&metrics, &format!("pgbouncer_pools_{name}{{database=\"postgres\",user=\"postgres\"}}"));
    assert_eq!((pool("client_active_connections"), pool("server_active_connections")), (5.0, 2.0));
    assert!(pool("server_idle_connections") >= 1.0, "{metrics}");
    assert_eq!(value(&metrics, "pgbouncer_up"), 1.0);
    let queries = value(&metrics, "pgbouncer_stats_totals_queries_pooled_total{database=\"postgres\"}");
    let mut console =
        Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let shown = console.query("show stats_totals").expect("shown");
    let row = shown.rows.iter().find(|row| row[0].as_deref() == Some("postgres")).expect("it is used");
    let place = shown.names.iter().position(|name| name == "query_count").expect("PgBouncer has it");
    assert_eq!(row[place].as_deref(), Some(queries.to_string().as_str()));
    drop(clients);
    stage.assert_healthy();
}

#[test]
fn prometheus_own_parser_finds_what_dashboards_for_pgbouncer_want() {
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let settings = vec![("http_listen", http.to_string())];
    let mut stage = Stage::set(&Wishes { pool: 3, settings, any_database: true, ..Wishes::default() });
    let mut client = stage.client();
    for _ in 0..50 {
        client.query("select 1").expect("served");
    }
    // A name is a label, whatever is in it.
    let odd = r#"an "odd" \ {name="x"} ä"#;
    assert!(Client::login(stage.pooler.address(), "postgres", odd).is_err(), "there is no such database");
    match outer::python("metrics.py", &[&format!("http://{http}/metrics"), odd]) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("{wrote}"),
    }
    stage.assert_healthy();
}

#[test]
fn probes_know_a_shutdown_and_not_whether_postgresql_is_away() {
    let Scene { mut stage, http } = scene();
    let client = stage.client();
    eventually("it is ready", || get(http, "/ready").0 == 200);
    assert_eq!((get(http, "/live").0, get(http, "/nowhere").0), (200, 404));
    stage.cluster.halt(demo::Shutdown::Fast).expect("it runs");
    assert_eq!((get(http, "/live").0, get(http, "/ready").0), (200, 200), "the pooler takes clients, who wait");
    stage.cluster.resume().expect("it starts");
    let pid = Pid::from_raw(i32::try_from(stage.pooler.pid()).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it runs");
    eventually("it is not ready", || get(http, "/ready").0 == 503);
    assert_eq!(get(http, "/live").0, 200, "a client is there still");
    drop(client);
    eventually("it has ended", || !stage.pooler.is_alive());
}

#[test]
fn strangers_hold_nobody_up() {
    let Scene { mut stage, http } = scene();
    // It listens before it is ready.
    eventually("it is ready", || get(http, "/ready").0 == 200);
    let (before, _) = stage.pooler.resident_kb();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(http).expect("it listens")).collect();
    let garbage: Vec<Vec<u8>> = vec![
        vec![b'x'; 100_000],
        b"GET /metrics HTTP/9.9\r\n\r\n".to_vec(),
        vec![0; 9_000],
        b"\r\n\r\n\r\n\r\n".to_vec(),
    ];
    for bytes in &garbage {
        let mut stream = TcpStream::connect(http).expect("it listens");
        // It may have been closed in the midst.
        let _ = stream.write_all(bytes);
    }
    // monitor/tests/strangers.rs proves that this answer does not wait until these connections are closed.
    let begun = Instant::now();
    assert_eq!(get(http, "/live").0, 200);
    let lasted = begun.elapsed();
    // Beyond the number of connections that are served at a time, a new one replaces a silent one.
    let more: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(http).expect("it listens")).collect();
    assert_eq!(get(http, "/ready").0, 200);
    drop((silent, more));
    let (_, most) = stage.pooler.resident_kb();
    println!(
        "70 silent clients and 4 that sent garbage: {} kB more; a probe beside them took {lasted:?}",
        most - before
    );
    assert!(most - before < 8 * 1024, "{} kB", most - before);
    stage.assert_healthy();
}

#[test]
fn a_thousand_pools_are_scraped() {
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    // Each server is used once: a thousand at a time would be too many for PostgreSQL. Classic sessions need not read a thousand catalogues.
    let settings = [("server_lifetime", "0".to_owned()), ("pool_fidelity", "classic".to_owned())];
    let settings = [("http_listen", http.to_string())].into_iter().chain(settings).collect();
    let mut stage = Stage::set(&Wishes { pool: 1, settings, aliases: 1_000, ..Wishes::default() });
    for number in 0..1_000 {
        let mut client = Client::login(stage.pooler.address(), "postgres", &format!("alias_{number}"));
        client.as_mut().expect("let in").query("select 1").expect("served");
    }
    let (mut lasted, mut metrics) = (Duration::MAX, String::new());
    // The page is refused if it takes longer than 5 s.
    eventually("all are scraped", || {
        let begun = Instant::now();
        let (status, body) = get(http, "/metrics");
        (lasted, metrics) = (begun.elapsed(), body);
        status == 200
    });
    let pools = metrics.lines().filter(|line| line.starts_with("pgweir_query_seconds_count{")).count();
    println!("{pools} pools with histograms: {} kB in {lasted:?}", metrics.len() / 1024);
    assert_eq!(pools, 1_000);
    stage.assert_healthy();
}

#[test]
fn the_log_is_json_where_that_is_asked_for() {
    let settings = vec![("log_format", "json".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    drop(stage.client());
    eventually("the end of a client is logged", || stage.pooler.log().contains("client unexpected eof"));
    let log = stage.pooler.log();
    let of_client = log.lines().find(|line| line.contains("client unexpected eof")).expect("just seen");
    for field in [
        "\"level\":\"LOG\"",
        "\"topic\":\"disconnections\"",
        "\"client\":\"C-0x",
        "\"database\":\"postgres\"",
        "\"user\":\"postgres\"",
        "\"address\":\"127.0.0.1:",
        "\"time\":\"20",
    ] {
        assert!(of_client.contains(field), "{field}: {of_client}");
    }
    let odd = log.lines().find(|line| !(line.starts_with('{') && line.ends_with('}')));
    assert_eq!(odd, None, "{log}");
    stage.assert_healthy();
}
