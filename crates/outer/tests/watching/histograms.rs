//! Histograms of each pool count what the totals count, and the door counts the clients that it refuses.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use outer::{Client, Stage, Wishes, eventually, frontend};

/// Asks for the page of metrics until it comes: it is refused while a worker does not answer in time.
fn scrape(port: u16) -> String {
    let mut page = String::new();
    eventually("all workers have answered", || {
        page = ask(port);
        page.starts_with("HTTP/1.1 200 ")
    });
    page
}

fn ask(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("not zero");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    answer
}

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().expect("a number")
}

fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"))
}

/// Of the pool of `postgres`: counts by what, and by bound in seconds, which is infinite for times above all bounds.
fn shown(console: &mut Client) -> Vec<(String, f64, u64)> {
    let rows = console.query("show histograms").expect("shown").rows;
    let of = |row: &Vec<Option<String>>, at: usize| row[at].clone();
    let parsed = rows.iter().filter(|row| of(row, 0).as_deref() == Some("postgres")).map(|row| {
        let bound = of(row, 3).map_or(f64::INFINITY, |bound| bound.parse().expect("seconds"));
        (of(row, 2).expect("what"), bound, of(row, 4).and_then(|count| count.parse().ok()).expect("a count"))
    });
    parsed.collect()
}

#[test]
fn each_wait_query_and_transaction_is_in_its_bucket() {
    let port = demo::free_port();
    let settings = vec![("http_listen", format!("127.0.0.1:{port}"))];
    let mut stage = Stage::set(&Wishes { pool: 1, workers: 1, settings, ..Wishes::default() });
    let (mut first, mut second) = (stage.client(), stage.client());
    let mut console = console(&stage);
    // Opens the server, so that nobody waits for it to come.
    first.query("select 1").expect("served");
    let before = shown(&mut console);
    first.query("begin").expect("served");
    first.query("select pg_sleep(0.3)").expect("served");
    second.send(&frontend::query("select 2")).expect("it is taken");
    let waits = "show pools";
    eventually("the second waits", || {
        let pools = console.query(waits).expect("shown");
        pools.rows.iter().any(|row| row[0].as_deref() == Some("postgres") && row[3].as_deref() == Some("1"))
    });
    std::thread::sleep(Duration::from_millis(120));
    first.query("commit").expect("served");
    second.answer().expect("it is served");
    let after = shown(&mut console);
    let gained = |what: &str, above: f64, up_to: f64| {
        let sum = |counts: &[(String, f64, u64)]| -> u64 {
            counts
                .iter()
                .filter(|(of, bound, _)| of == what && *bound > above && *bound <= up_to)
                .map(|(.., n)| n)
                .sum()
        };
        sum(&after) - sum(&before)
    };
    // The sleep of 0.3 s; the transaction around it and what came between; who waited for it to end. None can be in a lower bucket; on a busy machine
    // others may be up there, too. Each bucket by itself is proven in machine/src/histogram.rs.
    assert!(gained("query", 0.25, f64::INFINITY) >= 1, "{after:?}");
    assert!(gained("transaction", 0.25, f64::INFINITY) >= 1, "{after:?}");
    assert!(gained("wait", 0.1, f64::INFINITY) >= 1, "{after:?}");
    assert_eq!(gained("query", 0.0, f64::INFINITY), 4, "{after:?}");
    assert_eq!(gained("transaction", 0.0, f64::INFINITY), 2, "{after:?}");
    assert_eq!(gained("wait", 0.0, f64::INFINITY), 2, "{after:?}");

    // What is scraped is the same, and so are the totals.
    let page = scrape(port);
    let labels = "{database=\"postgres\",user=\"postgres\"}";
    for (what, count, seconds) in [
        ("query", "queries_pooled", "queries_duration_seconds"),
        ("transaction", "sql_transactions_pooled", "server_in_transaction_seconds"),
        ("wait", "server_assignments", "client_wait_seconds"),
    ] {
        let total = |name: &str| value(&page, &format!("pgbouncer_stats_totals_{name}_total{{database=\"postgres\"}}"));
        let of = |end: &str| value(&page, &format!("pgweir_{what}_seconds_{end}{labels}"));
        let in_show: u64 = after.iter().filter(|(of, ..)| of == what).map(|(.., count)| count).sum();
        assert_eq!((of("count"), of("count")), (total(count), in_show as f64), "{what}");
        assert!((of("sum") - total(seconds)).abs() < 1e-9, "{what}");
    }
    stage.assert_healthy();
}

#[test]
fn refused_logins_are_counted_by_reason() {
    let port = demo::free_port();
    let settings = vec![("http_listen", format!("127.0.0.1:{port}")), ("max_client_conn", "3".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let address = stage.pooler.address();
    let login = |user, database| Client::login(address, user, database);
    assert!(login("nobody", "postgres").is_err() && login("postgres", "nowhere").is_err());
    let clients: Vec<_> = (0..3).map(|_| stage.client()).collect();
    assert!(login("postgres", "postgres").is_err(), "there are three");
    let mut garbage = TcpStream::connect(address).expect("it listens");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is taken");
    // It is told so, and closed.
    garbage.read_to_end(&mut Vec::new()).expect("the end");
    let page = scrape(port);
    let refused = |reason: &str| value(&page, &format!("pgweir_logins_refused_total{{reason=\"{reason}\"}}"));
    let reasons = ["authentication", "limit", "protocol", "not_available", "other"].map(refused);
    assert_eq!(reasons, [2.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(value(&page, "pgweir_logins_total{database=\"postgres\"}"), 3.0);
    drop(clients);
    // It hears of their end a little later.
    eventually("there is room again", || {
        let page = scrape(port);
        page.contains("pgbouncer_pools_client_active_connections{database=\"postgres\",user=\"postgres\"} 0\n")
    });
    stage.assert_healthy();
}
