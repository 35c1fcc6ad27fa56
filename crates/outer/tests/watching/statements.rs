//! What `sql` says of statements is what PostgreSQL does with them: how it answers each, and how many answers there are.
//! No pooler stands between.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use demo::{Cluster, Options};
use outer::{Answer, Client, Slot};
use sql::{Rules, Text, quoted_setting, setting_key};

const TAGS: &str = include_str!("../../../sql/tests/tags.txt");

/// A PostgreSQL that lets in without a password whoever reaches its port.
struct Server {
    cluster: Cluster,
    rules: std::path::PathBuf,
    _slot: Slot,
}

impl Server {
    fn start(name: &str) -> Server {
        let slot = Slot::any();
        let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
        let binaries = demo::find_or_install(&cache, &mut |line| println!("{line}"));
        let binaries = binaries.expect("PostgreSQL is here or can be installed");
        let rules = std::env::temp_dir().join(format!("pgweir-{name}-{}.conf", std::process::id()));
        fs::write(&rules, "local all all trust\nhost all all 127.0.0.1/32 trust\n").expect("a file can be written");
        let extra = [("hba_file", rules.to_str().expect("a name in UTF-8")), ("max_prepared_transactions", "2")];
        let extra = extra.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let cluster = outer::cluster(&binaries, Options { extra, ..Options::default() });
        Server { cluster, rules, _slot: slot }
    }

    fn client(&self) -> Client {
        let address = SocketAddr::from(([127, 0, 0, 1], self.cluster.port()));
        Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.rules);
    }
}

fn ask(client: &mut Client, text: &str) -> Answer {
    client.query(text).unwrap_or_else(|gone| panic!("{text}: {gone}"))
}

#[test]
fn tags_are_those_of_the_table() {
    let server = Server::start("tags");
    let mut client = server.client();
    let mut rows = 0;
    for (tag, text) in TAGS.lines().filter_map(|line| line.split_once(" | ")) {
        let answer = ask(&mut client, text);
        let is = if answer.errors.is_empty() { answer.tags.join(", ") } else { "FAILS".to_owned() };
        assert_eq!(is, tag, "{text}: {answer:?}");
        rows += 1;
    }
    assert!(rows > 90, "only {rows} rows were read");
    println!("{rows} tags");
}

/// Texts that end without an error.
const TEXTS: [&str; 24] = [
    "",
    " -- nothing",
    ";",
    ";;",
    "select 1",
    "select 1;",
    "; select 1;; select 2 ; ",
    "/* a */ select 1 /* ; */ ; -- b ;\n select 2",
    "begin; savepoint s; select 1; rollback to s; release s; commit",
    "begin; set local work_mem = '2MB'; commit and chain; select 1; rollback",
    "create table t (a int); create table log (a int); insert into t values (1), (2)",
    // Rules: more commands, other commands, several, none.
    "create rule also as on insert to t do also (insert into log values (new.a); insert into log select 5)",
    "insert into t values (3); insert into t values (4), (5)",
    "create rule instead as on delete to t do instead (update t set a = 0; select * from t)",
    "delete from t; delete from t where a = 1",
    "create rule nothing as on update to log do instead nothing",
    "update log set a = 1; select 1",
    "insert into t select a from t returning a; with x as (insert into log values (7) returning a) select * from x",
    "create schema s create table u (a int) create view v as select 1 create index on u (a); select 1",
    "create function f() returns int begin atomic select 1; select 2; end; select f()",
    "do 'begin perform 1; perform 2; end'; create procedure p() language plpgsql as 'begin commit; perform 1; end'; select 1",
    "call p()",
    "prepare q as select 1; execute q; explain execute q; create table x as execute q; deallocate q",
    "copy t to stdout; copy (select 1) to stdout; begin; declare c cursor for select 1; fetch c; fetch all in c; close c; end",
];

/// Texts that fail, and how many of their statements are done before.
const FAILING: [(usize, &str); 6] = [
    (0, "select 1 / 0; select 2"),
    (2, "select 1; ; select 2; select 1 / 0; select 3"),
    (0, "select 1; select 2; frobnicate"),
    (1, "set x.y = 1; select 1 from nowhere; select 2"),
    (3, "begin; select 1; commit; vacuum"),
    (1, "select 1; rollback prepared 'nothing'"),
];

#[test]
fn every_statement_has_one_answer() {
    let server = Server::start("answers");
    let mut client = server.client();
    for text in TEXTS {
        let answer = ask(&mut client, text);
        assert_eq!(answer.errors, [], "{text}");
        check(text, &answer, None);
    }
    for (done, text) in FAILING {
        let answer = ask(&mut client, text);
        assert_eq!(answer.errors.len(), 1, "{text}: {answer:?}");
        check(text, &answer, Some(done));
        ask(&mut client, "rollback");
    }
    // A prepared statement is one, and may be none.
    let answer = client.extended("", " -- nothing", &[]).expect("an answer");
    assert_eq!(answer.tags.len(), 0, "{answer:?}");
    let answer = client.extended("", "; select 1 ;", &[]).expect("an answer");
    assert_eq!(answer.tags.len(), 1, "{answer:?}");
}

/// As many tags as statements, or as many as were done, and each fits its statement.
fn check(text: &str, answer: &Answer, done: Option<usize>) {
    let read = Text::new(text.as_bytes(), Rules::default());
    let statements: Vec<_> = read.statements().collect();
    assert_eq!(answer.tags.len(), done.unwrap_or(statements.len()), "{text}: {answer:?}");
    for (statement, tag) in statements.iter().zip(&answer.tags) {
        assert!(statement.kind.may_answer(tag.as_bytes()), "{statement:?} answered {tag}");
    }
}

/// `RESET` of what goes by this key, as another client would have to write it.
fn reset(key: &[u8]) -> String {
    let quoted = quoted_setting(key).unwrap_or_else(|| panic!("{} can be written", key.escape_ascii()));
    format!("reset {}", String::from_utf8(quoted).expect("ASCII"))
}

#[test]
fn settings_go_by_their_keys() {
    let server = Server::start("settings");
    let mut client = server.client();
    let all = ask(&mut client, "select name from pg_settings where context in ('user', 'superuser')");
    assert!(all.rows.len() > 100, "only {} settings", all.rows.len());
    for name in all.rows.iter().flatten().flatten() {
        let answer = ask(&mut client, &reset(&setting_key(name.bytes())));
        assert_eq!((answer.errors.as_slice(), answer.tags.len()), ([].as_slice(), 1), "{name}");
    }
    // Set by one name and gone by its key's.
    for (set, shown) in [
        ("set Sort_Mem = '3MB'", "sort_mem"),
        ("set vacuum_mem = '3MB'", "vacuum_mem"),
        ("set \"WORK_MEM\" = '3MB'", "work_mem"),
        ("set app.User_ID = '7'", "app.User_ID"),
        ("set \"App.other\" = '7'", "app.other"),
        ("set \"order\".\"Select\".a$b = '7'", "order.select.a$b"),
        ("select set_config('Some.Thing', '7', false)", "some.thing"),
        ("set time zone 'Asia/Tokyo'", "TimeZone"),
    ] {
        let shows = format!("select current_setting('{shown}', true)");
        let before = ask(&mut client, &shows).value().unwrap_or_default().to_owned();
        assert_eq!(ask(&mut client, set).errors, [], "{set}");
        assert_ne!(ask(&mut client, &shows).value(), Some(before.as_str()), "{set}");
        assert_eq!(ask(&mut client, &reset(&setting_key(shown.bytes()))).errors, [], "{shown}");
        assert_eq!(ask(&mut client, &shows).value(), Some(before.as_str()), "{shown} is as it was");
    }
}
