//! The console as other people's programs read it: drivers with their defaults, psql, and pgbouncer_exporter. Whatever the way, they must read what a simple
//! query shows.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use outer::{Client, Program, Stage, Wishes, eventually};

/// Tables that do not change while nobody works: of one row and of many, with texts, NULLs, int4 and numeric, and without a row.
const COMMANDS: [&str; 8] = [
    "show version",
    "show state",
    "show config",
    "show config like 'server\\_%_timeout'",
    "show databases like 'postgres'",
    "show stats_totals like 'postgres'",
    "show lists like 'd%'",
    "SHOW DNS_HOSTS;",
];

/// Somebody has worked, so that numbers are not all 0.
fn scene() -> Stage {
    let stage = Stage::set(&Wishes { pool: 3, ..Wishes::default() });
    let mut client = stage.client();
    for number in 0..30 {
        client.query(&format!("select {number}")).expect("served");
    }
    drop(client);
    eventually("nobody is there", || lines(&stage, "show databases like 'postgres'")[0].contains("\t0\t0\t0"));
    stage
}

fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("the console: {gone}"))
}

/// Each row of an answer as the programs print it: values between tabs, `\N` for NULL.
fn lines(stage: &Stage, command: &str) -> Vec<String> {
    let answer = console(stage).query(command).unwrap_or_else(|gone| panic!("{command}: {gone}"));
    assert!(answer.errors.is_empty(), "{command}: {answer:?}");
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "\\N".to_owned());
    answer.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join("\t")).collect()
}

/// Runs a program on all commands. It is called with `before` before the URL, and must have so many ways to ask.
fn read_by(program: &Program, before: &[&str], ways: usize) {
    let mut stage = scene();
    let mut command = program.command();
    let output =
        command.args(before).arg(stage.url_of("pgbouncer")).args(COMMANDS).output().expect("it can be started");
    let [said, complaints] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}\n{complaints}\n{said}", output.status);
    let mut read: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in said.lines() {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        let (way, command) = (parts.next().expect("a way"), parts.next().expect("a command"));
        read.entry((way, command)).or_default().push(parts.next().expect("values"));
    }
    let mut seen: Vec<&String> = read.keys().map(|(way, _)| way).collect();
    seen.dedup();
    assert_eq!(seen.len(), ways, "{seen:?}");
    for way in seen {
        for command in COMMANDS {
            let expected = lines(&stage, command);
            let found = read.get(&(way.clone(), command.to_owned())).cloned().unwrap_or_default();
            // Some ways ask more than once.
            let times = found.len().checked_div(expected.len()).unwrap_or(0).max(1);
            assert_eq!(found, vec![expected; times].concat(), "{command} by {way}");
        }
    }
    stage.assert_healthy();
}

#[test]
fn psycopg_and_asyncpg() {
    read_by(&Program::python("console.py"), &[], 9);
}

#[test]
fn pgjdbc() {
    let Some(program) = Program::built_by("pgjdbc") else { return };
    read_by(&program, &["console"], 4);
}

#[test]
fn pgadmin_as_its_statements_are() {
    read_by(&Program::python("pgadmin.py"), &[], 2);
}

#[test]
fn dbeaver_as_its_statements_are() {
    let Some(program) = Program::built_by("pgjdbc") else { return };
    read_by(&program, &["dbeaver"], 2);
}

#[test]
fn pgx() {
    let Some(program) = Program::built_by("pgx") else { return };
    read_by(&program, &["console"], 5);
}

#[test]
fn node_postgres() {
    let Some(program) = Program::built_by("node-postgres") else { return };
    read_by(&program, &["console"], 3);
}

#[test]
fn psql() {
    let stage = scene();
    let url = stage.url_of("pgbouncer");
    let (said, complaints) = outer::psql(
        &stage,
        &[
            "-d",
            &url,
            "-At",
            "-c",
            "show state",
            "-c",
            "begin",
            "-c",
            "show lists like 'data%'",
            "-c",
            "commit",
            "-c",
            "show help",
        ],
    )
    .expect("it reads all of it");
    let expected = [
        &lines(&stage, "show state")[..],
        &["BEGIN".into()],
        &lines(&stage, "show lists like 'data%'"),
        &["COMMIT".into()],
    ];
    let expected: Vec<String> = expected.concat().iter().map(|line| line.replace('\t', "|")).collect();
    assert!(said.lines().take(expected.len()).eq(expected.iter()), "{said}");
    assert!(complaints.contains("Console usage"), "{complaints}");
}

/// The exporter, ended with the test.
struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of what is at an address; empty if nobody listens there yet.
fn get(address: SocketAddr) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("not zero");
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Values by series, as `name{label="value",…}` with the labels in their order. No label has a comma in it.
fn series(metrics: &str) -> BTreeMap<String, f64> {
    let ordered = |series: &str| match series.strip_suffix('}').and_then(|series| series.split_once('{')) {
        Some((name, labels)) => {
            let mut labels: Vec<&str> = labels.split(',').collect();
            labels.sort_unstable();
            format!("{name}{{{}}}", labels.join(","))
        }
        None => series.to_owned(),
    };
    let lines = metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    lines.map(|(series, value)| (ordered(series), value.parse().expect("a number"))).collect()
}

impl Exporter {
    fn start(program: &Program, stage: &Stage) -> Exporter {
        let address: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
        let mut command = program.command();
        command.arg(format!("--web.listen-address={address}"));
        command.arg(format!("--pgBouncer.connectionString={}?sslmode=disable", stage.url_of("pgbouncer")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Exporter { child: command.spawn().expect("it can be started"), address }
    }
}

/// The value in a column of the first row that begins so.
fn shown(console: &mut Client, command: &str, row: &str, column: &str) -> f64 {
    let answer = console.query(command).expect("shown");
    let at = answer.names.iter().position(|name| name == column);
    let at = at.unwrap_or_else(|| panic!("{command}: no {column}"));
    let found = answer.rows.iter().find(|found| found[0].as_deref() == Some(row));
    let found = found.unwrap_or_else(|| panic!("{command}: no {row}"));
    found[at].as_deref().and_then(|value| value.parse().ok()).expect("a number")
}

/// What the exporter calls a value, what it has to be, and where SHOW has it.
const EXPORTED: [(&str, f64, [&str; 3]); 10] = [
    ("pgbouncer_pools_client_active_connections{POOL}", 5.0, ["show pools", "postgres", "cl_active"]),
    ("pgbouncer_pools_server_active_connections{POOL}", 2.0, ["show pools", "postgres", "sv_active"]),
    ("pgbouncer_pools_server_idle_connections{POOL}", 1.0, ["show pools", "postgres", "sv_idle"]),
    ("pgbouncer_stats_totals_queries_pooled_total{TOTAL}", 3.0, ["show stats_totals", "postgres", "query_count"]),
    (
        "pgbouncer_stats_totals_sql_transactions_pooled_total{TOTAL}",
        1.0,
        ["show stats_totals", "postgres", "xact_count"],
    ),
    ("pgbouncer_databases", 2.0, ["show lists", "databases", "items"]),
    ("pgbouncer_pools", 2.0, ["show lists", "pools", "items"]),
    ("pgbouncer_used_servers", 3.0, ["show lists", "used_servers", "items"]),
    // Five, and who asks.
    ("pgbouncer_used_clients", 6.0, ["show lists", "used_clients", "items"]),
    ("pgbouncer_config_max_user_connections", 77.0, ["show config", "max_user_connections", "value"]),
];

#[test]
fn pgbouncer_exporter() {
    let Some(program) = Program::built_by("exporter") else { return };
    let settings = vec![("max_user_connections", "77".to_owned())];
    let mut stage = Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() });
    let mut clients: Vec<Client> = (0..5).map(|_| stage.client()).collect();
    for client in &mut clients[..2] {
        client.query("begin").expect("served");
    }
    clients[2].query("select 1").expect("served");
    let exporter = Exporter::start(&program, &stage);
    // A scrape is a connection to the console, which may not have been closed yet when the next one comes.
    let mut exported = BTreeMap::new();
    eventually("it exports what there is", || {
        exported = series(&get(exporter.address));
        exported.get("pgbouncer_up") == Some(&1.0) && exported.get("pgbouncer_used_clients") == Some(&6.0)
    });
    let mut console = console(&stage);
    eventually("its connection is closed", || shown(&mut console, "show lists", "used_clients", "items") <= 6.0);
    for (name, known, [command, row, column]) in EXPORTED {
        let name = name.replace("POOL", "database=\"postgres\",user=\"postgres\"");
        let name = name.replace("TOTAL", "database=\"postgres\"");
        let found = exported.get(&name).unwrap_or_else(|| panic!("no {name} in {exported:?}"));
        assert_eq!(*found, known, "{name}");
        assert_eq!(shown(&mut console, command, row, column), known, "{command}: {column}");
    }
    let all = |name: &str, label: &str| {
        let is_it = |key: &&String| key.starts_with(&format!("{name}{{")) && key.contains(label);
        exported.keys().filter(is_it).filter(|key| key.contains("=\"postgres\"")).map(|key| exported[key]).sum::<f64>()
    };
    assert_eq!(all("pgbouncer_databases_pool_size", "name=\"postgres\""), 3.0, "{exported:?}");
    assert_eq!(all("pgbouncer_client_connections", "state=\"active\""), 2.0 + 1.0, "{exported:?}");
    assert_eq!(all("pgbouncer_client_connections", "state=\"idle\""), 3.0, "{exported:?}");

    drop(clients);
    stage.assert_healthy();
}

/// The columns of SHOW CLIENTS and SERVERS, as a table of PostgreSQL would declare them.
const SOCKET: &str = "type text, \"user\" text, database text, replication text, state text, addr text, port int, local_addr text, local_port int, \
    connect_time timestamptz, request_time timestamptz, wait int, wait_us int, close_needed int, ptr text, link text, remote_pid int, tls text, \
    application_name text, prepared_statements int, id int";
const BUFFERS: &str =
    "recv_pos int, pkt_pos int, pkt_remain int, send_pos int, send_remain int, pkt_avail int, send_avail int";
/// The names of SHOW STATS behind `total_` and `avg_`.
const COUNTED: [(&str, &str); 11] = [
    ("server_assignment_count", "server_assignment_count"),
    ("xact_count", "xact_count"),
    ("query_count", "query_count"),
    ("received", "recv"),
    ("sent", "sent"),
    ("xact_time", "xact_time"),
    ("query_time", "query_time"),
    ("wait_time", "wait_time"),
    ("client_parse_count", "client_parse_count"),
    ("server_parse_count", "server_parse_count"),
    ("bind_count", "bind_count"),
];

/// The tables that pgbouncer_fdw reads, by dblink, each with the columns that it declares for PgBouncer 1.25. A column more or less, or a value that
/// its type does not take, is an error there.
#[test]
fn dblink_reads_tables_whose_columns_are_declared() {
    let stage = scene();
    let totals = COUNTED.iter().map(|(name, _)| format!("total_{name} bigint"));
    let averages = COUNTED.iter().map(|(_, name)| format!("avg_{name} bigint"));
    let stats = totals.chain(averages).collect::<Vec<_>>().join(", ");
    let declared = [
        ("version", "version text".to_owned()),
        ("clients", SOCKET.to_owned()),
        ("servers", SOCKET.to_owned()),
        ("sockets", format!("{SOCKET}, {BUFFERS}")),
        (
            "databases",
            "name text, host text, port int, database text, force_user text, pool_size int, min_pool_size int, reserve_pool_size int, \
             server_lifetime int, pool_mode text, load_balance_hosts text, max_connections int, current_connections int, \
             max_client_connections int, current_client_connections int, paused int, disabled int"
                .to_owned(),
        ),
        (
            "pools",
            "database text, \"user\" text, cl_active int, cl_waiting int, cl_active_cancel_req int, cl_waiting_cancel_req int, sv_active int, \
             sv_active_cancel int, sv_being_canceled int, sv_idle int, sv_used int, sv_tested int, sv_login int, maxwait int, maxwait_us int, \
             pool_mode text, load_balance_hosts text"
                .to_owned(),
        ),
        (
            "users",
            "name text, pool_size text, reserve_pool_size text, pool_mode text, max_user_connections int, current_connections int, \
             max_user_client_connections int, current_client_connections int"
                .to_owned(),
        ),
        ("lists", "list text, items int".to_owned()),
        ("config", "key text, value text, \"default\" text, changeable boolean".to_owned()),
        ("stats", format!("database text, {stats}")),
        ("dns_hosts", "hostname text, ttl bigint, addrs text".to_owned()),
        ("dns_zones", "zonename text, serial text, count int".to_owned()),
    ];
    drop(stage.direct("create extension dblink"));
    let target = format!(
        "host=127.0.0.1 port={} dbname=pgbouncer user=postgres password={}",
        stage.pooler.port,
        stage.cluster.password()
    );
    for (table, columns) in declared {
        let sql = format!("select count(*) from dblink('{target}', 'show {table}') as shown ({columns})");
        let rows: u64 = stage.direct(&sql).parse().expect("a number");
        assert_eq!(rows > 0, !table.starts_with("dns_"), "{table}: {rows} rows");
    }
}
