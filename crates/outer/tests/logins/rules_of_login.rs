//! pg_hba.conf before a real PostgreSQL: pooler and server read the same files, and each login gets the same verdict with the
//! same words.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use outer::{Pooler, Stage, Wishes};

/// Both read these lines. The first is the pooler's way to PostgreSQL and the test's own.
const RULES: &str = "
local  all             postgres                      trust
# TYPE DATABASE        USER   ADDRESS                METHOD
local  ann,\"the shop\"  root                          peer
local  shop            ann                           peer map=ops
local  shop            bob                           peer map=ops
local  sameuser        all                           scram-sha-256
local  mail            @staff,\"carl\"                 md5
local  mail            all                           trust
local  bob             all                           password
local  all             all                           reject
host   shop            ann    127.0.0.1/32           scram-sha-256
host   shop            bob    127.0.0.0  255.0.0.0   reject
host   shop            all    ::/0                   trust
host   mail            \"all\"  0.0.0.0/0              trust
host   mail            \\
       all                    127.9.9.9/8            md5
host   \"sameuser\"      all    all                    trust
host   sameuser,bob    all    samehost               password
hostssl all            all    all                    trust
host   \"the shop\"      root   127.0.0.2/32           trust
";
const MAPS: &str = "ops  root  ann\nops  /^(adm)_(.*)$  bob\n";
const STAFF: &str = "ann\n@more\n";
const MORE: &str = "bob # by MD5\n";

const USERS: [&str; 5] = ["ann", "bob", "carl", "root", "nobody"];
const DATABASES: [&str; 5] = ["shop", "mail", "the shop", "ann", "bob"];
const PASSWORDS: [&str; 3] = ["right", "wrong", "Right"];

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("we are root or its owner");
    let data = path.parent().expect("it is in a folder");
    let owner = fs::metadata(data).expect("the folder is there");
    let (uid, gid) = (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("we are root or its owner");
}

/// The current user, or what follows `FATAL:` in psql's words.
fn verdict(stage: &Stage, host: &str, port: u16, login: (&str, &str, &str)) -> Result<String, String> {
    let (user, database, password) = login;
    let target = format!("host='{host}' port={port} user='{user}' dbname='{database}' password='{password}'");
    let printed = outer::psql(stage, &["-d", &target, "-Atc", "select current_database()"]);
    let fatal = |words: String| words.split_once("FATAL:").map_or(words.clone(), |(_, fatal)| fatal.trim().to_owned());
    printed.map(|(out, _)| out.trim().to_owned()).map_err(fatal)
}

fn logins() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let targets = USERS.into_iter().flat_map(|user| DATABASES.map(|database| (user, database)));
    targets.flat_map(|(user, database)| PASSWORDS.map(|password| (user, database, password)))
}

#[test]
fn every_login_gets_the_verdict_of_postgresql_in_its_words() {
    let stage = Stage::set(&Wishes::default());
    for sql in [
        "create role ann login password 'right'",
        "create role carl login password 'right'",
        "create role root login password 'right'",
        "set password_encryption = md5; create role bob login password 'right'",
        "create database shop",
        "create database mail",
        "create database \"the shop\"",
        "create database ann",
        "create database bob",
    ] {
        let _ = stage.direct(sql);
    }
    let secrets =
        stage.direct("select string_agg(rolname || ' ' || rolpassword, E'\\n') from pg_authid where rolcanlogin");
    let mut users = String::new();
    for (name, secret) in secrets.lines().filter_map(|line| line.split_once(' ')) {
        writeln!(users, "\"{name}\" \"{secret}\"").expect("writing to a String cannot fail");
    }
    let data = stage.cluster.data();
    write(&data.join("pg_hba.conf"), RULES);
    write(&data.join("pg_ident.conf"), MAPS);
    write(&data.join("staff"), STAFF);
    write(&data.join("more"), MORE);
    assert_eq!(stage.cluster.psql("postgres", "select pg_reload_conf()").as_deref().ok(), Some("t"));
    let wrong = stage.direct("select count(*) from pg_hba_file_rules where error not like '%cannot match%'");
    assert_eq!(wrong, "0", "PostgreSQL reads all of it");
    let sockets = stage.cluster.socket_dir().display().to_string();
    let ini = format!(
        "[databases]\n* = host={sockets} port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\n\
         unix_socket_dir = {{dir}}\nauth_type = hba\nauth_hba_file = {data}/pg_hba.conf\nauth_ident_file = {data}/pg_ident.conf\n\
         auth_file = {{dir}}/users.txt\npool_mode = transaction\ndefault_pool_size = 2\n",
        stage.cluster.port(),
        data = data.display()
    );
    let pooler = Pooler::start(&ini, &users, None);
    let ours = pooler.dir().display().to_string();
    let (mut allowed, mut refused) = (0, std::collections::BTreeMap::new());
    for (user, database, password) in logins() {
        for (there, here) in [(sockets.as_str(), ours.as_str()), ("127.0.0.1", "127.0.0.1")] {
            let login = (user, database, password);
            let direct = verdict(&stage, there, stage.cluster.port(), login);
            let through = verdict(&stage, here, pooler.port, login);
            assert_eq!(direct, through, "{login:?} at {here}");
            match direct {
                Ok(_) => allowed += 1,
                Err(words) => *refused.entry(words.replace(user, "…").replace(database, "…")).or_insert(0) += 1,
            }
        }
    }
    println!(
        "{allowed} logins allowed, {} refused, all in the same words: {refused:#?}",
        refused.values().sum::<i32>()
    );
    assert!(allowed >= 20 && refused.len() >= 6, "the table has lost its meaning");
}
