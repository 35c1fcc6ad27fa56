//! A database none of whose hosts may be written to, as `pgweir top` and the live page show it; and a pooler whose databases have one host, where nothing
//! is said of hosts.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;

use demo::{Cluster, Shutdown};
use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Client, Pooler, Stage, binary, eventually, page};

const PASSWORD: &str = "secret";

struct Scene {
    stage: Stage,
    standby: Cluster,
    pooler: Pooler,
    http: SocketAddr,
}

/// A pooler in front of a primary and its standby.
fn scene(more: &str) -> Scene {
    let (stage, standby) = pair();
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let ini = format!(
        "[databases]\nshop = host={PRIMARY},{STANDBY} port={port} user=postgres password={password} dbname=postgres \
         target_session_attrs=primary\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = {{dir}}/users.txt\npool_mode = transaction\nadmin_users = dba\n\
         http_listen = {http}\nhttp_page = 1\n{more}"
    );
    let pooler = Pooler::start_with(&ini, &[("users.txt", format!("\"dba\" \"{PASSWORD}\"\n\"app\" \"x\"\n"))]);
    Scene { stage, standby, pooler, http }
}

impl Scene {
    fn client(&self) -> Client {
        Client::login(self.pooler.address(), "app", "shop")
            .unwrap_or_else(|gone| panic!("{gone}: {}", self.pooler.log()))
    }

    /// The screen of `pgweir top`, in one line.
    fn top(&self, arguments: &[&str]) -> String {
        let url = format!("postgres://dba:{PASSWORD}@127.0.0.1:{}/pgbouncer", self.pooler.port);
        let output = Command::new(binary()).args(["top", &url, "--once"]).args(arguments).stdin(Stdio::null()).output();
        let text = String::from_utf8(output.expect("the program starts").stdout).expect("text");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The rows of a table of the page: the values of these columns.
    fn rows(&self, session: &str, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
        let answer = page::api(self.http, session, &format!("show/{table}"));
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{}", answer.body));
        let names = json["columns"].as_array().expect("columns");
        let at = |name: &&str| names.iter().position(|column| column["name"] == **name).expect("a column");
        let rows = json["rows"].as_array().expect("rows");
        rows.iter().map(|row| columns.iter().map(|name| row[at(name)].as_str().map(str::to_owned)).collect()).collect()
    }

    fn reasons(&self, session: &str) -> Vec<Option<String>> {
        self.rows(session, "WHY", &["reason"]).into_iter().flatten().collect()
    }

    /// The standby has the table t.
    fn wait_for_table(&self) {
        eventually("the standby has it", || {
            self.standby.psql("postgres", "select to_regclass('t')").is_ok_and(|name| name == "t")
        });
    }

    /// The page in a browser, where there is one: it shows hosts, and these words in front.
    fn browse(&self, words: &str) {
        let Some(chromium) = std::env::var("PGWEIR_CHROMIUM").ok().filter(|path| !path.is_empty()) else {
            return println!("SKIPPED hosts in a browser: tools/chromium installs one, PGWEIR_CHROMIUM names it");
        };
        let folder = std::env::var("PGWEIR_PICTURES").unwrap_or_else(|_| self.pooler.dir().display().to_string());
        fs::create_dir_all(&folder).expect("a folder");
        let url = format!("http://{}", self.http);
        let arguments = [&*chromium, &url, "dba", PASSWORD, "-", &folder, "held", words];
        println!("{}", outer::python("page.py", &arguments).unwrap_or_else(|wrote| panic!("{wrote}")));
    }
}

#[test]
fn clients_that_wait_for_a_primary_are_said_with_their_hosts_until_there_is_one() {
    let mut scene = scene("observe_interval = 1\n");
    let session = page::session(scene.http, "dba", PASSWORD);
    let mut client = scene.client();
    assert_eq!(client.query("create table t (i int)").expect("served").errors, []);
    scene.wait_for_table();
    let hosts = ["host", "role", "up", "epoch", "timeline", "databases", "why"];
    let row = |values: [&str; 7]| values.map(|value| (!value.is_empty()).then(|| value.to_owned())).to_vec();
    let primary = |host, epoch, timeline| row([host, "primary", "1", epoch, timeline, "shop", "the primary"]);
    let both = [primary(PRIMARY, "1", "1"), row([STANDBY, "standby", "1", "", "1", "shop", "a standby"])];
    eventually("both are known", || scene.rows(&session, "HOSTS", &hosts) == both);
    assert!(!scene.reasons(&session).contains(&Some("no primary".to_owned())));
    let calm = format!("Hosts: {PRIMARY}:{} the primary, epoch 1, timeline 1;", scene.stage.cluster.port());
    eventually("top has them", || scene.top(&[]).contains(&calm));

    scene.stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    let waiting = thread::spawn(move || client.query("insert into t values (1)").map(|answer| (client, answer)));
    let words = "shop: no host accepts writes, for";
    eventually("top says it first", || {
        let text = scene.top(&[]);
        text.contains(&format!("Why: {words}")) && text.contains("1 client waits, until failover_wait is over.")
    });
    eventually("the page says it", || scene.reasons(&session).first() == Some(&Some("no primary".to_owned())));
    let table = scene.top(&["--view", "pools", "--table", "hosts"]);
    assert!(table.contains("a standby") && table.contains(STANDBY), "{table}");
    scene.browse(words);

    assert_eq!(scene.standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    let (_client, answer) = waiting.join().expect("no panic").unwrap_or_else(|gone| panic!("{gone}"));
    assert_eq!(answer.errors, []);
    eventually("it is over", || scene.reasons(&session).first() != Some(&Some("no primary".to_owned())));
    eventually("the new one is known", || scene.rows(&session, "HOSTS", &hosts)[1] == primary(STANDBY, "2", "2"));
}

#[test]
fn two_hosts_that_accept_writes_are_said_at_once_though_nobody_waits() {
    let scene = scene("observe_interval = 0\n");
    let session = page::session(scene.http, "dba", PASSWORD);
    let mut client = scene.client();
    assert_eq!(client.query("create table t (i int)").expect("served").errors, []);
    assert_eq!(scene.standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    let port = scene.stage.cluster.port();
    let words = format!("({PRIMARY}:{port}, {STANDBY}:{port}), and split_brain is hold. No client waits for that yet.");
    eventually("top says it first", || {
        let text = scene.top(&[]);
        text.contains("Why: shop: two hosts accept writes, for") && text.contains(&words)
    });
    assert_eq!(scene.reasons(&session), [Some("two primaries".to_owned())]);
    scene.browse("shop: two hosts accept writes");
}

#[test]
fn who_waits_for_the_end_of_a_dispute_is_not_said_to_wait_for_a_transaction_that_is_open() {
    let scene = scene("observe_interval = 1\n");
    let session = page::session(scene.http, "dba", PASSWORD);
    let [mut open, mut waiting] = [(); 2].map(|()| scene.client());
    for sql in ["create table t (i int)", "begin", "insert into t values (1)"] {
        assert_eq!(open.query(sql).expect("served").errors, []);
    }
    scene.wait_for_table();
    assert_eq!(scene.standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    eventually("nobody writes", || scene.pooler.log().contains("two primaries: clients wait"));
    let waiter = thread::spawn(move || waiting.query("insert into t values (2)").map(|answer| answer.errors));
    let words = "why: 1 client of shop/postgres waits, because no host can be used (two hosts accept writes).";
    eventually("the log says why", || scene.pooler.log().contains(words));
    assert_eq!(scene.reasons(&session), [Some("two primaries".to_owned())]);
    let mut console = Client::login(scene.pooler.address(), "dba", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let promoted = console.query(&format!("PROMOTED {STANDBY}")).expect("the console answers");
    assert_eq!(promoted.errors, []);
    assert_eq!(waiter.join().expect("no panic").unwrap_or_else(|gone| panic!("{gone}")), []);
}

#[test]
fn where_each_database_has_one_host_nothing_is_said_of_hosts() {
    let stage = Stage::set(&outer::Wishes::default());
    let mut client = stage.client();
    assert_eq!(client.query("select 1").expect("served").errors, []);
    let once = |arguments: &[&str]| {
        let output =
            Command::new(binary()).args(["top", &stage.url_of("pgbouncer"), "--once"]).args(arguments).output();
        String::from_utf8(output.expect("the program starts").stdout).expect("text")
    };
    let text = once(&[]);
    assert!(text.contains("clients:") && !text.contains("Hosts:") && !text.contains("accepts writes"), "{text}");
    assert_eq!(once(&["--view", "pools", "--table", "hosts"]).lines().count(), 1, "only names of columns");
}
