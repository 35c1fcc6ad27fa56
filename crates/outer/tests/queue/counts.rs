//! The numbers that scripts read from the console: ids, who is counted where, and what is not.

use std::sync::Arc;

use measure::login::{Account, Login};
use outer::{Client, Stage, Wishes, eventually};

fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"))
}

/// A column of a table, from the rows whose first columns have these values.
fn column(console: &mut Client, show: &str, rows: &[(&str, &str)], name: &str) -> Vec<String> {
    let answer = console.query(&format!("show {show}")).expect("answered");
    let place = |name: &str| answer.names.iter().position(|own| own == name).expect("it has the column");
    let fits = |row: &Vec<Option<String>>| rows.iter().all(|(own, value)| row[place(own)].as_deref() == Some(value));
    let at = place(name);
    answer.rows.iter().filter(|row| fits(row)).map(|row| row[at].clone().unwrap_or_default()).collect()
}

fn number(console: &mut Client, show: &str, rows: &[(&str, &str)], name: &str) -> i64 {
    match column(console, show, rows, name).as_slice() {
        [one] => one.parse().expect("a number"),
        other => panic!("{show} {rows:?}: {other:?}"),
    }
}

#[test]
fn ids_rise_by_one_for_clients_and_servers_alike() {
    let stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut console = console(&stage);
    let own = number(&mut console, "clients", &[("database", "pgbouncer")], "id");
    let mut first = stage.client();
    first.query("begin").expect("served");
    let client = number(&mut console, "clients", &[("database", "postgres")], "id");
    let server = number(&mut console, "servers", &[], "id");
    // Whoever tests whether the pooler listens has no id.
    assert_eq!((client, server), (own + 1, own + 2), "a client before its server");
    let refused = Client::login(stage.pooler.address(), "nobody", "postgres").map(|_| ());
    assert!(refused.is_err());
    let mut second = stage.client();
    second.query("begin").expect("served");
    let mut ids = column(&mut console, "clients", &[("database", "postgres")], "id");
    ids.sort();
    assert_eq!(ids, [client.to_string(), (client + 2).to_string()], "who is not let in takes none");
    assert_eq!(column(&mut console, "sockets", &[], "id").len(), 5, "three clients, two servers");
}

#[test]
fn who_fails_to_log_in_is_counted_nowhere() {
    let settings = vec![("auth_failure_delay", "0".to_owned()), ("track_extra_parameters", String::new())];
    let stage = Stage::set(&Wishes { auth: "plain", settings, ..Wishes::default() });
    // The console's own clients prove nothing on the Unix socket; here a password is needed.
    let account = Account::new("postgres", Some(stage.cluster.password()), "pgbouncer", "test");
    let startup = account.startup();
    let mut console = Client::connect(stage.pooler.address()).expect("it listens");
    console.log_in(&startup, &mut Login::new(&Arc::new(account))).expect("an administrator");
    let before = number(&mut console, "pgweir", &[("key", "logins")], "value");
    for user in ["postgres", "nobody"] {
        let account = Account::new(user, Some("wrong"), "postgres", "test");
        let startup = account.startup();
        let mut client = Client::connect(stage.pooler.address()).expect("it listens");
        assert!(client.log_in(&startup, &mut Login::new(&Arc::new(account))).is_err(), "{user} has no such password");
    }
    assert_eq!(column(&mut console, "clients", &[("database", "postgres")], "id"), [""; 0]);
    assert_eq!(column(&mut console, "pools", &[("database", "postgres")], "user"), [""; 0]);
    assert_eq!(column(&mut console, "users", &[("name", "nobody")], "name"), [""; 0]);
    assert_eq!(number(&mut console, "databases", &[("name", "postgres")], "current_client_connections"), 0);
    assert_eq!(
        number(&mut console, "users", &[("name", "postgres")], "current_client_connections"),
        1,
        "the console's"
    );
    assert_eq!(number(&mut console, "pgweir", &[("key", "logins")], "value"), before);
}

#[test]
fn a_console_connection_is_one_query_and_one_transaction() {
    let stage = Stage::set(&Wishes::default());
    let mut console = console(&stage);
    let counts = |console: &mut Client| {
        let total = |console: &mut Client, name: &str| number(console, "totals", &[("name", name)], "value");
        let [queries, transactions] = ["total_query_count", "total_xact_count"].map(|name| total(console, name));
        [queries, transactions, number(console, "pgweir", &[("key", "logins")], "value")]
    };
    let before = counts(&mut console);
    let mut others: Vec<Client> = (0..3).map(|_| self::console(&stage)).collect();
    for other in &mut others {
        other.query("show version").expect("answered");
        other.query("show state").expect("answered");
    }
    let after = counts(&mut console);
    let grown: Vec<i64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    assert_eq!(grown, [3, 3, 3]);
}

#[test]
fn clients_and_servers_are_counted_where_they_are() {
    let stage = Stage::set(&Wishes { pool: 2, aliases: 1, ..Wishes::default() });
    let mut console = console(&stage);
    let mut clients: Vec<Client> = (0..3).map(|_| stage.client()).collect();
    clients[0].query("begin").expect("served");
    clients[1].query("select 1").expect("served");
    let pool = [("database", "postgres"), ("user", "postgres")];
    let mut pools = |name: &str| number(&mut console, "pools", &pool, name);
    assert_eq!((pools("cl_active"), pools("cl_waiting"), pools("sv_active")), (3, 0, 1));
    let mut states = column(&mut console, "clients", &[("database", "postgres")], "state");
    states.sort();
    assert_eq!(states, ["active", "idle", "idle"]);
    assert_eq!(number(&mut console, "databases", &[("name", "postgres")], "current_client_connections"), 3);
    assert_eq!(number(&mut console, "databases", &[("name", "alias_0")], "current_client_connections"), 0);
    assert_eq!(number(&mut console, "databases", &[("name", "pgbouncer")], "current_client_connections"), 1);
    assert_eq!(number(&mut console, "users", &[("name", "postgres")], "current_client_connections"), 4);
    assert_eq!(number(&mut console, "lists", &[("list", "used_clients")], "items"), 4);
    drop(clients);
    eventually("they are gone", || column(&mut console, "clients", &[("database", "postgres")], "id").is_empty());
}

/// Whoever is found by auth_query is a user like others.
#[test]
fn users_who_were_looked_up_are_shown() {
    let settings = vec![("auth_user", "postgres".to_owned())];
    let stage = Stage::set(&Wishes { auth: "trust", settings, ..Wishes::default() });
    let _ = stage.direct("create role looked_up login password 'x'");
    let mut console = console(&stage);
    assert_eq!(column(&mut console, "users", &[("name", "looked_up")], "name"), [""; 0]);
    let client = Client::login(stage.pooler.address(), "looked_up", "postgres").expect("let in");
    assert_eq!(column(&mut console, "users", &[("name", "looked_up")], "name"), ["looked_up"]);
    assert_eq!(number(&mut console, "users", &[("name", "looked_up")], "current_client_connections"), 1);
    drop(client);
}
