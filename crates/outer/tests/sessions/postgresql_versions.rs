//! Each version of PostgreSQL that its project still keeps up: logins, pooling, session state, side effects that are read from the catalogue,
//! and cancels. The rest of the outer ring runs with one of them. `$PGWEIR_POSTGRESQLS` is the folder that `tools/postgresql-versions` prints;
//! without it these tests are skipped.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use demo::Binaries;
use outer::{Answer, Authority, Client, Pooler, Signature, Stage, Wishes, eventually, frontend, psql};

use crate::catalogue;

#[test]
fn postgresql_14() {
    on("14");
}

#[test]
fn postgresql_15() {
    on("15");
}

#[test]
fn postgresql_16() {
    on("16");
}

#[test]
fn postgresql_17() {
    on("17");
}

#[test]
fn postgresql_18() {
    on("18");
}

/// Servers of each pool.
const SERVERS: u32 = 2;

fn on(major: &str) {
    let Some(folder) = env::var_os("PGWEIR_POSTGRESQLS").filter(|folder| !folder.is_empty()) else {
        println!(
            "SKIPPED PostgreSQL {major}: tools/postgresql-versions fetches it, PGWEIR_POSTGRESQLS names its folder"
        );
        return;
    };
    let tree = PathBuf::from(folder).join(major);
    let binaries = Binaries::at(&tree.join("bin"), Some(&tree)).expect("tools/postgresql-versions has made it");
    assert_eq!(binaries.major(), major);
    // Each transaction of a session has another server than the last.
    let settings = [("min_pool_size", SERVERS.to_string()), ("chaos_rotate", "1".to_owned())];
    let wishes = Wishes { pool: SERVERS, workers: 1, settings: settings.to_vec(), ..Wishes::default() };
    let mut stage = Stage::set_on(binaries, &wishes);
    let begun = Instant::now();
    eventually("both servers are there", || stage.backends() >= SERVERS as usize);
    stage.assert_healthy();
    clients_share_servers(&stage);
    settings_follow(&stage);
    statements_follow(&stage);
    temporary_tables_and_locks_are_kept_apart(&stage);
    side_effects_are_known(&stage);
    catalogue::knows_what_notifies(&mut stage.client());
    cancels_arrive(&stage);
    // The server that listens for all stays for 10 s, so others have one less.
    notifications_arrive(&stage);
    stage.assert_healthy();
    logins_are_postgresqls(&stage);
    println!("PostgreSQL {}: {:?}", stage.binaries.version, begun.elapsed());
}

#[track_caller]
fn run(client: &mut Client, sql: &str) -> Answer {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer
}

#[track_caller]
fn value(client: &mut Client, sql: &str) -> String {
    run(client, sql).value().unwrap_or_default().to_owned()
}

/// In transaction mode many clients use two servers, all of them both.
fn clients_share_servers(stage: &Stage) {
    let used: BTreeSet<String> = thread::scope(|scope| {
        let one = |number: usize| {
            let mut client = stage.client();
            scope.spawn(move || {
                let pids = (0..20).map(|round| {
                    let token = format!("{number}-{round}");
                    let answer = run(&mut client, &format!("select pg_backend_pid(), '{token}'"));
                    assert_eq!(answer.rows[0][1].as_deref(), Some(&*token));
                    answer.rows[0][0].clone().expect("a number")
                });
                pids.collect::<Vec<_>>()
            })
        };
        let clients: Vec<_> = (0..10).map(one).collect();
        clients.into_iter().flat_map(|client| client.join().expect("it was answered")).collect()
    });
    assert_eq!(used.len(), SERVERS as usize, "{used:?}");
    // One of the test's own may still be about to end.
    eventually("no other servers", || stage.backends() == SERVERS as usize);
}

fn settings_follow(stage: &Stage) {
    let (mut one, mut other) = (stage.client(), stage.client());
    run(&mut one, "set work_mem = '7MB'");
    run(&mut one, "set timezone = 'Asia/Tokyo'");
    run(&mut one, "set app.whose = 'one'");
    for _ in 0..4 {
        assert_eq!(value(&mut one, "show work_mem"), "7MB");
        assert_eq!(value(&mut one, "select current_setting('app.whose')"), "one");
        assert_eq!(value(&mut one, "show timezone"), "Asia/Tokyo");
        assert_ne!(value(&mut other, "show work_mem"), "7MB");
        assert_eq!(value(&mut other, "select coalesce(current_setting('app.whose', true), '')"), "");
    }
    // What a transaction sets ends with it.
    run(&mut one, "begin; set local work_mem = '9MB'; commit");
    assert_eq!(value(&mut one, "show work_mem"), "7MB");
    run(&mut one, "begin; set work_mem = '9MB'; rollback");
    assert_eq!(value(&mut one, "show work_mem"), "7MB");
    run(&mut one, "reset all");
    assert_ne!(value(&mut one, "show work_mem"), "7MB");
}

fn statements_follow(stage: &Stage) {
    let (mut one, mut other) = (stage.client(), stage.client());
    let answer = one.extended("s", "select 'one', $1::int", &["1"]).expect("connected");
    assert!(answer.errors.is_empty(), "{answer:?}");
    let answer = other.extended("s", "select 'other', $1::text", &["x"]).expect("connected");
    assert!(answer.errors.is_empty(), "{answer:?}");
    run(&mut one, "prepare p as select 'of SQL'");
    for round in ["1", "2", "3", "4"] {
        assert_eq!(one.prepared("s", &[round]).expect("connected").lines(), [format!("one|{round}")]);
        assert_eq!(other.prepared("s", &[round]).expect("connected").lines(), [format!("other|{round}")]);
        assert_eq!(value(&mut one, "execute p"), "of SQL");
    }
    let missing = other.query("execute p").expect("connected");
    assert_eq!(missing.errors.first().map(|error| &*error.sqlstate), Some("26000"), "{missing:?}");
    assert_eq!(run(&mut one, "select name from pg_prepared_statements where from_sql").lines(), ["p"]);
}

fn temporary_tables_and_locks_are_kept_apart(stage: &Stage) {
    let (mut one, mut other) = (stage.client(), stage.client());
    run(&mut one, "create temp table mine as select 42 as x");
    run(&mut one, "select pg_advisory_lock(7)");
    for _ in 0..4 {
        assert_eq!(value(&mut one, "select x from mine"), "42");
        let missing = other.query("select x from mine").expect("connected");
        assert_eq!(missing.errors.first().map(|error| &*error.sqlstate), Some("42P01"), "{missing:?}");
        assert_eq!(value(&mut other, "select pg_try_advisory_lock(7)"), "f");
    }
    run(&mut one, "drop table mine");
    assert_eq!(value(&mut one, "select pg_advisory_unlock(7)"), "t");
    assert_eq!(value(&mut other, "select pg_try_advisory_lock(7)"), "t");
    assert_eq!(value(&mut other, "select pg_advisory_unlock(7)"), "t");
    // The next client of that server has none of it.
    drop((one, other));
    let mut next = stage.client();
    for _ in 0..4 {
        assert_eq!(value(&mut next, "select coalesce(to_regclass('mine')::text, '')"), "");
    }
}

fn notifications_arrive(stage: &Stage) {
    let (mut listener, mut other) = (stage.client(), stage.client());
    run(&mut listener, "listen news");
    run(&mut other, "notify news, 'of another'");
    // It may come before, within or after the next answer.
    listener.send(&frontend::query("select 1")).expect("connected");
    loop {
        let message = listener.receive().expect("a notification comes");
        if message.tag == b'A' {
            assert!(message.body[4..].starts_with(b"news\0of another\0"), "{message:?}");
            break;
        }
    }
}

/// A function's body says what a call of it does, and no text of the client's.
fn side_effects_are_known(stage: &Stage) {
    let mut maker = stage.client();
    run(
        &mut maker,
        "create function sets(text) returns void language plpgsql as $$ begin perform set_config('app.hidden', $1, false); end $$",
    );
    run(&mut maker, "create view shows as select current_setting('app.hidden', true) as hidden");
    run(&mut maker, "create sequence numbers");
    // Until they are read, any text may do what they do, so that it might keep one of the two servers.
    drop(maker);
    let (mut one, mut other) = (stage.client(), stage.client());
    for round in 0..3 {
        run(&mut one, &format!("select sets('{round}')"));
        for _ in 0..4 {
            assert_eq!(value(&mut one, "select hidden from shows"), round.to_string());
            assert_eq!(value(&mut other, "select coalesce(hidden, '') from shows"), "");
        }
    }
    // The first in a pool that asks is told so, whoever has drawn before.
    let undrawn = other.query("select currval('numbers')").expect("connected");
    assert_eq!(undrawn.errors.first().map(|error| &*error.sqlstate), Some("55000"), "{undrawn:?}");
    let drawn = value(&mut one, "select nextval('numbers')");
    for _ in 0..4 {
        assert_eq!(value(&mut one, "select currval('numbers')"), drawn);
    }
    let undrawn = other.query("select currval('numbers')").expect("connected");
    assert_eq!(undrawn.errors.first().map(|error| &*error.sqlstate), Some("55000"), "{undrawn:?}");
    drop((one, other));
    run(&mut stage.client(), "drop view shows; drop function sets; drop sequence numbers");
}

fn cancels_arrive(stage: &Stage) {
    let (mut sleeper, mut bystander) = (stage.client(), stage.client());
    for _ in 0..3 {
        sleeper.send(&frontend::query("select pg_sleep(60)")).expect("connected");
        let running = "select count(*) from pg_stat_activity where state = 'active' and query = 'select pg_sleep(60)'";
        eventually("the query runs", || stage.direct(running) == "1");
        sleeper.cancel().expect("the pooler listens");
        let answer = sleeper.answer().expect("connected");
        assert_eq!(answer.errors.first().map(|error| &*error.sqlstate), Some("57014"), "{answer:?}");
        assert_eq!(value(&mut bystander, "select 'untouched'"), "untouched");
    }
}

/// By SCRAM and TLS on both sides, with users that are looked up as `auth-setup` sets it up; a session keeps its server.
fn logins_are_postgresqls(stage: &Stage) {
    let authority = stage.encrypt(Signature::Sha256);
    let setup = Command::new(outer::binary()).args(["auth-setup", &stage.cluster.url("postgres"), "--apply"]).output();
    let setup = setup.expect("it runs");
    assert!(setup.status.success(), "{}", String::from_utf8_lossy(&setup.stderr));
    let _ = stage.direct("alter role pgweir_auth password 'of auth'");
    let pooler = encrypted(stage, &authority);
    let log_in = |port: u16, database: &str, user: &str, password: &str, sql: &str| {
        let ca = authority.path("ca.crt");
        let url =
            format!("postgres://{user}:{password}@localhost:{port}/{database}?sslmode=verify-full&sslrootcert={ca}");
        psql(stage, &["-d", &url, "-Atc", sql]).map(|(out, _)| out.trim().to_owned())
    };
    let encrypted = "select current_user || ' ' || ssl from pg_stat_ssl where pid = pg_backend_pid()";
    eventually("PostgreSQL has TLS", || {
        log_in(stage.cluster.port(), "postgres", "ann", "right", encrypted).is_ok_and(|text| text == "ann true")
    });
    for database in ["postgres", "kept"] {
        let through = |user: &str, password: &str| log_in(pooler.port, database, user, password, encrypted);
        assert_eq!(through("ann", "right").as_deref(), Ok("ann true"));
        for (user, password) in [("ann", "wrong"), ("nobody", "right"), ("postgres", stage.cluster.password())] {
            let told = through(user, password).expect_err("auth-setup's function knows no superusers");
            assert!(told.contains("authentication failed"), "{user}: {told}");
        }
    }
    let pids = log_in(pooler.port, "kept", "ann", "right", "select pg_backend_pid(); select pg_backend_pid()");
    let pids = pids.expect("let in");
    let pids: BTreeSet<&str> = pids.lines().collect();
    assert_eq!(pids.len(), 1, "a session has one server: {pids:?}");
}

fn encrypted(stage: &Stage, authority: &Authority) -> Pooler {
    let upstream = format!("host=localhost port={}", stage.cluster.port());
    let tls = |side: &str, name: &str, file: &str| format!("{side}_tls_{name}_file = {}\n", authority.path(file));
    let ini = format!(
        "[databases]\npostgres = {upstream}\nkept = {upstream} dbname=postgres pool_mode=session\n\
         [pgbouncer]\nlisten_addr = localhost\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = scram-sha-256\n\
         auth_file = {{dir}}/users.txt\nauth_user = pgweir_auth\n\
         auth_query = SELECT name, secret, valid_until FROM pgweir.user_lookup($1)\npool_mode = transaction\n\
         server_login_retry = 1\nauth_failure_delay = 0\nclient_tls_sslmode = require\nserver_tls_sslmode = verify-full\n{}{}{}",
        tls("client", "cert", "pooler.crt"),
        tls("client", "key", "pooler.key"),
        tls("server", "ca", "ca.crt"),
    );
    Pooler::start(&ini, "\"pgweir_auth\" \"of auth\"\n", None)
}
