//! A PostgreSQL that is frozen: all its processes are stopped, and its kernel still takes connections and bytes for it.

use std::thread;

use demo::Cluster;
use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Client, Pooler, Stage, Wishes, eventually};

/// A cluster whose processes are stopped for as long as this lives.
struct Frozen<'c>(&'c Cluster);

impl<'c> Frozen<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        cluster.freeze().expect("its processes are listed");
        Frozen(cluster)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = self.0.thaw();
    }
}

fn wishes() -> Wishes {
    let settings = [("host_timeout", "3"), ("default_pool_size", "2"), ("pool_mode", "transaction")];
    Wishes { settings: settings.map(|(name, value)| (name, value.to_owned())).to_vec(), ..Wishes::default() }
}

/// The SQLSTATE of the one error that a query brings.
fn error(client: &mut Client, sql: &str) -> String {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{gone}"));
    assert_eq!(answer.errors.len(), 1, "{answer:?}");
    answer.errors[0].sqlstate.clone()
}

/// How many clients of a database wait.
fn waits(pooler: &Pooler, database: &str) -> String {
    let mut console = Client::login(pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let answer = console.query("show pools").expect("the console answers");
    let row = answer.rows.into_iter().find(|row| row[0].as_deref() == Some(database)).expect("a pool");
    row[3].clone().unwrap_or_default()
}

fn value(client: &mut Client, sql: &str) -> Option<String> {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{gone}"));
    assert!(answer.errors.is_empty(), "{answer:?}");
    answer.value().map(str::to_owned)
}

#[test]
fn who_waits_for_an_answer_of_a_frozen_host_is_told_what_is_known_and_who_waits_for_a_server_is_served_when_it_thaws() {
    let stage = Stage::set(&wishes());
    let _ = stage.direct("create table t (i int)");
    let [mut writer, mut waiter] = [(); 2].map(|()| stage.client());
    assert_eq!([&mut writer, &mut waiter].map(|client| value(client, "select 1")), [(); 2].map(|()| Some("1".into())));
    let frozen = Frozen::new(&stage.cluster);
    assert_eq!(error(&mut writer, "insert into t values (1)"), "08007", "it may have been committed");
    eventually("the log says why", || stage.pooler.log().contains("has not answered for 3 s"));
    let waiting = thread::spawn(move || value(&mut waiter, "select 3"));
    eventually("it waits", || waits(&stage.pooler, "postgres") == "1");
    drop(frozen);
    assert_eq!(waiting.join().expect("no panic").as_deref(), Some("3"), "{}", stage.pooler.log());
    assert_eq!(value(&mut writer, "select 4").as_deref(), Some("4"), "its connection was kept");
}

#[test]
fn a_frozen_host_is_found_however_often_settings_are_reloaded() {
    let stage = Stage::set(&wishes());
    let mut client = stage.client();
    assert_eq!(value(&mut client, "create table t (i int)"), None);
    let mut console =
        Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let frozen = Frozen::new(&stage.cluster);
    let writing = thread::spawn(move || error(&mut client, "insert into t values (1)"));
    eventually("the host counts as silent", || {
        let _ = console.query("reload").expect("the console answers");
        stage.pooler.log().contains("has not answered for 3 s")
    });
    assert_eq!(writing.join().expect("no panic"), "08007");
    drop(frozen);
}

#[test]
fn a_client_that_is_left_in_the_process_before_is_told_of_a_frozen_host() {
    let mut wishes = wishes();
    wishes.settings.push(("unix_socket_dir", "{dir}".to_owned()));
    let mut stage = Stage::set(&wishes);
    let mut client = stage.client();
    assert_eq!(value(&mut client, "create table t (i int)"), None);
    assert_eq!(value(&mut client, "begin"), None);
    assert_eq!(value(&mut client, "insert into t values (1)"), None);
    let before = stage.pooler.upgrade();
    let frozen = Frozen::new(&stage.cluster);
    assert_eq!(error(&mut client, "insert into t values (2)"), "40001");
    drop(frozen);
    assert_eq!(value(&mut client, "rollback"), None);
    assert_eq!(value(&mut client, "select count(*) from t").as_deref(), Some("0"));
    let mut before = before;
    eventually("the process before ends", || before.try_wait().expect("it is our child").is_some());
    let ended = before.wait().expect("it has ended");
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_long_query_at_a_host_that_answers_probes_is_not_touched() {
    let stage = Stage::set(&wishes());
    let mut client = stage.client();
    assert_eq!(value(&mut client, "select 1 from pg_sleep(5)").as_deref(), Some("1"), "{}", stage.pooler.log());
    assert!(!stage.pooler.log().contains("does not answer"));
}

#[test]
fn clients_of_a_frozen_primary_go_on_at_the_standby_that_is_promoted_and_none_goes_back_when_it_thaws() {
    let (stage, standby) = pair();
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let ini = format!(
        "[databases]\nwrites = host={PRIMARY},{STANDBY} port={port} user=postgres password={password} dbname=postgres \
         target_session_attrs=primary\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nhost_timeout = 3\nadmin_users = postgres\n"
    );
    let pooler = Pooler::start_with(&ini, &[]);
    let login = || Client::login(pooler.address(), "postgres", "writes").unwrap_or_else(|gone| panic!("{gone}"));
    let mut clients: Vec<Client> = (0..6).map(|_| login()).collect();
    let _ = value(&mut clients[0], "create table t (i int)");
    eventually("the standby has it", || {
        standby.psql("postgres", "select to_regclass('t')").is_ok_and(|name| name == "t")
    });
    let frozen = Frozen::new(&stage.cluster);
    let insert = |mut client: Client| {
        thread::spawn(move || {
            let answer = client.query("insert into t values (1)").unwrap_or_else(|gone| panic!("{gone}"));
            (answer.errors.first().map(|error| error.sqlstate.clone()), client)
        })
    };
    let inserting: Vec<_> = clients.into_iter().map(insert).collect();
    eventually("the host counts as silent", || pooler.log().contains("has not answered for 3 s"));
    assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    let (mut codes, mut clients) = (Vec::new(), Vec::new());
    for client in inserting {
        let (code, client) = client.join().expect("no panic");
        codes.push(code);
        clients.push(client);
    }
    let told = codes.iter().flatten().filter(|code| *code == "08007").count();
    assert_eq!(told, codes.iter().flatten().count(), "{codes:?}");
    assert!(told <= 2, "no more than had a server: {codes:?}");
    assert_eq!(standby.psql("postgres", "select count(*) from t").expect("it answers"), (6 - told).to_string());
    drop(frozen);
    eventually("it answers again", || stage.cluster.psql("postgres", "select 1").is_ok_and(|one| one == "1"));
    for client in &mut clients {
        for _ in 0..10 {
            assert_eq!(value(client, "select inet_server_addr()").as_deref(), Some(STANDBY));
        }
    }
}
