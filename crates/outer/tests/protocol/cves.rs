//! What has been found in other poolers and in drivers, and is not so here: a test each, named after the CVE. docs/cves.md lists all,
//! those in other files too.

use outer::{Authority, Client, Pooler, Stage, Wishes, eventually, frontend};

/// Every command that PgBouncer's console has, and some that are none.
const COMMANDS: [&str; 22] = [
    "KILL_CLIENT 1",
    "kill_client 1",
    "KILL_CLIENT",
    "KILL postgres",
    "KILL",
    "SHUTDOWN",
    "SHUTDOWN WAIT_FOR_SERVERS",
    "SHUTDOWN WAIT_FOR_CLIENTS",
    "RELOAD",
    " reload ; ",
    "PAUSE",
    "PAUSE postgres",
    "RESUME",
    "SUSPEND",
    "DISABLE postgres",
    "ENABLE postgres",
    "RECONNECT",
    "WAIT_CLOSE",
    "SET pool_mode = 'session'",
    "SET verbose=5",
    "DROP DATABASE postgres",
    "select 1",
];

/// KILL_CLIENT could be run by users who may only look. Here nothing but SHOW can be.
#[test]
fn cve_2026_6667_users_who_may_look_can_change_nothing() {
    let settings = vec![("stats_users", "postgres".to_owned()), ("admin_users", "another".to_owned())];
    let stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let mut served = stage.client();
    let log_in = |user: &str| Client::login(stage.pooler.address(), user, "pgbouncer");
    let mut watcher = log_in("postgres").unwrap_or_else(|gone| panic!("{gone}"));
    for command in COMMANDS {
        let answer = watcher.query(command).expect("it is told and stays");
        let [error] = answer.errors.as_slice() else { panic!("{command}: {answer:?}") };
        let is_none = ["DROP", "select"].iter().any(|none| command.starts_with(none));
        // Of the others, only what the parser takes for a command is known to need more rights.
        let words = if is_none { "invalid command" } else { "admin access needed" };
        let is_said = error.message.starts_with(words) || error.message.starts_with("invalid command");
        assert!(is_said && error.sqlstate.len() == 5, "{command}: {error:?}");
        assert_eq!(served.query("select 'still here'").expect("nobody was ended").value(), Some("still here"));
    }
    let mut refused = 0;
    let (_, help) = outer::psql(&stage, &["-d", &stage.url_of("pgbouncer"), "-c", "show help"]).expect("it helps");
    for usage in help.lines() {
        let command = usage.trim().trim_start_matches("DETAIL:").trim();
        if command.is_empty() || command.starts_with("SHOW") || command.starts_with("NOTICE") {
            continue;
        }
        let answer = watcher.query(command).expect("it is told and stays");
        assert!(!answer.errors.is_empty(), "{command}: {answer:?}");
        refused += 1;
    }
    assert!(refused > 8, "SHOW HELP lists only {refused} commands: {help}");
    assert!(watcher.query("show pools").expect("it may look").errors.is_empty());
    assert_eq!(
        log_in("nobody").map(|_| ()).expect_err("not let in").error.map(|error| error.message).as_deref(),
        Some("role \"nobody\" does not exist")
    );
    // The log is in order: once the last login is in it, everything before is.
    eventually("the last one is in the log", || stage.pooler.log().contains("nobody"));
    assert!(!stage.pooler.log().contains("RELOAD"), "nothing was reloaded: {}", stage.pooler.log());
    assert_eq!(served.query("select 'still here'").expect("nobody was ended").value(), Some("still here"));
}

/// A long name of a database ended the whole process.
#[test]
fn cve_2012_4575_names_of_any_length_and_kind() {
    let settings = vec![("log_connections", "0".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, any_database: true, ..Wishes::default() });
    let mut bystander = stage.client();
    let long = |len: usize| vec![b'd'; len];
    let mut names: Vec<Vec<u8>> = [1, 62, 63, 64, 65, 127, 128, 255, 256, 1023, 4096, 8191, 9_900].map(long).to_vec();
    names.extend([10_000, 20_000, 65_535].map(long));
    for name in
        ["*", "..", "/", "%s%n", "\"", "'", "\u{1}", "\u{7f}", "a b", "=", ";--", "pgbouncer ", "$1", "\u{202e}"]
    {
        names.push(name.as_bytes().to_vec());
    }
    names.extend([b"\xff".to_vec(), b"\xc3".to_vec(), b"\xed\xa0\x80".to_vec(), b"a\nb\rc".to_vec(), Vec::new()]);
    let mut told = 0;
    for name in &names {
        for field in ["database", "user", "application_name", "options"] {
            let mut body = [&196_608_u32.to_be_bytes()[..], field.as_bytes(), b"\0", name, b"\0"].concat();
            if field != "user" {
                body.extend_from_slice(b"user\0postgres\0");
            }
            body.push(0);
            let mut client = Client::connect(stage.pooler.address()).expect("it listens");
            let _ = client.send(&frontend::untagged(&body));
            let _ = client.send(&frontend::query("select 1"));
            client.stop_sending();
            if let Some(error) = client.last_words() {
                assert!(error.sqlstate.len() == 5 && error.message.len() < 1000, "{field}: {error:?}");
                told += 1;
            }
            assert_eq!(bystander.query("select 'calm'").expect("nobody else notices").value(), Some("calm"));
        }
    }
    println!("{} names in 4 places: {told} clients were told an error", names.len());
    assert!(told > names.len(), "most are refused");
    let log = stage.pooler.log();
    assert!(!log.contains(" panic in ") && log.lines().all(|line| line.len() < 2000), "{log}");
    stage.assert_healthy();
}

/// Whether each password is right does not depend on servers that are there already.
#[test]
fn cve_2025_46801_a_warm_pool_lets_nobody_in() {
    let (stage, ours) = Stage::encrypted();
    let _ = stage.direct("create role asker login superuser password 'asks'; create role bob login password 'of bob'");
    for user in ["ann", "bob", "nobody"] {
        ours.sign(user, user, &[]);
    }
    for auth_type in ["plain", "md5", "scram-sha-256", "cert", "lookup"] {
        let pooler = warm(&stage, &ours, auth_type);
        let log_in = |user: &str, password: &str| {
            let shown = if password == "right" { user } else { "bob" };
            let certificate = ours.path(&format!("{shown}.crt"));
            let key = ours.path(&format!("{shown}.key"));
            let target = format!(
                "host=localhost port={} user={user} password='{password}' dbname=postgres sslmode=require sslcert={certificate} sslkey={key}",
                pooler.port
            );
            outer::psql(&stage, &["-d", &target, "-Atc", "select current_user"]).map(|(out, _)| out.trim().to_owned())
        };
        for round in 0..3 {
            assert_eq!(log_in("ann", "right"), Ok("ann".to_owned()), "{auth_type}, round {round}");
            for (user, password) in [("ann", "wrong"), ("ann", ""), ("ann", "of bob"), ("nobody", "right")] {
                let told = log_in(user, password).expect_err("it is wrong");
                assert!(
                    told.contains("FATAL") || told.contains("fe_sendauth"),
                    "{auth_type} {user} {password:?}: {told}"
                );
            }
        }
    }
}

/// A pooler in which ann logs in, or whoever `auth_query` knows, and servers are opened as ann.
fn warm(stage: &Stage, ours: &Authority, auth_type: &str) -> Pooler {
    let (login, user) = match auth_type {
        "lookup" => ("scram-sha-256", "auth_user = asker\n"),
        other => (other, ""),
    };
    let ini = format!(
        "[databases]\npostgres = host=127.0.0.1 port={} user=ann password=right\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {{port}}\nunix_socket_dir =\nauth_type = {login}\n{user}auth_file = {{dir}}/users.txt\npool_mode = transaction\n\
         min_pool_size = 2\nclient_tls_sslmode = {}\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\nclient_tls_ca_file = {}\n",
        stage.cluster.port(),
        if auth_type == "cert" { "verify-full" } else { "require" },
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
        ours.path("ca.crt"),
    );
    let users = if auth_type == "lookup" { "\"asker\" \"asks\"\n" } else { "\"ann\" \"right\"\n" };
    Pooler::start(&ini, users, None)
}

/// A cache of results was served across users. Here nothing but statements is kept, and these run with their own user's rights.
#[test]
fn cve_2024_45624_what_one_user_has_prepared_gives_another_nothing() {
    let stage = Stage::set(&Wishes::default());
    let _ = stage.direct(
        "create role ann login password 'right'; create role bob login password 'right';
         create table secrets (who text, what text); insert into secrets values ('ann', 'of ann'), ('bob', 'of bob');
         alter table secrets enable row level security; create policy own on secrets using (who = current_user);
         grant select on secrets to ann, bob; create table anns (what text); insert into anns values ('of ann alone');
         alter table anns owner to ann",
    );
    let ini = format!(
        "[databases]\nown = host=127.0.0.1 port={0} dbname=postgres\nforced = host=127.0.0.1 port={0} dbname=postgres user=postgres \
         password={1}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {{dir}}/users.txt\npool_mode = transaction\ndefault_pool_size = 1\n",
        stage.cluster.port(),
        stage.cluster.password()
    );
    let pooler = Pooler::start(&ini, "\"ann\" \"right\"\n\"bob\" \"right\"\n", None);
    let client = |user: &str, database: &str| {
        Client::login(pooler.address(), user, database).unwrap_or_else(|gone| panic!("{user}: {gone}"))
    };
    let (mut ann, mut bob) = (client("ann", "own"), client("bob", "own"));
    for _ in 0..3 {
        for (client, whose) in [(&mut ann, "of ann"), (&mut bob, "of bob")] {
            let answer = client.extended("s", "select what from secrets", &[]).expect("served");
            assert_eq!(answer.lines(), [whose], "{answer:?}");
            client.send(&[frontend::close_statement("s"), frontend::sync()].concat()).expect("connected");
            client.answer().expect("closed");
        }
        let answer = ann.extended("t", "select what from anns", &[]).expect("served");
        assert_eq!(answer.value(), Some("of ann alone"), "{answer:?}");
        let answer = bob.extended("t", "select what from anns", &[]).expect("served");
        assert_eq!(answer.errors.first().map(|error| &*error.sqlstate), Some("42501"), "{answer:?}");
        for client in [&mut ann, &mut bob] {
            client.send(&[frontend::close_statement("t"), frontend::sync()].concat()).expect("connected");
            client.answer().expect("closed");
        }
    }
    // And by roles on one server.
    let (mut ann, mut bob) = (client("ann", "forced"), client("bob", "forced"));
    for (client, role) in [(&mut ann, "ann"), (&mut bob, "bob")] {
        assert!(client.query(&format!("set role {role}")).expect("served").errors.is_empty());
    }
    for _ in 0..3 {
        for (client, whose) in [(&mut ann, "of ann"), (&mut bob, "of bob")] {
            let answer = client.extended("", "select what from secrets", &[]).expect("served");
            assert_eq!(answer.lines(), [whose], "{answer:?}");
        }
    }
}

/// A length that wraps around makes the receiver take a message's inside for messages.
#[test]
fn cve_2024_27304_the_inside_of_a_message_is_never_a_message() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage.direct("create table smuggled (what text)");
    let hidden = frontend::query("insert into smuggled values ('here')");
    let whole = |tag: u8, length: u32, start: &[u8]| [&[tag][..], &length.to_be_bytes(), start, &hidden].concat();
    let mut count = 0;
    for (tag, start) in [
        (b'Q', &b"select 1\0"[..]),
        (b'P', &b"s\0select 1\0\0\0"[..]),
        (b'B', &b"\0s\0\0\0\0\0\0\0"[..]),
        (b'd', &b"data"[..]),
        (b'F', &b"\0\0\0\0"[..]),
    ] {
        // What wraps to the length of its start, in 32 bits and in 31; what is as long as PostgreSQL takes, and more.
        let len = u32::try_from(start.len()).expect("it is short") + 4;
        for length in [0x8000_0000 | len, 0x7fff_ffff, 0xffff_ffff, 0x4000_0000, 0x3fff_ffff, len + 0x0100_0000] {
            let mut client = stage.client();
            let _ = client.send(&whole(tag, length, start));
            client.stop_sending();
            let _ = client.last_words();
            count += 1;
        }
    }
    // Inside a message that is whole.
    let mut client = stage.client();
    let text = [&b"select '"[..], &hidden, b"'\0"].concat();
    client.send(&frontend::frame(b'Q', &text)).expect("connected");
    let answer = client.answer();
    assert!(answer.is_err() || answer.is_ok_and(|answer| !answer.errors.is_empty()), "a zero ends the text");
    eventually("everything has come to its end", || {
        stage.direct("select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and backend_type = 'client backend'") == "0"
    });
    assert_eq!(stage.direct("select count(*) from smuggled"), "0", "{count} lengths");
    stage.assert_healthy();
}
