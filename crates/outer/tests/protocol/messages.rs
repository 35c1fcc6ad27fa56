//! Messages that may not pass: `max_packet_size` and `disable_pqexec`, before a real PostgreSQL.

use outer::{Client, Stage, Wishes, eventually, frontend};

fn stage(name: &'static str, value: &str) -> Stage {
    Stage::set(&Wishes { pool: 2, settings: vec![(name, value.to_owned())], ..Wishes::default() })
}

fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator")
}

#[test]
fn what_is_longer_than_max_packet_size_ends_its_connection_and_no_other() {
    let mut stage = stage("max_packet_size", "100000");
    let mut bystander = stage.client();
    bystander.query("begin").expect("served");
    // As long as may be, in both directions: of a row's message 11 bytes are no value, of a query's 6 are no text.
    let (row, text) = (100_000 - 11, 100_000 - 6);
    let mut client = stage.client();
    let answer = client.query(&format!("select repeat('x', {row})")).expect("served");
    assert_eq!(answer.value().map(str::len), Some(row));
    let padded = |len: usize| format!("select 1{}", " ".repeat(len - "select 1".len()));
    assert_eq!(client.query(&padded(text)).expect("served").value(), Some("1"));
    // A row that is longer: an error, and the session goes on with another server.
    let pid = client.query("select pg_backend_pid()").expect("served").value().map(str::to_owned);
    let error = client.query(&format!("select repeat('x', {})", row + 1)).expect("the session goes on").errors;
    assert_eq!((error.len(), error[0].sqlstate.as_str()), (1, "54000"), "{error:?}");
    assert!(error[0].message.contains("100001 bytes"), "{error:?}");
    assert_ne!(client.query("select pg_backend_pid()").expect("served").value().map(str::to_owned), pid);
    // A statement that is longer, and a piece of COPY.
    let gone = client.query(&padded(text + 1)).expect_err("it is closed");
    assert_eq!(gone.error.map(|error| (error.severity, error.sqlstate)), Some(("FATAL".into(), "54000".into())));
    assert_eq!(stage.direct("create table t (t text)"), "");
    let mut client = stage.client();
    client.send(&frontend::query("copy t from stdin")).expect("connected");
    client.answer().expect("it wants rows");
    client.send(&frontend::frame(b'd', &[b"short\n".repeat(1000), Vec::new()].concat())).expect("connected");
    let _ = client.send(&frontend::frame(b'd', &[b'x'; 100_000]));
    assert_eq!(client.last_words().map(|error| error.sqlstate), Some("54000".to_owned()));
    assert_eq!(stage.direct("select count(*) from t"), "0", "nothing of that COPY is there");
    assert_eq!(bystander.query("commit").expect("it was let be").tags, ["COMMIT"]);
    // As long as anybody likes from now on.
    console(&stage).query("set max_packet_size = 2147483647").expect("an order");
    let mut client = stage.client();
    assert_eq!(client.query("select repeat('x', 3000000)").expect("served").value().map(str::len), Some(3_000_000));
    stage.assert_healthy();
}

#[test]
fn disable_pqexec_leaves_the_extended_protocol_and_the_console() {
    let stage = stage("disable_pqexec", "1");
    assert_eq!(stage.direct("create table t ()"), "");
    let mut client = stage.client();
    assert_eq!(client.extended("", "select $1::int + 1", &["41"]).expect("served").value(), Some("42"));
    let gone = client.query("select 1; drop table t").expect_err("it is closed");
    assert_eq!(gone.error.map(|error| error.message), Some("PQexec disallowed".to_owned()));
    assert_eq!(stage.direct("select count(*) from pg_class where relname = 't'"), "1", "nothing of it was run");
    assert_eq!(console(&stage).query("show version").expect("the console answers").rows.len(), 1);
    eventually("it is logged", || stage.pooler.log().contains("closing because: PQexec disallowed"));
}
