//! SCRAM-SHA-256-PLUS on both sides of the program: libpq before it, PostgreSQL behind it, and somebody in between.

use std::fs;

use outer::{Authority, Between, Pooler, Signature, Stage, eventually};

/// What libpq says where it must bind and is not offered to.
const NO_OFFER: &str =
    "channel binding is required, but server did not offer an authentication method that supports channel binding";

/// A pooler with TLS for clients, in which ann logs in by SCRAM, before the server at this port.
fn pooler(ours: &Authority, port: u16, more: &str) -> Pooler {
    waiting_pooler(ours, port, more, 60)
}

/// One before a server that it refuses: then its clients wait for all of `query_wait_timeout`.
fn refusing_pooler(ours: &Authority, port: u16, more: &str) -> Pooler {
    waiting_pooler(ours, port, more, 1)
}

fn waiting_pooler(ours: &Authority, port: u16, more: &str, query_wait_timeout: u32) -> Pooler {
    let ini = format!(
        "[databases]\n* = host=127.0.0.1 port={port} dbname=postgres user=ann password=right\n[pgbouncer]\n\
         {}server_login_retry = 1\nquery_wait_timeout = {query_wait_timeout}\n{more}\n",
        common(ours)
    );
    Pooler::start(&ini, "\"ann\" \"right\"\n", None)
}

fn common(ours: &Authority) -> String {
    format!(
        "listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = scram-sha-256\n\
         auth_file = {{dir}}/users.txt\npool_mode = transaction\nclient_tls_sslmode = allow\nclient_tls_cert_file = {}\n\
         client_tls_key_file = {}\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    )
}

/// What psql prints as ann, or why it prints nothing.
fn ask(stage: &Stage, port: u16, more: &str, sql: &str) -> Result<String, String> {
    let target = format!("host=127.0.0.1 port={port} user=ann password=right dbname=postgres {more}");
    let printed = outer::psql(stage, &["-d", &target, "-Atc", sql]);
    printed.map(|(out, _)| out.trim().to_owned())
}

fn log_in(stage: &Stage, port: u16, more: &str) -> Result<(), String> {
    ask(stage, port, more, "select 1").map(|one| assert_eq!(one, "1"))
}

/// Asserts that ann is refused, and that the log gives `words` as the reason. The login to the server may end after ann's timeout, so the
/// log is awaited.
fn assert_refuses(stage: &Stage, pooler: &Pooler, words: &str) {
    let outcome = log_in(stage, pooler.port, "");
    assert!(outcome.is_err(), "{words}: {}", pooler.log());
    eventually(words, || pooler.log().contains(words));
}

fn assert_refused(outcome: Result<(), String>, words: &str) {
    let why = outcome.expect_err("it is refused");
    assert!(why.contains(words), "{why}");
}

/// Ann has to log in to PostgreSQL in this way over TLS, and by SCRAM without.
fn rule(stage: &Stage, method: &str) {
    let path = stage.cluster.data().join("pg_hba.conf");
    let rest = fs::read_to_string(&path).expect("initdb has made it");
    let rest: String =
        rest.lines().filter(|line| !line.contains(" ann ")).fold(String::new(), |text, line| text + line + "\n");
    let text = format!("hostssl all ann all {method}\nhostnossl all ann all scram-sha-256\n{rest}");
    fs::write(&path, text).expect("it is ours");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let binds = method == "scram-sha-256";
    eventually("the rule counts", || {
        log_in(stage, stage.cluster.port(), "sslmode=require channel_binding=require").is_ok() == binds
            && log_in(stage, stage.cluster.port(), "sslmode=require").is_ok()
    });
}

#[test]
fn libpq_binds_to_the_poolers_certificate_where_that_names_a_hash() {
    for signature in [Signature::Sha256, Signature::Sha384, Signature::Ed25519] {
        let (stage, ours) = Stage::encrypted_by(signature);
        let pooler = pooler(&ours, stage.cluster.port(), "server_tls_sslmode = disable");
        let bound = log_in(&stage, pooler.port, "sslmode=require channel_binding=require");
        match signature {
            Signature::Sha256 | Signature::Sha384 => assert_eq!(bound, Ok(()), "{signature:?}"),
            Signature::Ed25519 => assert_refused(bound, NO_OFFER),
        }
        for binding in ["prefer", "disable"] {
            let more = format!("sslmode=require channel_binding={binding}");
            assert_eq!(log_in(&stage, pooler.port, &more), Ok(()), "{signature:?} {binding}");
        }
        assert_eq!(log_in(&stage, pooler.port, "sslmode=disable"), Ok(()), "{signature:?}");
        let clear = log_in(&stage, pooler.port, "sslmode=disable channel_binding=require");
        assert_refused(clear, "channel binding required, but SSL not in use");
        let target = format!("host=127.0.0.1 port={} user=ann password=wrong sslmode=require", pooler.port);
        let wrong = outer::psql(&stage, &["-d", &target, "-c", ""]).map(|_| ());
        assert_refused(wrong, "password authentication failed for user \"ann\"");
    }
}

#[test]
fn the_pooler_binds_to_postgresqls_certificate() {
    for signature in [Signature::Sha256, Signature::Sha384, Signature::Ed25519] {
        let (stage, ours) = Stage::encrypted_by(signature);
        let port = stage.cluster.port();
        let is_encrypted = |binding: &str| {
            let settings = format!("server_tls_sslmode = require\nserver_channel_binding = {binding}");
            let pooler = pooler(&ours, port, &settings);
            let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
            ask(&stage, pooler.port, "", sql).map_err(|_| pooler.log())
        };
        for binding in ["prefer", "disable"] {
            assert_eq!(is_encrypted(binding), Ok("t".to_owned()), "{signature:?} {binding}");
        }
        if signature == Signature::Ed25519 {
            let pooler = refusing_pooler(&ours, port, "server_tls_sslmode = require\nserver_channel_binding = require");
            let words = "channel binding is required, but the server's certificate has no hash to bind to";
            assert_refuses(&stage, &pooler, words);
        } else {
            assert_eq!(is_encrypted("require"), Ok("t".to_owned()), "{signature:?}");
        }
        let clear = refusing_pooler(&ours, port, "server_tls_sslmode = disable\nserver_channel_binding = require");
        assert_refuses(&stage, &clear, "channel binding required, but SSL not in use");
    }
}

#[test]
fn a_server_that_asks_for_another_password_is_refused_where_binding_is_required() {
    let (stage, ours) = Stage::encrypted();
    let words = "channel binding required but not supported by server's authentication request";
    for method in ["password", "trust", "scram-sha-256"] {
        if method != "scram-sha-256" {
            rule(&stage, method);
        }
        let settings = "server_tls_sslmode = require\nserver_channel_binding = require";
        let pooler = refusing_pooler(&ours, stage.cluster.port(), settings);
        match method {
            "password" => assert_refuses(&stage, &pooler, words),
            "trust" => assert_refuses(
                &stage,
                &pooler,
                "channel binding required, but server authenticated client without channel binding",
            ),
            _ => {
                // Its rule is still the one before.
                assert!(log_in(&stage, pooler.port, "").is_err());
                rule(&stage, method);
                eventually("the pooler logs in", || log_in(&stage, pooler.port, "").is_ok());
            }
        }
    }
}

/// Who ends the TLS of both ends gets nothing but what he could see anyway: both refuse the login. Without channel binding he
/// gets in.
#[test]
fn somebody_in_between_is_refused_by_both_ends() {
    let (stage, ours) = Stage::encrypted();
    let theirs = Authority::new(&stage, "theirs");
    theirs.sign("between", "localhost", &["localhost", "127.0.0.1"]);
    let check_failed = "SCRAM channel binding check failed";
    let negotiation = "SCRAM channel binding negotiation error";

    let honest = pooler(&ours, stage.cluster.port(), "server_tls_sslmode = disable");
    let before_us = Between::start(&theirs, "between", honest.port, false);
    assert_eq!(log_in(&stage, before_us.port, "sslmode=require channel_binding=disable"), Ok(()));
    assert_refused(log_in(&stage, before_us.port, "sslmode=require"), check_failed);
    assert_refused(log_in(&stage, before_us.port, "sslmode=require channel_binding=require"), check_failed);
    let stripping = Between::start(&theirs, "between", honest.port, true);
    assert_eq!(log_in(&stage, stripping.port, "sslmode=require channel_binding=disable"), Ok(()));
    assert_refused(log_in(&stage, stripping.port, "sslmode=require"), negotiation);
    assert_refused(log_in(&stage, stripping.port, "sslmode=require channel_binding=require"), NO_OFFER);

    let settings = |binding: &str| format!("server_tls_sslmode = require\nserver_channel_binding = {binding}");
    for strips in [false, true] {
        let between = Between::start(&theirs, "between", stage.cluster.port(), strips);
        let pooler = pooler(&ours, between.port, &settings("disable"));
        assert_eq!(log_in(&stage, pooler.port, "").map_err(|_| pooler.log()), Ok(()));
    }
    for (strips, binding, words) in [
        (false, "prefer", check_failed),
        (false, "require", check_failed),
        (true, "prefer", negotiation),
        (true, "require", NO_OFFER),
    ] {
        let between = Between::start(&theirs, "between", stage.cluster.port(), strips);
        assert_refuses(&stage, &refusing_pooler(&ours, between.port, &settings(binding)), words);
    }
}

/// The pooler knows the verifier of ann only: the keys that she proves open PostgreSQL, whichever login is bound.
#[test]
fn proved_keys_pass_on_whichever_side_is_bound() {
    let (stage, ours) = Stage::encrypted();
    let verifier = stage.direct("select rolpassword from pg_authid where rolname = 'ann'");
    assert!(verifier.starts_with("SCRAM-SHA-256$"), "{verifier}");
    let outcome = |server: &str, client: &str| {
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={} dbname=postgres\n[pgbouncer]\n{}{server}\n",
            stage.cluster.port(),
            common(&ours)
        );
        let pooler = Pooler::start(&ini, &format!("\"ann\" \"{verifier}\"\n"), None);
        ask(&stage, pooler.port, client, "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
    };
    let bound_server = "server_tls_sslmode = require\nserver_channel_binding = require";
    let bound_client = "sslmode=require channel_binding=require";
    let (encrypted, clear) = (Ok("t".to_owned()), Ok("f".to_owned()));
    assert_eq!(outcome(bound_server, bound_client), encrypted);
    assert_eq!(outcome(bound_server, "sslmode=disable"), encrypted);
    assert_eq!(outcome("server_tls_sslmode = disable", bound_client), clear);
    assert_eq!(outcome("server_tls_sslmode = disable", "sslmode=disable"), clear);
    let unbound = "server_tls_sslmode = require\nserver_channel_binding = disable";
    assert_eq!(outcome(unbound, "sslmode=require channel_binding=disable"), encrypted);
}

#[test]
fn lookups_are_bound_too() {
    let (stage, ours) = Stage::encrypted();
    let _ = stage.direct("create role bob login superuser password 'looks'");
    let pooler = |port: u16| {
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={port} dbname=postgres\n[pgbouncer]\n{}auth_user = bob\n\
             server_tls_sslmode = require\nserver_channel_binding = require\n",
            common(&ours)
        );
        Pooler::start(&ini, "\"bob\" \"looks\"\n", None)
    };
    let straight = pooler(stage.cluster.port());
    assert_eq!(log_in(&stage, straight.port, "").map_err(|_| straight.log()), Ok(()));
    let theirs = Authority::new(&stage, "theirs");
    theirs.sign("between", "localhost", &["localhost", "127.0.0.1"]);
    let between = Between::start(&theirs, "between", stage.cluster.port(), false);
    assert_refuses(&stage, &pooler(between.port), "SCRAM channel binding check failed");
}
