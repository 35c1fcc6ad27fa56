//! What a client is told of its parameters is what PostgreSQL tells it: at login where that is known, and by the answer to its
//! first statement always.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use outer::{Client, Stage, Wishes, frontend, python};

/// Names and values; a client is told at login how PostgreSQL writes the value.
const AT_LOGIN: [(&str, &str); 14] = [
    ("datestyle", "german"),
    ("datestyle", "sql, european"),
    ("datestyle", "postgres"),
    ("datestyle", "us"),
    ("client_encoding", "utf-8"),
    ("client_encoding", "iso-8859-1"),
    ("client_encoding", "LATIN1"),
    ("timezone", "utc"),
    ("standard_conforming_strings", "1"),
    ("intervalstyle", "ISO_8601"),
    ("options", "-c default_transaction_read_only=1"),
    ("options", "-c default_transaction_read_only=on -c datestyle=german"),
    ("application_name", "reports"),
    ("application_name", "a name of more than 63 bytes, which is all that PostgreSQL keeps of it"),
];

/// Others, which are told by the first statement; to whoever comes next, at login.
const LEARNT: [(&str, &str); 6] = [
    ("timezone", "europe/zurich"),
    ("timezone", "1"),
    ("client_encoding", "koi8"),
    ("datestyle", "iso, iso"),
    ("options", "-c role=plain"),
    ("options", "-c role=plain -c timezone=3"),
];

type Told = BTreeMap<String, String>;

/// What a client is told up to ReadyForQuery, laid over what it knew.
fn hear(client: &mut Client, told: &mut Told) {
    loop {
        let message = client.receive().expect("an answer comes");
        let mut words = message.body.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        match message.tag {
            b'S' => drop(told.insert(words.next().unwrap_or_default(), words.next().unwrap_or_default())),
            b'N' => drop(told.insert("NOTICE".to_owned(), format!("{} {}", message.field(b'C'), message.field(b'M')))),
            b'E' => panic!("{}", message.field(b'M')),
            b'Z' => return,
            _ => {}
        }
    }
}

/// What a client that begins so is told at login, and by its first statement.
fn told(address: SocketAddr, (name, value): (&str, &str)) -> (Told, Told) {
    let mut client = Client::connect(address).expect("somebody listens");
    let startup = frontend::startup(&[("user", "postgres"), ("database", "postgres"), (name, value)]);
    client.send(&startup).expect("it is taken");
    let mut told = Told::new();
    hear(&mut client, &mut told);
    let at_login = told.clone();
    client.send(&frontend::query("select 1")).expect("it is taken");
    hear(&mut client, &mut told);
    (at_login, told)
}

fn stage(pool: u32) -> (Stage, SocketAddr) {
    let stage = Stage::set(&Wishes { pool, ..Wishes::default() });
    let _ = stage.direct(
        "do $$ begin execute format('copy (values (''local all all trust''), (''host all all 127.0.0.1/32 trust'')) to %L',
                                    current_setting('hba_file')); end $$; select pg_reload_conf()",
    );
    let _ = stage.direct("create role plain");
    let direct = SocketAddr::from(([127, 0, 0, 1], stage.cluster.port()));
    (stage, direct)
}

#[test]
fn a_client_is_told_what_postgres_says() {
    let (stage, direct) = stage(2);
    let pooled = stage.pooler.address();
    drop(stage.client());
    for asked in AT_LOGIN {
        let (postgres, _) = told(direct, asked);
        let (at_login, after) = told(pooled, asked);
        assert_eq!(at_login, postgres, "{asked:?} at login");
        assert_eq!(after, postgres, "{asked:?} after a statement");
    }
    for asked in LEARNT {
        let (postgres, _) = told(direct, asked);
        let (_, after) = told(pooled, asked);
        assert_eq!(after, postgres, "{asked:?} after a statement");
        let (at_login, after) = told(pooled, asked);
        assert_eq!(at_login, postgres, "{asked:?} at login, once it is known");
        assert_eq!(after, postgres, "{asked:?} after a statement, once it is known");
    }
}

#[test]
fn psycopg_reads_dates_in_any_style() {
    let (stage, _) = stage(2);
    println!("{}", python("dates.py", &[&stage.cluster.url("postgres")]).expect("straight against PostgreSQL"));
    println!("{}", python("dates.py", &[&stage.url()]).expect("through the pooler"));
}

#[test]
fn postgresql_knows_whom_a_server_works_for_and_clients_see_their_own_names() {
    let template = ("server_application_name", "%a/%c#%t{correlation_id}@%h".to_owned());
    let prefix = ("log_line_prefix", "<%a> ");
    let logged = ("log_statement", "all");
    let mut stage =
        Stage::set(&Wishes { pool: 1, settings: vec![template], postgres: vec![prefix, logged], ..Wishes::default() });
    let value = |client: &mut Client, text: &str| {
        let answer = client.query(text).expect("served");
        answer.value().map(str::to_owned).unwrap_or_else(|| panic!("{text}: {answer:?}"))
    };
    let (mut shop, mut jobs) = (stage.client(), stage.client());
    for (client, name) in [(&mut shop, "shop"), (&mut jobs, "jobs")] {
        client.query(&format!("set application_name = '{name}'")).expect("served");
    }
    // PostgreSQL's view, which does not have the word in its text.
    let shown = "select a from (select pid, (to_jsonb(s) ->> ('application' || chr(95) || 'name')) a from pg_stat_activity s) t \
                 where pid = pg_backend_pid()";
    for round in 0..3 {
        for (client, name) in [(&mut shop, "shop"), (&mut jobs, "jobs")] {
            let tagged = format!("{shown} /*correlation_id='r{round}'*/");
            assert_eq!(value(client, &tagged), format!("{name}/default#r{round}@127.0.0.1"));
            assert_eq!(value(client, "show application_name"), name);
            assert_eq!(value(client, "select current_setting('application_name')"), name);
        }
    }
    // What is taken back leaves the own name, in PostgreSQL's words and for the client.
    for text in ["begin", "set application_name = 'other'", "rollback"] {
        shop.query(text).expect("served");
    }
    assert_eq!(value(&mut shop, "show application_name"), "shop");
    assert_eq!(value(&mut shop, shown), "shop/default#@127.0.0.1");
    // Hostile values stay text, and are cut as PostgreSQL cuts them.
    let hostile = format!("{shown} /*correlation_id='%27%3B%20drop%0a\u{1b}<b>{}'*/", "x".repeat(80));
    let seen = value(&mut jobs, &hostile);
    assert!(seen.starts_with(r"jobs/default#'; drop\x0a\x1b<b>xx") && seen.len() == 63, "{seen}");
    stage.assert_healthy();
}
