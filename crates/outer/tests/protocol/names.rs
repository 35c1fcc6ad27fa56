//! Names of prepared statements: SQL and the protocol share them, errors say them as the client does, and nobody gets at what others
//! have prepared.

use std::fmt::Write as _;
use std::net::SocketAddr;

use outer::{Answer, Client, Stage, Wishes, frontend};

fn stage(pool: u32) -> (Stage, SocketAddr) {
    let stage = Stage::set(&Wishes { pool, ..Wishes::default() });
    trust_everybody(&stage);
    let direct = direct(&stage);
    (stage, direct)
}

fn trust_everybody(stage: &Stage) {
    let _ = stage.direct(
        "do $$ begin execute format('copy (values (''local all all trust''), (''host all all 127.0.0.1/32 trust'')) to %L',
                                    current_setting('hba_file')); end $$; select pg_reload_conf()",
    );
}

fn direct(stage: &Stage) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], stage.cluster.port()))
}

/// What a client sends, packet by packet; each ends with ReadyForQuery.
fn conversations() -> Vec<Vec<Vec<u8>>> {
    let query = frontend::query;
    let parse = |name: &str, sql: &str| [frontend::parse(name, sql), frontend::sync()].concat();
    let run = |name: &str| [frontend::bind(name, &[]), frontend::execute(), frontend::sync()].concat();
    let close = |name: &str| [frontend::close_statement(name), frontend::sync()].concat();
    vec![
        vec![query("prepare m3 as select 1"), parse("m3", "select 2"), run("m3"), query("execute m3")],
        vec![query("prepare m3 as select 1"), close("m3"), parse("m3", "select 2"), run("m3")],
        vec![parse("m4", "select 2"), query("prepare m4 as select 1"), query("execute m4"), run("m4")],
        vec![parse("m4", "select 2"), query("deallocate m4"), run("m4"), query("execute m4")],
        vec![parse("m5", "select 1"), parse("m5", "select 2"), run("m5")],
        vec![parse("m5", "select 1"), query("begin"), parse("m5", "select 1"), query("rollback"), run("m5")],
        vec![run("nobody"), query("execute nobody"), query("deallocate nobody"), close("nobody")],
        vec![parse("m6", "select $1::int"), run("m6")],
        vec![parse("m7", "select 1"), query("deallocate all"), run("m7"), parse("m7", "select 2"), run("m7")],
    ]
}

fn said(client: &mut Client, packet: &[u8]) -> Answer {
    client.send(packet).expect("it is taken");
    client.answer().unwrap_or_else(|gone| panic!("{gone}"))
}

#[test]
fn names_are_those_of_postgres() {
    let (stage, direct) = stage(2);
    for (number, packets) in conversations().into_iter().enumerate() {
        let hear = |address| {
            let mut client =
                Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"));
            packets.iter().map(|packet| said(&mut client, packet)).collect::<Vec<_>>()
        };
        let (postgres, pgweir) = (hear(direct), hear(stage.pooler.address()));
        assert_eq!(pgweir, postgres, "conversation {number}");
    }
}

/// Packets in which a text has several names, each with the number of its ReadyForQuery. Every Bind fails, since it has no value for the parameter.
/// `shares_names`: SQL has the names of the protocol, which `classic` does not map.
fn pipelines_with_synonyms(shares_names: bool) -> Vec<(Vec<u8>, usize)> {
    const TEXT: &str = "select $1::int";
    let parse = |name: &str| frontend::parse(name, TEXT);
    let bind = |name: &str| [frontend::bind(name, &[]), frontend::execute(), frontend::sync()].concat();
    let describe = |name: &str| [frontend::frame(b'D', format!("S{name}\0").as_bytes()), frontend::sync()].concat();
    let close = |name: &str| frontend::close_statement(name);
    let (query, sync) = (frontend::query, frontend::sync);
    let deallocate = if shares_names { "deallocate one" } else { "select 8" };
    vec![
        ([parse("one"), parse("two"), sync(), bind("two"), bind("one"), bind("two")].concat(), 4),
        ([bind("two"), parse("two"), sync(), parse("one"), sync()].concat(), 3),
        ([bind("two"), close("two"), sync(), bind("two"), bind("one")].concat(), 4),
        ([bind("one"), parse("a0"), sync(), bind("a0"), bind("one")].concat(), 4),
        ([query(deallocate), bind("one"), bind("a0")].concat(), 3),
        ([bind("a0"), close("a0"), sync(), describe("a0"), parse("z9"), sync(), bind("z9")].concat(), 5),
        ([query("begin"), bind("z9"), bind("z9"), query("rollback"), bind("z9")].concat(), 5),
        ([query("deallocate all"), bind("z9"), parse("z9"), parse("y9"), bind("z9"), bind("y9")].concat(), 4),
        (
            [query("begin"), parse("x9"), sync(), query("select 1/0"), bind("x9"), query("rollback"), bind("x9")]
                .concat(),
            6,
        ),
    ]
}

/// The answers to these pipelines; with a query between two of them, so that the next one may get another server.
fn answers_to_synonyms(address: SocketAddr, shares_names: bool) -> Vec<Answer> {
    let mut client = Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"));
    let mut answers = Vec::new();
    for (packet, count) in pipelines_with_synonyms(shares_names) {
        client.send(&packet).expect("it is taken");
        answers.extend((0..count).map(|_| client.answer().unwrap_or_else(|gone| panic!("{gone}"))));
        answers.push(client.query("select 7").expect("the session lives"));
    }
    answers
}

#[test]
fn an_error_has_the_name_in_the_message_that_it_answers() {
    for settings in [vec![], vec![("chaos_rotate", "1")], vec![("pool_fidelity", "classic")]] {
        let (shown, shares_names) = (format!("{settings:?}"), settings != [("pool_fidelity", "classic")]);
        let settings = settings.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let stage = Stage::set(&Wishes { pool: 2, workers: 1, settings, ..Wishes::default() });
        trust_everybody(&stage);
        let postgres = answers_to_synonyms(direct(&stage), shares_names);
        let errors = postgres.iter().map(|answer| answer.errors.len()).sum::<usize>();
        assert!(errors >= 20, "{errors} errors");
        assert_eq!(answers_to_synonyms(stage.pooler.address(), shares_names), postgres, "{shown}");
    }
}

#[test]
fn nobody_gets_at_what_others_have_prepared() {
    // The pool has one server, which therefore has all prepared statements of both clients.
    let (stage, _) = stage(1);
    let (mut owner, mut stranger) = (stage.client(), stage.client());
    owner.extended("mine", "select 'mine'", &[]).expect("it is prepared");
    let listed =
        stranger.query("select name from pg_prepared_statements where name like 'pgweir%'").expect("they are listed");
    let name = listed.value().expect("there is one").to_owned();
    for text in [
        format!("deallocate \"{name}\""),
        format!("prepare \"{name}\" as select 'stolen'"),
        format!("execute \"{name}\""),
        format!("deallocate \"{name}\"; prepare \"{name}\" as select 'stolen'"),
        format!("begin; deallocate \"{name}\"; commit"),
    ] {
        let simple = stranger.query(&text).expect("the session lives");
        assert_eq!(simple.errors.first().map(|error| &*error.sqlstate), Some("42939"), "{text}: {simple:?}");
    }
    let extended = stranger.extended("", &format!("deallocate \"{name}\""), &[]).expect("the session lives");
    assert_eq!(extended.errors.first().map(|error| &*error.sqlstate), Some("42939"), "{extended:?}");
    let mine = owner.prepared("mine", &[]).expect("it is there");
    assert_eq!(mine.value(), Some("mine"), "{mine:?}");
}

#[test]
fn names_cannot_be_guessed() {
    let name = || {
        let (stage, _) = stage(1);
        let mut client = stage.client();
        client.extended("mine", "select 'mine'", &[]).expect("it is prepared");
        let listed = client.query("select name from pg_prepared_statements where name like 'pgweir%'").expect("listed");
        listed.value().expect("there is one").to_owned()
    };
    assert_ne!(name(), name(), "of equal texts in two processes");
}

#[test]
fn a_large_statement_is_carried() {
    const VALUES: usize = 30_000;
    let (stage, _) = stage(2);
    let _ = stage.direct("create table bulk (a int)");
    let mut text = "insert into bulk values ($1)".to_owned();
    (2..=VALUES).for_each(|number| write!(text, ",  ($00{number})").expect("a String takes it"));
    assert!(text.len() > 340_000, "{}", text.len());
    let values = vec!["7"; VALUES];
    let mut client = stage.client();
    let answer = client.extended("bulk", &text, &values).expect("it is taken");
    assert_eq!(answer.tags, [format!("INSERT 0 {VALUES}")], "{:?}", answer.errors);
    let answer = client.prepared("bulk", &values).expect("it is kept");
    assert_eq!(answer.tags, [format!("INSERT 0 {VALUES}")], "{:?}", answer.errors);
}

#[test]
fn what_postgres_logs_for_its_client_has_the_clients_names() {
    let (stage, _) = stage(2);
    let mut client = stage.client();
    client.query("set client_min_messages = log; set log_min_duration_statement = 0").expect("connected");
    let mut said = Vec::new();
    for _ in 0..3 {
        let answer = client.extended("", "select 1", &[]).expect("connected");
        assert!(answer.errors.is_empty(), "{answer:?}");
        let answer = match said.is_empty() {
            true => client.extended("mine", "select 2", &[]),
            false => client.prepared("mine", &[]),
        };
        said.extend(answer.expect("connected").notices.into_iter().map(|notice| notice.message));
    }
    assert!(said.iter().filter(|message| message.contains("mine")).count() >= 3, "{said:?}");
    assert!(said.iter().all(|message| !message.contains("pgweir_")), "{said:?}");
}
