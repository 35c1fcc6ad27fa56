//! Where servers are, before a real PostgreSQL with several addresses: names that move, names that nobody knows, name servers that do not
//! answer, and lists of hosts of which some are down.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Authority, Client, NameServer, Pooler, Says, Stage, Wishes, eventually};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

/// For entries without a server: their clients get an error after 1 s. All other clients have the usual time.
const HASTY: &str = "query_wait_timeout=1";

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const WHERE: &str = "select host(inet_server_addr())";

/// A PostgreSQL on four addresses.
fn stage() -> Stage {
    Stage::set(&Wishes {
        postgres: vec![("listen_addresses", "127.0.0.1,127.0.0.2,127.0.0.3,::1")],
        ..Wishes::default()
    })
}

/// A pooler in front of it. The entry `postgres` has `hosts`; the entry `beside` has an address.
fn pooler(stage: &Stage, hosts: &str, settings: &str, names: Option<&NameServer>) -> Pooler {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let mut ini = format!("[databases]\npostgres = host={hosts} port={port} user=postgres password={password}\n");
    ini += &format!("beside = host=127.0.0.1 port={port} user=postgres password={password} dbname=postgres\n");
    ini += "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n";
    ini += "pool_mode = transaction\nserver_login_retry = 1\nobserve_interval = 0\nadmin_users = postgres\n";
    // Nobody asks twice because the answer is slow to come: lookups are counted.
    let own =
        names.map_or(String::new(), NameServer::resolv_conf).replace("timeout:1 attempts:2", "timeout:30 attempts:1");
    if names.is_some() {
        ini += "resolv_conf = {dir}/resolv.conf\n";
    }
    Pooler::start_with(&format!("{ini}{settings}"), &[("resolv.conf", own)])
}

fn client(pooler: &Pooler, database: &str) -> Client {
    Client::login(pooler.address(), "postgres", database).unwrap_or_else(|gone| panic!("{gone}: {}", pooler.log()))
}

/// The first value of the answer.
fn ask(client: &mut Client, sql: &str) -> String {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
    answer.value().unwrap_or_else(|| panic!("{sql}: {answer:?}")).to_owned()
}

/// Where the servers are of so many clients at one time, more than there are servers open.
fn held(pooler: &Pooler, count: usize) -> Vec<String> {
    let mut clients: Vec<Client> = (0..count).map(|_| client(pooler, "postgres")).collect();
    let in_transaction = |client: &mut Client| {
        let _ = client.query("begin");
        ask(client, WHERE)
    };
    clients.iter_mut().map(in_transaction).collect()
}

/// A row of SHOW DNS_HOSTS or the like that begins with this.
fn shown(pooler: &Pooler, show: &str, first: &str) -> Option<Vec<String>> {
    let answer = client(pooler, "pgbouncer").query(show).expect("the console answers");
    let rows = answer.rows.iter().map(|row| row.iter().map(|value| value.clone().unwrap_or_default()).collect());
    rows.into_iter().find(|row: &Vec<String>| row[0] == first)
}

#[test]
fn servers_follow_a_name_that_moves() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    let pooler = pooler(&stage, "db.example", "dns_max_ttl = 1\n", Some(&names));
    let mut one = client(&pooler, "postgres");
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    let row = shown(&pooler, "show dns_hosts", "db.example").expect("it is known");
    assert_eq!(row[2], "127.0.0.2");
    assert_eq!(shown(&pooler, "show lists", "dns_names").expect("a row")[1], "1");
    let _ = one.query("begin");
    names.tell("db.example", Says::Addresses(vec![SECOND]));
    let asked = names.asked("db.example");
    // Whoever needs another server looks the name up; whoever does not need one does not.
    eventually("it is forgotten", || shown(&pooler, "show dns_hosts", "db.example").is_some_and(|row| row[1] == "0"));
    assert_eq!(names.asked("db.example"), asked);
    let mut found = held(&pooler, 4);
    assert_eq!(found.pop().as_deref(), Some("127.0.0.3"), "{}", pooler.log());
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2", "its transaction is where it began");
    let _ = one.query("commit");
    eventually("its server is closed", || pooler.log().contains("closing because: obsolete connection"));
    for _ in 0..5 {
        assert_eq!(ask(&mut one, WHERE), "127.0.0.3");
    }
    let words = "DNS: db.example has these addresses now: 127.0.0.3";
    eventually(words, || pooler.log().contains(words));
}

#[test]
fn all_addresses_of_a_name_are_tried_and_take_turns() {
    let (stage, names) = (stage(), NameServer::start());
    let nobody = Ipv4Addr::new(127, 0, 0, 9);
    names.tell("db.example", Says::Addresses(vec![nobody, FIRST, SECOND]));
    let pooler = pooler(&stage, "db.example", "", Some(&names));
    let mut found = held(&pooler, 6);
    found.sort();
    found.dedup();
    assert_eq!(found, ["127.0.0.2", "127.0.0.3"], "{}", pooler.log());
    assert!(!pooler.log().contains("connect failed"), "{}", pooler.log());
    assert_eq!(names.asked("db.example"), 1);
}

#[test]
fn a_name_that_nobody_knows_is_told_once_and_comes_back() {
    let (stage, names) = (stage(), NameServer::start());
    let settings = "dns_nxdomain_ttl = 1\nserver_login_retry = 15\n";
    let began = Instant::now();
    let pooler = pooler(&stage, &format!("db.example {HASTY}"), settings, Some(&names));
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let address = pooler.address();
            std::thread::spawn(move || Client::login(address, "postgres", "postgres").map(drop))
        })
        .collect();
    for client in waiting {
        let error = client.join().expect("it does not panic").expect_err("there is no server").error;
        assert_eq!(error.map(|error| error.message).as_deref(), Some("query_wait_timeout"));
    }
    // The clients' errors may come before this line is logged.
    let words = "server DNS lookup failed: db.example: no such name";
    eventually(words, || pooler.log().contains(words));
    // Logged once, and once more after each server_login_retry.
    let told = pooler.log().matches("server DNS lookup failed").count();
    assert!(told as u64 <= 1 + began.elapsed().as_secs() / 15, "{told} times: {}", pooler.log());
    assert_eq!(ask(&mut client(&pooler, "beside"), "select 1"), "1");
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    let asks = || {
        let mut found = Client::login(pooler.address(), "postgres", "postgres").ok()?;
        found.query(WHERE).ok()?.value().map(str::to_owned)
    };
    eventually("it is known", || asks().as_deref() == Some("127.0.0.2"));
}

#[test]
fn a_name_server_that_does_not_answer_hangs_nobody() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Silence);
    let mut pooler = pooler(&stage, "db.example", "query_wait_timeout = 3600\n", Some(&names));
    let address = pooler.address();
    let waiting: Vec<_> =
        (0..20).map(|_| std::thread::spawn(move || Client::login(address, "postgres", "postgres").map(drop))).collect();
    eventually("the name server is asked", || names.asked("db.example") > 0);
    // Meanwhile another database and the console are served: they do not wait for an answer that does not come.
    let mut beside = client(&pooler, "beside");
    for _ in 0..20 {
        assert_eq!(ask(&mut beside, "select 1"), "1");
    }
    eventually("it is shown", || {
        shown(&pooler, "show lists", "dns_queries").is_some_and(|row| row[1] == "1")
            && shown(&pooler, "show dns_hosts", "db.example").is_some_and(|row| row[2].is_empty())
    });
    assert!(waiting.iter().all(|client| !client.is_finished()), "they have an hour");
    // A shorter timeout takes effect at once.
    let _ = client(&pooler, "pgbouncer").query("set query_wait_timeout = 1").expect("the console answers");
    for client in waiting {
        let error = client.join().expect("it does not panic").expect_err("there is no server").error;
        assert_eq!(error.map(|error| error.message).as_deref(), Some("query_wait_timeout"));
    }
    // A lookup that is under way keeps nobody from ending.
    let login = std::thread::spawn(move || Client::login(address, "postgres", "postgres").map(drop));
    drop(beside);
    assert!(pooler.end_by(rustix::process::Signal::INT).success());
    let _ = login.join();
}

#[test]
fn a_name_server_that_has_gone_leaves_servers_where_they_are() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    let pooler = pooler(&stage, "db.example", "dns_max_ttl = 1\ndns_nxdomain_ttl = 1\n", Some(&names));
    let mut one = client(&pooler, "postgres");
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    let _ = one.query("begin");
    names.tell("db.example", Says::Failure);
    eventually("it is forgotten", || shown(&pooler, "show dns_hosts", "db.example").is_some_and(|row| row[1] == "0"));
    assert!(held(&pooler, 4).iter().all(|found| found == "127.0.0.2"), "{}", pooler.log());
    eventually("it is told", || pooler.log().contains("the addresses of db.example that were found last are used on"));
    assert!(!pooler.log().contains("obsolete connection"));
}

/// How soon a change of a name is followed: a second until the name is looked up, and what a busy machine takes.
const FOLLOWED: Duration = Duration::from_secs(3);

#[test]
fn a_name_that_moves_is_followed_at_once_after_its_servers_were_closed() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    let settings = "dns_max_ttl = 3600\nserver_login_retry = 3600\n";
    let pooler = pooler(&stage, "db.example query_wait_timeout=60", settings, Some(&names));
    let mut one = client(&pooler, "postgres");
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    assert_eq!(names.asked("db.example"), 1, "an hour is not over");
    // As RDS does it: connections end, and the name moves later. Meanwhile the old address is served.
    assert_eq!(stage.direct("select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity where client_addr is not null and pid <> pg_backend_pid()"), "t");
    eventually("the name is looked up", || names.asked("db.example") > 1);
    names.tell("db.example", Says::Addresses(vec![SECOND]));
    let changed = Instant::now();
    eventually("it is followed", || one.query(WHERE).is_ok_and(|answer| answer.value() == Some("127.0.0.3")));
    let took = changed.elapsed();
    println!("a name that moved was followed after {took:?}");
    assert!(took < FOLLOWED, "{took:?}: {}", pooler.log());
}

#[test]
fn a_name_that_moves_is_followed_at_once_while_nobody_can_connect() {
    let (stage, names) = (stage(), NameServer::start());
    // Nobody listens there.
    names.tell("db.example", Says::Addresses(vec![Ipv4Addr::new(127, 0, 0, 9)]));
    let settings = "dns_max_ttl = 3600\nserver_login_retry = 3600\n";
    let pooler = pooler(&stage, "db.example query_wait_timeout=60", settings, Some(&names));
    let address = pooler.address();
    let waiting = std::thread::spawn(move || {
        let mut client = Client::login(address, "postgres", "postgres").expect("it waits");
        (ask(&mut client, WHERE), Instant::now())
    });
    // Pauses between attempts have grown by then.
    eventually("it is looked up again and again", || names.asked("db.example") > 3);
    names.tell("db.example", Says::Addresses(vec![SECOND]));
    let changed = Instant::now();
    let (found, at) = waiting.join().expect("it does not panic");
    let took = at.duration_since(changed);
    println!("a name that moved was followed after {took:?} by a client that waited");
    assert_eq!(found, "127.0.0.3");
    assert!(took < FOLLOWED, "{took:?}: {}", pooler.log());
}

#[test]
fn the_order_of_a_names_addresses_is_no_move() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST, SECOND]));
    let pooler = pooler(&stage, "db.example", "dns_max_ttl = 3600\n", Some(&names));
    let mut clients: Vec<Client> = (0..2).map(|_| client(&pooler, "postgres")).collect();
    let begin = |client: &mut Client| {
        let _ = client.query("begin");
        ask(client, "select pg_backend_pid()")
    };
    let (kept, ended) = (begin(&mut clients[0]), begin(&mut clients[1]));
    names.tell("db.example", Says::Addresses(vec![SECOND, FIRST]));
    assert_eq!(stage.direct(&format!("select pg_terminate_backend({ended})")), "t");
    eventually("the name is looked up", || names.asked("db.example") > 2);
    assert_eq!(ask(&mut clients[0], "select pg_backend_pid()"), kept);
    let _ = clients[0].query("commit");
    assert_eq!(ask(&mut clients[0], "select pg_backend_pid()"), kept, "its server is not closed");
    let log = pooler.log();
    assert!(!log.contains("has these addresses now") && !log.contains("obsolete connection"), "{log}");
}

#[test]
fn reconnect_looks_a_name_up_anew() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    let pooler = pooler(&stage, "db.example", "dns_max_ttl = 3600\n", Some(&names));
    let mut one = client(&pooler, "postgres");
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    names.tell("db.example", Says::Addresses(vec![SECOND]));
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    let _ = client(&pooler, "pgbouncer").query("reconnect").expect("the console answers");
    eventually("it is elsewhere", || ask(&mut one, WHERE) == "127.0.0.3");
}

#[test]
fn a_zone_with_another_serial_has_its_names_looked_up_though_nobody_asks() {
    let (stage, names) = (stage(), NameServer::start());
    names.tell("db.example", Says::Addresses(vec![FIRST]));
    names.set_serial("example", 7);
    let settings = "dns_max_ttl = 3600\ndns_zone_check_period = 0.2\n";
    let pooler = pooler(&stage, "db.example", settings, Some(&names));
    let mut one = client(&pooler, "postgres");
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    let serial = |expected: &str| {
        shown(&pooler, "show dns_zones", "example").is_some_and(|row| row[1] == expected && row[2] == "1")
    };
    eventually("the zone is known", || serial("7"));
    names.tell("db.example", Says::Addresses(vec![SECOND]));
    assert_eq!(ask(&mut one, WHERE), "127.0.0.2");
    names.set_serial("example", 8);
    eventually("the zone has changed", || serial("8"));
    eventually("the idle server is closed", || pooler.log().contains("closing because: obsolete connection"));
    assert_eq!(ask(&mut one, WHERE), "127.0.0.3");
}

#[test]
fn without_a_resolv_conf_names_are_looked_up_as_the_system_does_it() {
    let stage = stage();
    // In /etc/hosts of every machine.
    let pooler = pooler(&stage, "localhost", "", None);
    let found = ask(&mut client(&pooler, "postgres"), WHERE);
    assert!(["127.0.0.1", "::1"].contains(&found.as_str()), "{found}");
    assert!(shown(&pooler, "show dns_hosts", "localhost").is_some());
}

/// Connections to a port where nobody accepts any are neither made nor refused once its queue is full.
fn silent_port(at: Ipv4Addr, port: u16) -> Vec<Box<dyn std::any::Any>> {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&listener, &std::net::SocketAddrV4::new(at, port)).expect("nobody has it");
    listen(&listener, 0).expect("it is bound");
    let mut kept: Vec<Box<dyn std::any::Any>> = vec![Box::new(listener)];
    for _ in 0..3 {
        // The first are connected at once, and the others never.
        let timeout = Duration::from_millis(200);
        let filled = std::net::TcpStream::connect_timeout(&(at, port).into(), timeout);
        kept.push(Box::new(filled));
    }
    kept
}

#[test]
fn a_host_that_is_down_costs_nobody_an_error_while_another_lives() {
    let stage = stage();
    // Nobody listens at the first; the second does not answer at all.
    let silent = Ipv4Addr::new(127, 0, 0, 8);
    let _full = silent_port(silent, stage.cluster.port());
    let hosts = "127.0.0.9,127.0.0.8,127.0.0.2,127.0.0.3";
    // Without the prober, which would find out first.
    let settings = "server_login_retry = 3600\nhost_check_interval = 0\n";
    for balancing in ["round-robin", "disable"] {
        let port = stage.cluster.port();
        let entry = format!("{hosts} load_balance_hosts={balancing}");
        let pooler = pooler(&stage, &entry, settings, None);
        let began = Instant::now();
        let mut found = held(&pooler, 8);
        let took = began.elapsed();
        found.sort();
        found.dedup();
        let expected: &[&str] = if balancing == "disable" { &["127.0.0.2"] } else { &["127.0.0.2", "127.0.0.3"] };
        assert_eq!(found, expected, "{balancing} of port {port}: {}", pooler.log());
        println!("{balancing}: 8 clients beside a silent host and a dead one in {took:?}");
        // How soon a silent one is left is in the transcript `hosts/silent-is-left-for-the-next.txt`.
        for words in ["connect timeout", "Connection refused"] {
            eventually(words, || pooler.log().contains(words));
            assert_eq!(pooler.log().matches(words).count(), 1, "{words}: {}", pooler.log());
        }
    }
}

/// A host that hangs up as soon as it is connected to, and counts how often it was.
fn dead_host(at: Ipv4Addr, port: u16) -> Arc<AtomicU32> {
    let listener = TcpListener::bind((at, port)).expect("nobody has it");
    let tried = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tried);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            drop(connection);
        }
    });
    tried
}

#[test]
fn a_host_that_has_failed_one_pool_is_not_tried_by_another() {
    let stage = stage();
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let tried = dead_host(Ipv4Addr::new(127, 0, 0, 7), port);
    let hosts = "127.0.0.7,127.0.0.2 load_balance_hosts=disable";
    let mut settings = "workers = 4\nserver_login_retry = 3600\nhost_check_interval = 0\n[databases]\n".to_owned();
    for name in ["second", "third", "fourth"] {
        settings += &format!("{name} = host={hosts} port={port} user=postgres password={password} dbname=postgres\n");
    }
    let pooler = pooler(&stage, hosts, &settings, None);
    for database in ["postgres", "second", "third", "fourth"] {
        assert_eq!(ask(&mut client(&pooler, database), WHERE), "127.0.0.2", "{database}: {}", pooler.log());
        assert_eq!(tried.load(Ordering::SeqCst), 1, "{database}: {}", pooler.log());
    }
    let up = |host| shown(&pooler, "show hosts", host).expect("a host of several")[2].clone();
    assert_eq!((up("127.0.0.7").as_str(), up("127.0.0.2").as_str()), ("0", "1"));
}

#[test]
fn a_certificate_has_to_name_the_host_that_was_connected_to() {
    let (stage, ours) = Stage::encrypted();
    let names = NameServer::start();
    for name in ["a.example", "b.example"] {
        names.tell(name, Says::Addresses(vec![Ipv4Addr::LOCALHOST]));
    }
    let sign = |host: &str, authority: &Authority| {
        authority.sign("server", "postgres", &[host]);
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    };
    let settings = format!("server_tls_sslmode = verify-full\nserver_tls_ca_file = {}\n", ours.path("ca.crt"));
    for named in ["a.example", "b.example"] {
        sign(named, &ours);
        let pooler = pooler(&stage, "a.example,b.example", &settings, Some(&names));
        let mut clients: Vec<Client> = (0..4).map(|_| client(&pooler, "postgres")).collect();
        for client in &mut clients {
            let _ = client.query("begin");
            assert_eq!(ask(client, "select ssl from pg_stat_ssl where pid = pg_backend_pid()"), "t");
        }
        // The other one was tried, and not trusted.
        let words = "certificate not valid for name";
        eventually(words, || pooler.log().contains(words));
    }
}

/// The role and the timeline of a host in SHOW HOSTS.
fn role(pooler: &Pooler, host: &str) -> Option<(String, String)> {
    let row = shown(pooler, "show hosts", host)?;
    Some((row[5].clone(), row[8].clone()))
}

#[test]
fn a_name_with_several_addresses_of_one_server_has_its_role_and_timeline() {
    let (stage, names) = (stage(), NameServer::start());
    let nobody = Ipv4Addr::new(127, 0, 0, 9);
    names.tell("db.example", Says::Addresses(vec![nobody, FIRST, SECOND]));
    let pooler = pooler(&stage, "db.example,127.0.0.1", "", Some(&names));
    eventually("its timeline is known", || role(&pooler, "db.example").is_some_and(|(_, timeline)| timeline == "1"));
    assert_eq!(role(&pooler, "db.example").map(|(role, _)| role).as_deref(), Some("primary"));
}

#[test]
fn a_name_with_addresses_of_two_servers_has_no_role() {
    let ((stage, _standby), names) = (pair(), NameServer::start());
    let addresses = [PRIMARY, STANDBY].map(|address| address.parse().expect("an address"));
    names.tell("db.example", Says::Addresses(addresses.to_vec()));
    let pooler = pooler(&stage, "db.example,127.0.0.1", "", Some(&names));
    let words = "host db.example:";
    eventually(words, || {
        pooler.log().contains(words) && pooler.log().contains("several addresses, which may have different roles")
    });
    assert_eq!(role(&pooler, "db.example").map(|(_, timeline)| timeline).as_deref(), Some(""));
}
