//! TLS on both sides of the program: psql with each sslmode before it, PostgreSQL with each server_tls_sslmode behind it, files
//! that change meanwhile.

use std::fs;
use std::time::{Duration, Instant};

use outer::{Authority, Pooler, Stage};

/// How long files that have changed may take to count.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pooler with these settings besides.
fn pooler(stage: &Stage, host: &str, more: &str) -> Pooler {
    let ini = format!(
        "[databases]\n* = host={host} port={} dbname=postgres user=ann password=right\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = scram-sha-256\nauth_file = {{dir}}/users.txt\n\
         pool_mode = transaction\nadmin_users = ann\n{more}\n",
        stage.cluster.port()
    );
    Pooler::start(&ini, "\"ann\" \"right\"\n", None)
}

/// What psql prints, or the last words of why it prints nothing.
fn ask(stage: &Stage, target: &str, sql: &str) -> Result<String, String> {
    let printed = outer::psql(stage, &["-d", target, "-Atc", sql]);
    printed.map(|(out, _)| out.trim().to_owned()).map_err(|why| why.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn psql_gets_in_with_each_sslmode_as_it_does_at_postgresql() {
    let (stage, ours) = Stage::encrypted();
    let files = format!(
        "client_tls_cert_file = {}\nclient_tls_key_file = {}\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    );
    let with = pooler(&stage, "localhost", &format!("client_tls_sslmode = allow\n{files}"));
    let must = pooler(&stage, "localhost", &format!("client_tls_sslmode = require\n{files}"));
    let without = pooler(&stage, "localhost", "client_tls_sslmode = disable\n");
    let ca = ours.path("ca.crt");
    // Whether psql gets in where TLS can be had, where it must be, where there is none.
    let table = [
        ("disable", [true, false, true]),
        ("allow", [true, true, true]),
        ("prefer", [true, true, true]),
        ("require", [true, true, false]),
        ("verify-ca", [true, true, false]),
        ("verify-full", [true, true, false]),
    ];
    for (mode, expected) in table {
        let found = [&with, &must, &without].map(|pooler| {
            let root = if mode.starts_with("verify") { format!(" sslrootcert={ca}") } else { String::new() };
            let target = format!(
                "host=127.0.0.1 port={} user=ann password=right dbname=postgres sslmode={mode}{root}",
                pooler.port
            );
            ask(&stage, &target, "select 1").is_ok()
        });
        assert_eq!(found, expected, "sslmode={mode}");
    }
    let target = |dbname: &str| {
        format!(
            "host=localhost port={} user=ann password=right dbname={dbname} sslmode=verify-full sslrootcert={ca}",
            must.port
        )
    };
    let shown = ask(&stage, &target("pgbouncer"), "show clients").expect("ann is an admin");
    assert!(shown.contains("|TLSv1.3/TLS_AES_256_GCM_SHA384/"), "{shown}");
    let large = ask(
        &stage,
        &target("postgres"),
        "select md5(string_agg(repeat('x', 1000) || n, '')) from generate_series(1, 20000) n",
    );
    assert_eq!(
        large,
        ask(
            &stage,
            &stage.cluster.url("postgres"),
            "select md5(string_agg(repeat('x', 1000) || n, '')) from generate_series(1, 20000) n"
        )
    );
    let rows = ask(&stage, &target("postgres"), "select repeat('y', 100000) || n from generate_series(1, 300) n")
        .expect("30 MB");
    assert_eq!(rows.lines().count(), 300);
    assert!(rows.lines().enumerate().all(|(at, row)| row.ends_with(&format!("y{}", at + 1))));
}

#[test]
fn postgresql_is_reached_and_checked_as_server_tls_sslmode_says() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    let outcome = |host: &str, mode: &str, ca: Option<&Authority>, words: &str| {
        let ca = ca.map(|ca| format!("server_tls_ca_file = {}\n", ca.path("ca.crt"))).unwrap_or_default();
        let settings = format!("server_tls_sslmode = {mode}\nserver_login_retry = 1\n{ca}");
        let pooler = pooler(&stage, host, &settings);
        let target = format!("host=127.0.0.1 port={} user=ann password=right dbname=postgres", pooler.port);
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        // The client is told at once.
        ask(&stage, &target, sql).map_err(|told| assert!(told.contains(words), "{told}"))
    };
    let encrypted = Ok("t".to_owned());
    assert_eq!(outcome("localhost", "disable", None, ""), Ok("f".to_owned()));
    assert_eq!(outcome("localhost", "allow", None, ""), Ok("f".to_owned()));
    assert_eq!(outcome("localhost", "prefer", None, ""), encrypted);
    assert_eq!(outcome("localhost", "require", None, ""), encrypted);
    assert_eq!(outcome("localhost", "verify-ca", Some(&ours), ""), encrypted);
    assert_eq!(outcome("localhost", "verify-full", Some(&ours), ""), encrypted);
    assert_eq!(outcome("127.0.0.1", "verify-ca", Some(&ours), ""), encrypted);
    for (host, mode, ca, words) in [
        ("127.0.0.1", "verify-full", &ours, "certificate not valid for name"),
        ("localhost", "verify-ca", &theirs, "no CA of the CA file has signed it"),
        ("localhost", "verify-full", &theirs, "no CA of the CA file has signed it"),
        // As with libpq, CAs that are named count.
        ("localhost", "require", &theirs, "no CA of the CA file has signed it"),
    ] {
        let words = format!("TLS handshake failed: certificate verify failed: {words}");
        outcome(host, mode, Some(ca), &words).expect_err("it is not trusted");
    }
}

/// PostgreSQL's manual makes certificates of X.509's version 1. The pooler did not start with one of its own, and with `prefer` it went on in
/// the clear where PostgreSQL had one.
#[test]
fn certificates_of_version_1_are_accepted_on_both_sides() {
    let (stage, ours) = Stage::encrypted();
    for (name, text) in [
        ("root.crt", include_str!("../../../tls/tests/version1/root.crt")),
        ("server.crt", include_str!("../../../tls/tests/version1/server.crt")),
        ("server.key", include_str!("../../../tls/tests/version1/server.key")),
        ("client.crt", include_str!("../../../tls/tests/version1/client.crt")),
        ("client.key", include_str!("../../../tls/tests/version1/client.key")),
    ] {
        ours.write(name, text);
    }
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let shown = |mode: &str| {
        let settings = format!(
            "server_tls_sslmode = {mode}\nserver_tls_ca_file = {0}\nclient_tls_sslmode = verify-full\nclient_tls_ca_file = {0}\n\
             client_tls_cert_file = {1}\nclient_tls_key_file = {2}\nauth_type = cert\n",
            ours.path("root.crt"),
            ours.path("server.crt"),
            ours.path("server.key"),
        );
        let pooler = pooler(&stage, "localhost", &settings);
        let target = format!(
            "host=localhost port={} user=ann dbname=postgres sslmode=verify-ca sslrootcert={} sslcert={} sslkey={}",
            pooler.port,
            ours.path("root.crt"),
            ours.path("client.crt"),
            ours.path("client.key"),
        );
        ask(&stage, &target, "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
    };
    for mode in ["prefer", "require", "verify-ca"] {
        assert_eq!(shown(mode), Ok("t".to_owned()), "{mode}");
    }
    let refused = shown("verify-full").expect_err("the certificate is another host's");
    assert!(refused.contains("TLS handshake failed: certificate verify failed: "), "{refused}");
}

#[test]
fn new_files_count_for_new_connections_and_half_a_set_does_no_harm() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    let files = format!(
        "client_tls_sslmode = require\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    );
    let pooler = pooler(&stage, "localhost", &files);
    let trusted_by = |authority: &Authority| {
        let target = format!(
            "host=localhost port={} user=ann password=right dbname=postgres sslmode=verify-full sslrootcert={}",
            pooler.port,
            authority.path("ca.crt")
        );
        ask(&stage, &target, "select 1").is_ok()
    };
    assert!(trusted_by(&ours) && !trusted_by(&theirs));
    theirs.sign("pooler", "pgweir", &["localhost"]);
    let read = |name: &str| fs::read_to_string(theirs.path(name)).expect("just signed");
    ours.write("pooler.crt", &read("pooler.crt"));
    let until = |done: &dyn Fn() -> bool, what: &str| {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < PATIENCE, "{what}: {}", pooler.log());
            std::thread::yield_now();
        }
    };
    until(
        &|| pooler.log().contains("it does not belong to the certificate; what was read before stays in use"),
        "half a set",
    );
    assert!(trusted_by(&ours), "the last whole set is used");
    ours.write("pooler.key", &read("pooler.key"));
    until(&|| pooler.log().contains("the files of TLS have changed and were read again"), "a whole set");
    until(&|| trusted_by(&theirs), "the new certificate");
    assert!(!trusted_by(&ours));
}

#[test]
fn a_certificate_proves_who_a_client_is() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    ours.sign("ann", "ann", &[]);
    ours.sign("bob", "bob", &[]);
    theirs.sign("ann", "ann", &[]);
    let files = format!(
        "client_tls_sslmode = verify-full\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\nclient_tls_ca_file = {}\nauth_type = cert\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
        ours.path("ca.crt")
    );
    let pooler = pooler(&stage, "localhost", &files);
    let as_ann = |shown: Option<(&Authority, &str)>| {
        let shown = shown.map(|(authority, file)| {
            format!(
                "sslcert={} sslkey={}",
                authority.path(&format!("{file}.crt")),
                authority.path(&format!("{file}.key"))
            )
        });
        let target = format!(
            "host=localhost port={} user=ann dbname=postgres sslmode=require {}",
            pooler.port,
            shown.unwrap_or_else(|| "sslcert=/nowhere".to_owned())
        );
        ask(&stage, &target, "select current_user")
    };
    assert_eq!(as_ann(Some((&ours, "ann"))), Ok("ann".to_owned()));
    let refused = as_ann(Some((&ours, "bob"))).expect_err("another name");
    assert!(refused.contains("certificate authentication failed for user \"ann\""), "{refused}");
    assert!(as_ann(Some((&theirs, "ann"))).is_err(), "another CA's");
    assert!(as_ann(None).is_err(), "none");
}

#[test]
fn a_query_is_cancelled_inside_tls() {
    let (stage, ours) = Stage::encrypted();
    let files = format!(
        "client_tls_sslmode = require\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\nserver_tls_sslmode = verify-full\n\
         server_tls_ca_file = {}\nquery_timeout = 1\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
        ours.path("ca.crt")
    );
    let pooler = pooler(&stage, "localhost", &files);
    let target = format!("host=localhost port={} user=ann password=right dbname=postgres sslmode=require", pooler.port);
    // For query_timeout the pooler sends a cancel to PostgreSQL, by a connection like the server's.
    let words = ask(&stage, &target, "select pg_sleep(30)").expect_err("it takes too long");
    assert!(words.contains("timeout") || words.contains("cancel"), "{words}");
    let began = Instant::now();
    let running = "select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and state = 'active' and pid <> pg_backend_pid()";
    while stage.direct(running) != "0" {
        assert!(began.elapsed() < PATIENCE, "it still runs");
    }
}

/// The program's own connection, as `auth-setup --apply` makes one, reaches PostgreSQL wherever psql does with the same URL.
#[test]
fn our_own_connection_goes_where_psql_goes() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    let (user, password, port) = (stage.cluster.user(), stage.cluster.password(), stage.cluster.port());
    let file = stage.cluster.data().join("pg_hba.conf");
    let mut reached = 0;
    for rule in ["hostssl", "hostnossl"] {
        fs::write(&file, format!("local all all trust\n{rule} all all all scram-sha-256\n")).expect("its file");
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
            for (host, ca) in [("localhost", &ours), ("127.0.0.1", &ours), ("localhost", &theirs)] {
                let root = if mode.starts_with("verify") {
                    format!("&sslrootcert={}", ca.path("ca.crt"))
                } else {
                    String::new()
                };
                let url = format!("postgres://{user}:{password}@{host}:{port}/postgres?sslmode={mode}{root}");
                let by_psql = ask(&stage, &url, "select 1");
                let mut own = std::process::Command::new(outer::binary());
                let own = own.args(["auth-setup", "--apply", &url]).output().expect("it runs");
                let said = String::from_utf8_lossy(&own.stderr);
                assert_eq!(own.status.success(), by_psql.is_ok(), "{rule} {mode} {host}: {by_psql:?}, {said}");
                reached += usize::from(by_psql.is_ok());
            }
        }
    }
    assert!((8..28).contains(&reached), "both verdicts occur: {reached}");
}

#[test]
fn a_base_backup_comes_through_tls_on_both_sides() {
    let (stage, ours) = Stage::encrypted();
    let _ = stage.direct("alter role ann replication");
    let rules = "local all all trust\nhostssl replication ann all scram-sha-256\nhostssl all all all scram-sha-256\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("we are root or its user");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let _ = stage.direct("create table t as select repeat(md5(i::text), 30) from generate_series(1, 20000) i");
    let files = format!(
        "client_tls_cert_file = {}\nclient_tls_key_file = {}\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    );
    let settings = format!("client_tls_sslmode = require\nserver_tls_sslmode = require\n{files}");
    let pooler = pooler(&stage, "localhost", &settings);
    let (port, ca) = (pooler.port, ours.path("ca.crt"));
    let target = format!("host=localhost port={port} user=ann password=right sslmode=verify-full sslrootcert={ca}");
    let copy = pooler.dir().join("copy").display().to_string();
    outer::run(&stage, "pg_basebackup", &["-d", &target, "-D", &copy, "-X", "stream", "-c", "fast"])
        .unwrap_or_else(|wrote| panic!("{wrote}"));
    let (verdict, _) = outer::run(&stage, "pg_verifybackup", &[&copy]).unwrap_or_else(|wrote| panic!("{wrote}"));
    assert!(verdict.contains("successfully verified"), "{verdict}");
    let attempt = "login attempt: db=replication user=ann tls=TLSv1.3/";
    assert!(pooler.log().contains(attempt), "{}", pooler.log());
}
