//! Time that is up: queries beyond `query_timeout`, clients that say how long they can wait, and what who waits is told.

use outer::{Client, Stage, Wishes, frontend, python};

/// Runs a part of the program against a pool of one server, which must be there all the time.
fn psycopg(part: &str) {
    let settings = vec![("query_wait_notify", "1".to_owned())];
    let mut stage = Stage::set(&Wishes { pool: 1, settings, ..Wishes::default() });
    let said = python("deadlines.py", &[&stage.url(), part]).unwrap_or_else(|wrote| panic!("{wrote}"));
    println!("{}", said.trim());
    let log = stage.pooler.log();
    let opened = log.matches("new connection to server").count();
    assert_eq!(opened, 1, "a server was closed, and another opened: {log}");
    stage.assert_healthy();
}

#[test]
fn query_timeout_cancels_and_keeps_both_connections() {
    psycopg("query_timeout");
}

#[test]
fn who_can_wait_for_so_long_is_told_in_time_and_who_waits_is_told_for_how_long() {
    psycopg("waits");
}

#[test]
#[ignore = "test-full: measures what is expected beside what is waited in a crowd; the transcripts deadlines/notice-of-place-and-wait and \
            deadlines/who-cannot-be-served-in-time prove the figures"]
fn what_a_crowd_is_told_is_about_what_it_waits() {
    psycopg("crowd");
}

#[test]
fn classic_closes_whose_query_takes_too_long() {
    let settings = [("query_timeout", "1"), ("pool_fidelity", "classic")].map(|(name, value)| (name, value.to_owned()));
    let mut stage = Stage::set(&Wishes { pool: 1, settings: settings.to_vec(), ..Wishes::default() });
    let mut client = stage.client();
    // In a block, so that it is cancelled: a lone statement may be committing, and would go on in PostgreSQL.
    client.send(&frontend::query("begin; select pg_sleep(3600)")).expect("connected");
    let told = client.answer().expect_err("it is closed").error;
    assert_eq!(told.as_ref().map(|error| error.message.as_str()), Some("query timeout"), "{told:?}");
    // On a busy machine any query may take a second.
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    assert!(console.query("set query_timeout = 0").expect("answered").errors.is_empty());
    stage.assert_healthy();
}
