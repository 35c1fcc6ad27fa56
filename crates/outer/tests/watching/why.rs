//! One verdict on all surfaces: SHOW WHY, the live page, `pgweir top`, `pgweir report`, the log and the metrics of the alerts say the same of one
//! trouble, and how it is ended is right.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use client::Place;
use outer::page::Page;
use outer::{Client, Stage, Wishes, binary, eventually, frontend};
use serde_json::Value;

/// Two servers, and PostgreSQL with prepared transactions.
fn set() -> (Stage, Page) {
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let settings = vec![
        ("http_listen", http.to_string()),
        ("http_page", "1".to_owned()),
        ("observe_interval", "1".to_owned()),
        ("query_wait_timeout", "3600".to_owned()),
    ];
    let postgres = vec![("max_prepared_transactions", "5")];
    let stage = Stage::set(&Wishes { pool: 2, settings, postgres, ..Wishes::default() });
    let page = Page::of(http, "postgres", stage.cluster.password());
    (stage, page)
}

fn stranger(stage: &Stage) -> Client {
    let dir = stage.cluster.socket_dir().to_str().expect("a plain path");
    let place = Place::of(dir, stage.cluster.port()).expect("a directory");
    Client::login(place, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"))
}

fn run(client: &mut Client, sql: &str) {
    let answer = client.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
}

/// As many clients as wait for a server when two of them have one.
fn begin(stage: &Stage, count: usize, sql: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| stage.client()).collect();
    for client in &mut clients {
        client.send(&frontend::query(sql)).expect("connected");
    }
    clients
}

fn console(stage: &Stage, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query(sql).expect("an answer");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer.rows
}

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("the program starts");
    String::from_utf8(output.stdout).expect("text")
}

/// In one line, and without the times, which grow from one question to the next: `5 clients … for _. More …`. The past is as the present.
fn timeless(text: &str) -> String {
    let text = text.replace("To end it then", "To end it");
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut out = Vec::new();
    for word in words {
        let unit = word.trim_end_matches([',', '.', ';']);
        if matches!(unit, "s" | "min") && out.last().is_some_and(|last: &String| is_number(last)) {
            out.pop();
            out.push(format!("_{}", &word[unit.len()..]));
        } else {
            out.push(word.to_owned());
        }
    }
    out.join(" ")
}

/// What all surfaces say, once the console's verdict has these words; and the statement that ends the root.
fn told(stage: &Stage, page: &Page, words: &[&str]) -> Option<String> {
    let mut row = Vec::new();
    eventually("the verdict is there", || {
        row = console(stage, "SHOW WHY").remove(0);
        let sentence = row[5].clone().unwrap_or_default();
        println!("{sentence}");
        words.iter().all(|word| sentence.contains(word))
    });
    let sentence = timeless(row[5].as_deref().expect("a sentence"));
    let url = stage.url_of("pgbouncer");
    eventually("the page says it", || timeless(&page.show("WHY")[0]["sentence"]) == sentence);
    eventually("top says it", || timeless(&printed(&["top", &url, "--once"])).contains(&format!("Why: {sentence}")));
    let Some(_) = &row[0] else { return None };
    eventually("the page has it in a second that is over", || {
        let json = |path: &str| -> Value { serde_json::from_str(&page.api(path).body).expect("JSON") };
        let Some(at) = json("hour")["at"].as_array().and_then(|seconds| seconds.last()).cloned() else { return false };
        let second = json(&format!("moment?at={at}"));
        timeless(second["verdicts"][0].as_str().unwrap_or_default()) == sentence
    });
    eventually("the report says it", || {
        let report = printed(&["report", &url]).replace("&#39;", "'").replace("&quot;", "\"").replace("&#34;", "\"");
        timeless(&report).contains(&sentence)
    });
    let root = row[6].clone().unwrap_or_default();
    eventually("the log says it", || {
        let log = stage.pooler.log();
        let lines = log.lines().filter(|line| line.contains("why: ") && line.contains("wait"));
        lines.filter(|line| line.contains(&root)).count() > 0
    });
    eventually("the alert's metric says it", || {
        let metrics = outer::page::ask(page.http, "GET", "/metrics", &[], "").body;
        let escaped =
            |value: &Option<String>| value.clone().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"");
        let labels = [("reason", &row[9]), ("queue", &row[4])];
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let of = |name: &str| metrics.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n");
        let (waiting, root) = (of("pgweir_why_waiting{"), of("pgweir_why_root{"));
        println!("{waiting}\n{root}");
        // Without tags, addresses and gids.
        let is_private = [" [", " from ", "it's 7"].iter().any(|word| root.contains(word));
        let is_root = match &row[6] {
            None => root.is_empty(),
            Some(root_words) if root_words.starts_with("prepared") => {
                root.contains("a prepared transaction of postgres")
            }
            Some(root_words) => {
                let words = root_words.split([',', '[']).next().unwrap_or_default().trim();
                root.contains(&format!("root=\"{words}")) && root.contains(&format!("to_end=\"{}\"", escaped(&row[7])))
            }
        };
        labels.iter().all(|label| waiting.contains(label)) && is_root && !is_private
    });
    row[7].clone()
}

fn answered(clients: &mut [Client]) {
    for client in clients {
        assert_eq!(client.answer().expect("served").errors, []);
    }
}

#[test]
fn all_surfaces_say_one_verdict_and_how_it_is_ended() {
    let (stage, page) = set();
    let _ = stage.direct("create table orders (id int primary key, n int); insert into orders values (1, 0)");
    assert_eq!(told(&stage, &page, &["Nothing is wrong"]), None);

    // Past the pooler: two of five have a server, and wait for its lock.
    let mut psql = stranger(&stage);
    run(&mut psql, "set application_name = 'migration'; begin; lock orders");
    let mut clients = begin(&stage, 5, "select from orders");
    let ending = told(
        &stage,
        &page,
        &[
            "3 clients of",
            "its 2 servers all wait behind",
            "migration, a connection past pgweir",
            "AccessExclusiveLock on orders",
            "More servers would not help.",
        ],
    );
    assert_eq!(stage.direct(&ending.expect("it can be ended")), "t");
    answered(&mut clients);

    // A prepared transaction, and another one that is in nobody's way.
    let mut payer = stranger(&stage);
    run(&mut payer, "begin; create table other (id int); prepare transaction 'in nobody''s way'");
    run(&mut payer, "begin; lock orders; prepare transaction 'it''s 7'");
    let mut clients = begin(&stage, 5, "select from orders");
    let ending = told(&stage, &page, &["behind prepared transaction 'it's 7' of postgres in database postgres", "ago"]);
    assert_eq!(ending.as_deref(), Some("ROLLBACK PREPARED 'it''s 7';"));
    run(&mut payer, &ending.expect("it was there"));
    answered(&mut clients);
    run(&mut payer, "rollback prepared 'in nobody''s way'");

    // A client of the pooler.
    let mut idle = stage.client();
    run(&mut idle, "set application_name = 'billing'");
    run(&mut idle, "begin; update orders set n = 1 where id = 1 /*job:close_month*/");
    let mut clients = begin(&stage, 4, "update orders set n = n + 1 where id = 1");
    let words = [
        "3 clients of",
        "1 of its 2 servers waits behind billing [close_month], which holds rows",
        "idle in its transaction",
    ];
    let ending = told(&stage, &page, &words).expect("it can be ended");
    assert!(ending.starts_with("KILL_CLIENT "), "{ending}");
    console(&stage, &ending);
    answered(&mut clients);

    // The pool is too small.
    let mut clients = begin(&stage, 5, "select pg_sleep(30)");
    assert_eq!(told(&stage, &page, &["3 clients of", "its 2 servers all run statements", "larger pool"]), None);
    eventually("all are cancelled", || {
        stage.end_sleepers();
        page.show("CLIENTS").iter().all(|row| row["state"] != "waiting")
    });
    stage.end_sleepers();
    clients.iter_mut().for_each(|client| _ = client.answer());
}

#[test]
fn a_deadlock_and_a_wait_in_vain_are_named_and_counted() {
    let settings = vec![("observe_interval", "1".to_owned()), ("query_wait_timeout", "1".to_owned())];
    let stage = Stage::set(&Wishes { pool: 2, settings, ..Wishes::default() });
    let mut both = [stage.client(), stage.client()];
    for (number, client) in both.iter_mut().enumerate() {
        run(client, &format!("set application_name = 'billing-{number}'"));
        run(client, &format!("begin; select pg_advisory_xact_lock({number}, 1)"));
    }
    for (number, client) in both.iter_mut().enumerate() {
        let sql = format!("select pg_advisory_xact_lock({}, 1)", 1 - number);
        client.send(&frontend::query(&sql)).expect("connected");
    }
    let failed: Vec<bool> =
        both.iter_mut().map(|client| !client.answer().expect("an answer").errors.is_empty()).collect();
    let victim = failed.iter().position(|failed| *failed).expect("PostgreSQL ends one");
    let sentence = console(&stage, "SHOW WHY").remove(0)[5].clone().unwrap_or_default();
    let words = format!("PostgreSQL ended a statement of billing-{victim} (client ");
    assert!(sentence.contains("A deadlock ended ") && sentence.contains(&words), "{sentence}");

    // Both servers are in transactions, so that a third client waits in vain.
    let mut late = stage.client();
    late.send(&frontend::query("select 1")).expect("connected");
    assert!(late.answer().is_err(), "it is disconnected");
    let events: Vec<_> =
        console(&stage, "SHOW EVENTS").into_iter().map(|row| [row[3].clone(), row[5].clone()]).collect();
    let one = |event: &str| [Some(event.to_owned()), Some("1".to_owned())];
    assert!(events.contains(&one("deadlock")) && events.contains(&one("query_wait_timeout")), "{events:?}");
    let classes = console(&stage, "SHOW CLASSES");
    assert_eq!(classes[0].last().cloned().flatten().as_deref(), Some("1"), "{classes:?}");
}
