//! The console beside that of a real PgBouncer: the same commands are typed at both, and answered alike, but for what is listed here with
//! its reason. Where there is no PgBouncer, the test says `SKIPPED`.

use std::path::Path;
use std::process::Command;

use outer::{Client, Message, Pooler, Stage, Wishes, eventually, frontend};

/// What a RowDescription says: names and types.
fn columns(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == 0).expect("a name ends");
        let name = String::from_utf8_lossy(&rest[..end]).into_owned();
        let kind = u32::from_be_bytes(rest[end + 7..end + 11].try_into().expect("four bytes"));
        found.push(format!("{name}:{kind}"));
        rest = &rest[end + 19..];
    }
    found
}

/// The shape of an answer: columns, whether there are rows, tag, errors and notices with their codes, the end.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    columns: Vec<String>,
    others: Vec<String>,
}

fn shape(client: &mut Client, command: &str) -> Shape {
    client.send(&frontend::query(command)).expect("connected");
    let mut shape = Shape { columns: Vec::new(), others: Vec::new() };
    loop {
        let Ok(message) = client.receive() else {
            shape.others.push("closed".to_owned());
            return shape;
        };
        let said = |what: &str, message: &Message| {
            format!("{what} {} {} {}", message.field(b'S'), message.field(b'C'), message.field(b'M'))
        };
        match message.tag {
            b'T' => shape.columns = columns(&message.body),
            b'D' => {}
            b'E' => shape.others.push(said("error", &message)),
            b'N' => shape.others.push(said("notice", &message)),
            b'C' => {
                shape.others.push(format!("tag {}", String::from_utf8_lossy(&message.body[..message.body.len() - 1])))
            }
            b'Z' => {
                shape.others.push(format!("ready {}", char::from(message.body[0])));
                return shape;
            }
            other => shape.others.push(format!("message {}", char::from(other))),
        }
    }
}

fn start(stage: &Stage, binary: &Path) -> Pooler {
    start_with(stage, binary, "")
}

/// `more`: lines for `[pgbouncer]`.
fn start_with(stage: &Stage, binary: &Path, more: &str) -> Pooler {
    let cluster = &stage.cluster;
    let ini = format!(
        "[databases]\npostgres = host={} port={} user=postgres password={}\nother = host={0} port={1}\n[users]\nsomebody =\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = trust\n\
         auth_file = {{dir}}/users.txt\nadmin_users = postgres\nstats_users = watcher\npool_mode = transaction\n{more}",
        cluster.host(),
        cluster.port(),
        cluster.password()
    );
    Pooler::start_program(binary, &ini, "\"postgres\" \"\"\n\"watcher\" \"\"\n\"somebody\" \"\"\n", None, &[])
}

const SHOWS: [&str; 23] = [
    "config",
    "databases",
    "pools",
    "clients",
    "servers",
    "users",
    "peers",
    "peer_pools",
    "sockets",
    "active_sockets",
    "version",
    "lists",
    "mem",
    "dns_hosts",
    "dns_zones",
    "state",
    "stats",
    "stats_totals",
    "stats_averages",
    "totals",
    "help",
    "fds",
    "nonsense",
];

/// In this order: some need what those before have left.
const COMMANDS: [&str; 59] = [
    "",
    ";",
    "select 1",
    "show",
    "SHOW VERSION",
    "show version;",
    "  show   version ; ",
    "show version; show state",
    "nonsense",
    "set",
    "set query_timeout",
    "set query_timeout = 5",
    "set query_timeout=6",
    "SET query_timeout TO 7",
    "set query_timeout = '8'",
    "set query_timeout = x",
    "set nonsense = 1",
    "set listen_port = 1",
    "set pool_mode = 'session'",
    "set pool_mode = frob",
    "set server_tls_sslmode = 'frob'",
    "reload",
    "reload x",
    "pause nonsense",
    "pause",
    "pause",
    "resume",
    "resume",
    "pause postgres",
    "pause postgres",
    "resume postgres",
    "resume postgres",
    "resume nonsense",
    "resume other",
    "disable nonsense",
    "disable pgbouncer",
    "disable other",
    "disable other",
    "enable other",
    "enable pgbouncer",
    "enable nonsense",
    "reconnect",
    "reconnect postgres",
    "reconnect nonsense",
    "wait_close",
    "wait_close postgres",
    "wait_close nonsense",
    "kill nonsense",
    "kill pgbouncer",
    "kill other",
    "kill_client",
    "kill_client nonsense",
    "kill_client 0",
    "disable",
    "enable",
    "show clients like 'x'",
    "suspend nonsense",
    "shutdown nonsense",
    "show pools where 1",
];

/// What is answered otherwise, and why.
const OTHERWISE: [(&str, &str); 2] = [
    ("enable pgbouncer", "PgBouncer says that it cannot be disabled, which nobody has asked for"),
    ("show clients like 'x'", "pgweir's own"),
];

#[test]
fn the_console_answers_as_pgbouncers_does() {
    let Some(binary) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    let (theirs, ours) = (start(&stage, &binary), start(&stage, &outer::binary()));
    // A pool for each to show.
    let mut used: Vec<Client> = [&theirs, &ours]
        .map(|pooler| Client::login(pooler.address(), "postgres", "postgres").expect("let in"))
        .into_iter()
        .collect();
    used.iter_mut().for_each(|client| drop(client.query("select 1").expect("served")));
    let console = |pooler: &Pooler| Client::login(pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let (mut at_theirs, mut at_ours) = (console(&theirs), console(&ours));
    let mut wrong = Vec::new();
    let shows = SHOWS.iter().map(|show| format!("show {show}"));
    for command in shows.chain(COMMANDS.iter().map(|command| (*command).to_owned())) {
        let (expected, found) = (shape(&mut at_theirs, &command), shape(&mut at_ours, &command));
        let alike = found.columns == expected.columns && found.others == expected.others;
        let reason = OTHERWISE.iter().find(|(known, _)| *known == command);
        match (alike, reason) {
            (false, None) => wrong.push(format!("{command:?}:\n  PgBouncer {expected:?}\n  ours      {found:?}")),
            (true, Some(_)) => wrong.push(format!("{command:?} is answered alike by now")),
            _ => {}
        }
        // Whoever was closed comes again.
        for (client, pooler, shape) in [(&mut at_theirs, &theirs, &expected), (&mut at_ours, &ours, &found)] {
            if shape.others.last().is_some_and(|last| last == "closed") {
                *client = console(pooler);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn who_may_only_look_and_who_may_not_is_told_as_by_pgbouncer() {
    let Some(binary) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    let poolers = [start(&stage, &binary), start(&stage, &outer::binary())];
    let told = |pooler: &Pooler| {
        let mut watcher = Client::login(pooler.address(), "watcher", "pgbouncer").expect("let in");
        let commands =
            ["show version", "show fds", "pause", "reload", "set query_timeout = 1", "kill_client 1", "shutdown"];
        let mut told: Vec<Vec<String>> = commands.map(|command| shape(&mut watcher, command).others).into();
        let refused =
            Client::login(pooler.address(), "somebody", "pgbouncer").map(|_| ()).expect_err("no administrator");
        told.push(vec![refused.error.map(|error| error.message).unwrap_or_default()]);
        told
    };
    let [mut expected, found] = poolers.each_ref().map(told);
    // PgBouncer lets whoever may look end others' connections (CVE-2026-6667).
    assert_eq!(expected[5][0], "error ERROR 08P01 client not found");
    expected[5][0] = "error ERROR 08P01 admin access needed".to_owned();
    assert_eq!(found, expected);
}

/// The words with which a startup packet is refused, or its parameters.
#[test]
fn startup_packets_are_judged_as_by_pgbouncer() {
    let Some(binary) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    // Where sessions are followed, parameters are PostgreSQL's to judge.
    let poolers = [start_with(&stage, &binary, ""), start_with(&stage, &outer::binary(), "pool_fidelity = classic\n")];
    let packets: [&[(&str, &str)]; 10] = [
        &[("database", "nonsense")],
        &[("database", "postgres"), ("nonsense", "1")],
        &[("database", "postgres"), ("options", "-c nonsense=1")],
        &[("database", "postgres"), ("options", "-cnonsense=1")],
        &[("database", "postgres"), ("options", "--nonsense=1")],
        &[("database", "postgres"), ("options", "nonsense")],
        &[("database", "postgres"), ("options", "-d 1")],
        &[("database", "postgres"), ("options", "-c")],
        &[("database", "postgres"), ("options", "-c datestyle=iso --timezone=UTC -cclient_encoding=UTF8")],
        &[("database", "postgres"), ("options", "-c timezone=a\\ b"), ("application_name", "")],
    ];
    let told = |pooler: &Pooler| {
        packets.map(|packet| {
            let mut client = Client::connect(pooler.address()).expect("it listens");
            let packet: Vec<(&str, &str)> = [("user", "postgres")].iter().chain(packet).copied().collect();
            client.send(&frontend::startup(&packet)).expect("connected");
            client
                .answer()
                .map_or_else(|gone| gone.error.map(|error| error.message).unwrap_or_default(), |_| "let in".to_owned())
        })
    };
    let [expected, found] = poolers.each_ref().map(told);
    assert_eq!(found, expected);
}

/// What ends a client, or is told it: settings, what it does, and what it hears last.
struct Told {
    what: &'static str,
    settings: &'static str,
    does: fn(&Pooler) -> Vec<String>,
}

fn login(pooler: &Pooler, user: &str, database: &str) -> Result<Client, String> {
    let client = Client::login(pooler.address(), user, database);
    client.map_err(|gone| gone.error.map_or_else(|| "closed".to_owned(), |error| error.message))
}

fn client(pooler: &Pooler) -> Client {
    login(pooler, "postgres", "postgres").expect("let in")
}

fn order(pooler: &Pooler, command: &str) {
    let answer = login(pooler, "postgres", "pgbouncer").expect("an administrator").query(command).expect("answered");
    assert!(answer.errors.is_empty(), "{command}: {answer:?}");
}

/// Notices and errors until the connection ends, or the answer does.
fn heard(client: &mut Client, sql: &str) -> Vec<String> {
    client.send(&frontend::query(sql)).expect("connected");
    listen(client)
}

fn listen(client: &mut Client) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let Ok(message) = client.receive() else {
            heard.push("closed".to_owned());
            return heard;
        };
        match message.tag {
            b'E' => heard.push(format!("{} {}", message.field(b'S'), message.field(b'M'))),
            b'N' => heard.push(format!("{} {} {}", message.field(b'S'), message.field(b'C'), message.field(b'M'))),
            b'Z' => return heard,
            _ => {}
        }
    }
}

/// The third one's refusal, where two may come.
fn one_too_many(pooler: &Pooler) -> Vec<String> {
    let _two = [0; 2].map(|_| login(pooler, "somebody", "postgres").expect("there is room"));
    vec![login(pooler, "somebody", "postgres").map(|_| ()).expect_err("there is none")]
}

const TOLD: [Told; 11] = [
    Told { what: "max_client_conn", settings: "max_client_conn = 2", does: one_too_many },
    Told { what: "max_db_client_connections", settings: "max_db_client_connections = 2", does: one_too_many },
    Told { what: "max_user_client_connections", settings: "max_user_client_connections = 2", does: one_too_many },
    Told {
        what: "query_wait_timeout",
        // The holder's own wait for the first server is to be shorter, on any machine.
        settings: "query_wait_timeout = 10\ndefault_pool_size = 1",
        does: |pooler| {
            let mut holder = client(pooler);
            holder.query("begin").expect("served");
            heard(&mut client(pooler), "select 1")
        },
    },
    Told {
        what: "query_timeout",
        settings: "query_timeout = 1",
        does: |pooler| heard(&mut client(pooler), "select pg_sleep(3600)"),
    },
    Told {
        what: "idle_transaction_timeout",
        settings: "idle_transaction_timeout = 1",
        does: |pooler| {
            let mut idle = client(pooler);
            idle.query("begin").expect("served");
            listen(&mut idle)
        },
    },
    Told {
        what: "client_idle_timeout",
        settings: "client_idle_timeout = 1",
        does: |pooler| listen(&mut client(pooler)),
    },
    Told {
        what: "DISABLE",
        settings: "",
        does: |pooler| {
            order(pooler, "disable postgres");
            vec![login(pooler, "postgres", "postgres").map(|_| ()).expect_err("it is disabled")]
        },
    },
    Told {
        what: "KILL",
        settings: "",
        does: |pooler| {
            let mut killed = client(pooler);
            killed.query("select 1").expect("served");
            order(pooler, "kill postgres");
            listen(&mut killed)
        },
    },
    Told {
        what: "BEGIN in statement mode",
        settings: "pool_mode = statement",
        does: |pooler| heard(&mut client(pooler), "begin"),
    },
    Told {
        what: "no such database at the server",
        settings: "[databases]\nabsent = host={host} port={server_port} user=postgres password={password} dbname=absent",
        does: |pooler| vec![login(pooler, "postgres", "absent").map(|_| ()).expect_err("it is not there")],
    },
];

/// PgBouncer has this setting, and its default of 5 s, since 1.25.
fn has_query_wait_notify(pgbouncer: &Path) -> bool {
    let output = Command::new(pgbouncer).arg("--version").output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let version = text.strip_prefix("PgBouncer ").and_then(|rest| rest.lines().next()).expect("its version");
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(1), Some(25))
}

#[test]
fn who_is_ended_or_told_something_hears_the_same_words() {
    let Some(binary) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    let notify = if has_query_wait_notify(&binary) { "" } else { "query_wait_notify = 0" };
    let mut wrong = Vec::new();
    for Told { what, settings, does } in TOLD {
        let (host, port) = (stage.cluster.host(), stage.cluster.port().to_string());
        let settings = settings
            .replace("{host}", host)
            .replace("{server_port}", &port)
            .replace("{password}", stage.cluster.password());
        // What pgweir does better by default has a switch.
        let ours = format!("pool_fidelity = classic\n{notify}\n{settings}\n");
        let poolers =
            [start_with(&stage, &binary, &format!("{settings}\n")), start_with(&stage, &outer::binary(), &ours)];
        let [expected, found] = poolers.each_ref().map(does);
        if expected != found {
            wrong.push(format!("{what}:\n  PgBouncer {expected:?}\n  ours      {found:?}"));
        }
        // The log has it too, where it is the end of a connection.
        let reason = expected.iter().rev().find(|line| *line != "closed").cloned().unwrap_or_default();
        let reason = reason.trim_start_matches("FATAL ");
        let ends = |pooler: &Pooler| pooler.log().contains(&format!("closing because: {reason}"));
        if ends(&poolers[0]) {
            eventually(&format!("{what}: closing because: {reason}"), || ends(&poolers[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
