//! Passwords of all lengths by each method: the pooler takes what PostgreSQL takes, from libpq before it and to PostgreSQL
//! behind it.

use std::fs;

use outer::{Pooler, Stage, Wishes, eventually};

/// The longest password that PostgreSQL 15 takes in the clear.
const LEN_MAX: usize = 65_530;

/// A password that is not the same anywhere, so that a part of it does not pass for all of it.
fn password(len: usize) -> String {
    (0..len).map(|at| char::from(b'a' + u8::try_from((at * at + at / 7) % 26).expect("below 26"))).collect()
}

/// Whether psql gets in.
fn gets_in(stage: &Stage, port: u16, database: &str, user: &str, password: &str) -> Result<(), String> {
    let target =
        format!("host=127.0.0.1 port={port} user={user} password={password} dbname={database} sslmode=disable");
    outer::psql(stage, &["-d", &target, "-Atc", "select 1"]).map(|_| ())
}

#[test]
fn each_length_gets_in_by_each_method_as_it_does_at_postgresql() {
    let stage = Stage::set(&Wishes::default());
    let lengths = [1, 99, 100, 1_000, 1_024, 8_191, 8_192, LEN_MAX - 1, LEN_MAX, LEN_MAX + 1, LEN_MAX + 5];
    let mut users = String::new();
    for method in ["plain", "md5", "scram"] {
        let encryption = if method == "scram" { "scram-sha-256" } else { "md5" };
        for len in lengths {
            let _ = stage.direct(&format!(
                "set password_encryption = '{encryption}'; create role {method}{len} login password '{}'",
                password(len)
            ));
            users.push_str(&format!("\"{method}{len}\" \"{}\"\n", password(len)));
        }
    }
    let path = stage.cluster.data().join("pg_hba.conf");
    let rest = fs::read_to_string(&path).expect("initdb has made it");
    let rule = |method: &str, postgresqls: &str| {
        let roles = lengths.map(|len| format!("{method}{len}")).join(",");
        format!("host all {roles} all {postgresqls}\n")
    };
    let rules = [rule("plain", "password"), rule("md5", "md5"), rule("scram", "scram-sha-256")].concat();
    fs::write(&path, rules + &rest).expect("it is ours");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let port = stage.cluster.port();
    eventually("the rules count", || gets_in(&stage, port, "postgres", "md5100", &password(100)).is_ok());

    for (method, auth_type) in [("plain", "plain"), ("md5", "md5"), ("scram", "scram-sha-256")] {
        // A client that will get no server uses `hasty`, and so gets its error after 1 s.
        let ini = format!(
            "[databases]\npostgres = host=127.0.0.1 port={port}\n\
             hasty = host=127.0.0.1 port={port} dbname=postgres query_wait_timeout=1\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = {auth_type}\nauth_file = {{dir}}/users.txt\n\
             server_login_retry = 1\n"
        );
        let pooler = Pooler::start(&ini, &users, None);
        for len in lengths {
            let user = format!("{method}{len}");
            let right = password(len);
            let wrong = format!("{}!", &right[..len - 1]);
            let direct = gets_in(&stage, port, "postgres", &user, &right);
            let database = if direct.is_ok() { "postgres" } else { "hasty" };
            assert_eq!(direct.is_ok(), method != "plain" || len <= LEN_MAX, "{user} directly: {direct:?}");
            let through = gets_in(&stage, pooler.port, database, &user, &right);
            assert_eq!(through.is_ok(), direct.is_ok(), "{user}: {through:?}\n{}", pooler.log());
            if direct.is_err() {
                let says_why = |line: &str| line.contains(&user) && line.contains("password message is too long");
                eventually("the log says why", || pooler.log().lines().any(says_why));
            }
            let refused = gets_in(&stage, pooler.port, database, &user, &wrong);
            assert!(refused.is_err(), "{user} with a wrong end");
        }
    }
}
