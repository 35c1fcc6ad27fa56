//! Certificates that are not good, on both sides of the program: the verdict is PostgreSQL's on clients', and libpq's on servers'.

use std::fs;

use outer::{Authority, Pooler, Stage, eventually};

/// The verdict on a client's certificate is PostgreSQL's own.
#[test]
fn certificates_of_clients_that_are_not_good() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    ours.sign("good", "ann", &[]);
    ours.sign("mismatch", "bob", &[]);
    ours.sign("prefix", "an", &[]);
    ours.sign("longer", "ann.example", &[]);
    ours.sign("upper", "ANN", &[]);
    ours.sign("empty", "", &[]);
    ours.sign_expired("expired", "ann", &[]);
    ours.sign_and_revoke("revoked", "ann", &[]);
    ours.sign_by_itself("itself", "ann", &[]);
    theirs.sign("good", "ann", &[]);
    let crl = ours.path("revoked.crl");
    let _ = stage.direct(&format!("alter system set ssl_crl_file = '{crl}'"));
    let rules = "local all all trust\nhostssl all ann all cert\nhost all all all scram-sha-256\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("its file");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let ini = format!(
        "[databases]\npostgres = host={} port={} user=postgres password={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\n\
         unix_socket_dir =\nauth_type = cert\nauth_file = {{dir}}/users.txt\npool_mode = transaction\nclient_tls_sslmode = verify-full\n\
         client_tls_cert_file = {}\nclient_tls_key_file = {}\nclient_tls_ca_file = {}\nclient_tls_crl_file = {crl}\n",
        stage.cluster.host(),
        stage.cluster.port(),
        stage.cluster.password(),
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
        ours.path("ca.crt"),
    );
    let pooler = Pooler::start(&ini, "\"ann\" \"\"\n", None);
    let log_in = |port: u16, authority: &Authority, file: &str| {
        let certificate = authority.path(&format!("{file}.crt"));
        let key = authority.path(&format!("{file}.key"));
        let target = format!(
            "host=localhost port={port} user=ann dbname=postgres sslmode=require sslcert={certificate} sslkey={key}"
        );
        outer::psql(&stage, &["-d", &target, "-Atc", "select 1"])
    };
    eventually("the rules count", || log_in(stage.cluster.port(), &ours, "mismatch").is_err());
    let files = ["good", "mismatch", "prefix", "longer", "upper", "empty", "expired", "revoked", "itself"];
    let all = files.map(|file| (&ours, file)).into_iter().chain([(&theirs, "good")]);
    let mut let_in = 0;
    for (number, (authority, file)) in all.enumerate() {
        let direct = log_in(stage.cluster.port(), authority, file);
        let through = log_in(pooler.port, authority, file);
        assert_eq!(direct.is_ok(), through.is_ok(), "{number} {file}: {direct:?}, {through:?}");
        assert_eq!(through.is_ok(), number == 0, "{file}: {through:?}");
        let_in += usize::from(through.is_ok());
    }
    println!("10 certificates of clients: {let_in} is let in, by PostgreSQL and by the pooler");
}

/// Whether a connection to PostgreSQL is encrypted.
const ENCRYPTED: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

/// Whether psql and the pooler reach a server with this certificate, by `sslmode` and the same `server_tls_sslmode`.
#[test]
fn certificates_of_servers_that_are_not_good() {
    let (stage, ours) = Stage::encrypted();
    let theirs = sign_for_servers(&stage, &ours);
    let (ca, crl) = (ours.path("ca.crt"), ours.path("revoked.crl"));
    let port = stage.cluster.port();
    let modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
    // Without a CA, whoever only requires TLS checks nothing.
    let ways: Vec<_> =
        modes.into_iter().map(|mode| (mode, true)).chain([("prefer", false), ("require", false)]).collect();
    let pooler = |(mode, checks): &(&str, bool), query_wait_timeout: u32| {
        let files = format!("server_tls_ca_file = {ca}\nserver_tls_crl_file = {crl}\n");
        let ini = format!(
            "[databases]\n* = host=localhost port={port} dbname=postgres user=ann password=right\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = any\n\
             server_login_retry = 1\nquery_wait_timeout = {query_wait_timeout}\nserver_tls_sslmode = {mode}\n{}",
            if *checks { files.as_str() } else { "" }
        );
        Pooler::start_with(&ini, &[])
    };
    let mut reached = 0;
    let all = ["good", "elsewhere", "expired", "revoked", "itself"].map(|file| (&ours, file));
    for (authority, file) in all.into_iter().chain([(&theirs, "good")]) {
        for (name, end) in [("ssl_cert_file", "crt"), ("ssl_key_file", "key")] {
            let _ = stage.direct(&format!("alter system set {name} = '{}'", authority.path(&format!("{file}.{end}"))));
        }
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        let direct: Vec<Result<String, String>> = side_by_side(&ways, |(mode, checks)| {
            let roots =
                if *checks { format!("sslrootcert={ca} sslcrl={crl}") } else { "sslrootcert=/nowhere".to_owned() };
            let target =
                format!("host=localhost port={port} user=ann password=right dbname=postgres sslmode={mode} {roots}");
            outer::psql(&stage, &["-d", &target, "-Atc", ENCRYPTED]).map(|(out, _)| out.trim().to_owned())
        });
        let expected: Vec<_> = ways.iter().zip(&direct).collect();
        let through: Vec<_> = side_by_side(&expected, |(way, direct)| {
            // A refused client waits for all of query_wait_timeout.
            let pooler = pooler(way, if direct.is_ok() { 60 } else { 1 });
            let target = format!("host=127.0.0.1 port={} user=ann dbname=postgres", pooler.port);
            let printed = outer::psql(&stage, &["-d", &target, "-Atc", ENCRYPTED]);
            if printed.is_err() {
                // The login to the server may end after the client's timeout.
                eventually("it is told why", || pooler.log().contains("certificate"));
            }
            (printed.map(|(out, _)| out.trim().to_owned()), pooler.log())
        });
        for (((mode, checks), direct), (through, log)) in ways.iter().zip(&direct).zip(&through) {
            let what = format!(
                "{file} of {}, {mode}, a CA: {checks}",
                if authority.path("") == ours.path("") { "ours" } else { "theirs" }
            );
            // By prefer, libpq goes on in the clear where a CA that it was given does not vouch; pgweir stays inside TLS unchecked.
            let is_better = *mode == "prefer" && direct.as_deref() == Ok("f") && through.as_deref() == Ok("t");
            assert!(
                is_better || direct.as_ref().ok() == through.as_ref().ok(),
                "{what}: {direct:?}, {through:?}, {log}"
            );
            if let Err(words) = through {
                assert!(words.contains("FATAL") && log.contains("certificate"), "{what}: {words} {log}");
            }
            reached += usize::from(through.is_ok());
        }
    }
    println!("6 certificates of servers by 8 settings: {reached} of 48 reach it, by libpq and by the pooler");
    assert!((20..48).contains(&reached), "both verdicts occur");
}

/// Runs `does` for all, each in a thread of its own: a refused client waits a second for its error.
fn side_by_side<T: Sync, R: Send>(all: &[T], does: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let does = &does;
        let threads: Vec<_> = all.iter().map(|one| scope.spawn(move || does(one))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    })
}

/// Makes all that servers show; the other CA that has signed one.
fn sign_for_servers(stage: &Stage, ours: &Authority) -> Authority {
    let theirs = Authority::new(stage, "theirs");
    let hosts = ["localhost"];
    ours.sign("good", "postgres", &hosts);
    ours.sign("elsewhere", "postgres", &["db.example.org"]);
    ours.sign_expired("expired", "postgres", &hosts);
    ours.sign_and_revoke("revoked", "postgres", &hosts);
    ours.sign_by_itself("itself", "postgres", &hosts);
    theirs.sign("good", "postgres", &hosts);
    theirs
}
