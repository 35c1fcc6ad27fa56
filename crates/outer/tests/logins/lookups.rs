//! `auth_query` before a real PostgreSQL: the pooler's verdict on a login is PostgreSQL's own, expired passwords and outages included.
//!
//! Tests that are named after a vulnerability show that it is none here.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use outer::{Pooler, Stage, Wishes, eventually};

/// A function as `auth_query` should call: no superusers, and until when a password is valid.
const FUNCTION: &str = "
    create schema auth;
    create function auth.user_lookup(text) returns table(name text, secret text, valid_until timestamptz)
        language sql security definer set search_path = pg_catalog as $$
        select rolname, rolpassword, rolvaliduntil from pg_catalog.pg_authid
        where rolname = $1 and rolcanlogin and not rolsuper and not rolreplication $$;
    revoke all on function auth.user_lookup(text) from public;
    grant usage on schema auth to asker;
    grant execute on function auth.user_lookup(text) to asker;";
const BY_FUNCTION: &str = "select name, secret, valid_until from auth.user_lookup($1)";

const ROLES: &str = "
    create role asker login password 'of asker';
    create role ann login password 'right';
    create role spaces login password '  right, with \"quotes\"  ';
    create role expired login password 'right' valid until '2001-01-01';
    create role forever login password 'right' valid until 'infinity';
    create role later login password 'right' valid until '2200-01-01';
    create role nopassword login;
    create role nologin password 'right';
    set password_encryption = md5;
    create role old login password 'right';
    create role oldexpired login password 'right' valid until '2001-01-01';";

/// The setting in which `auth-setup` says how users are looked up.
const BY_SETUP: &str = "SELECT name, secret, valid_until FROM pgweir.user_lookup($1)";

/// A PostgreSQL, and a pooler that looks users up in it.
struct Setting {
    pooler: Pooler,
    stage: Stage,
}

impl Setting {
    fn new(settings: &[(&str, &str)]) -> Setting {
        let stage = Stage::set(&Wishes::default());
        let _ = stage.direct(ROLES);
        let _ = stage.direct(FUNCTION);
        // Passwords of both kinds are checked as they are.
        let rules = "local all all trust\nhost all all 127.0.0.1/32 md5\n";
        std::fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("we are root or its user");
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        let mut ini = format!("[databases]\napp = host=127.0.0.1 port={} dbname=postgres\n", stage.cluster.port());
        ini +=
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\npool_mode = transaction\n";
        ini += "auth_type = md5\nauth_file = {dir}/users.txt\nauth_user = asker\nserver_login_retry = 1\n";
        for (name, value) in settings {
            writeln!(ini, "{name} = {value}").expect("writing to a String cannot fail");
        }
        let pooler = Pooler::start(&ini, "\"asker\" \"of asker\"\n", None);
        Setting { pooler, stage }
    }

    /// Has a superuser change something, past the pooler.
    fn change(&self, sql: &str) {
        let _ = self.stage.direct(sql);
    }

    /// What psql prints, or its error.
    fn psql(&self, url: &str, sql: &str) -> Result<String, String> {
        let printed = outer::psql(&self.stage, &["-d", url, "-Atc", sql]);
        printed.map(|(out, _)| out.trim().to_owned())
    }

    /// A login through the pooler, and a query.
    fn through(&self, user: &str, password: &str) -> Result<String, String> {
        self.psql(&url(self.pooler.port, "app", user, password), "select current_user")
    }

    fn direct(&self, user: &str, password: &str) -> Result<String, String> {
        self.psql(&url(self.stage.cluster.port(), "postgres", user, password), "select current_user")
    }

    /// A login at the pooler's console, which needs no server.
    fn console(&self, user: &str, password: &str) -> Result<String, String> {
        self.psql(&url(self.pooler.port, "pgbouncer", user, password), "show version")
    }
}

fn url(port: u16, database: &str, user: &str, password: &str) -> String {
    let escaped: String = password.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("postgres://{user}:{escaped}@127.0.0.1:{port}/{database}")
}

/// Logs in with each user and password, directly and through the pooler.
fn compare(setting: &Setting) -> usize {
    let users =
        ["ann", "spaces", "expired", "forever", "later", "nopassword", "nologin", "old", "oldexpired", "nobody"];
    let mut count = 0;
    for user in users {
        // Twice: what is remembered or pooled changes nothing.
        for _ in 0..2 {
            for password in ["right", "wrong", "  right, with \"quotes\"  ", "Right"] {
                let (direct, through) = (setting.direct(user, password), setting.through(user, password));
                assert_eq!(direct.is_ok(), through.is_ok(), "{user} {password:?}: {direct:?}, {through:?}");
                match through {
                    Ok(name) => assert_eq!(name, user),
                    Err(text) => assert!(text.contains("authentication failed"), "{user} {password:?}: {text}"),
                }
                count += 1;
            }
        }
    }
    count
}

#[test]
fn the_verdict_is_that_of_postgresql_by_a_function() {
    let setting = Setting::new(&[("auth_query", BY_FUNCTION)]);
    println!("{} logins by auth_query with a function: the same verdicts", compare(&setting));
    let refused = setting.through("postgres", setting.stage.cluster.password());
    assert!(refused.is_err(), "the function knows no superusers");
}

#[test]
fn the_verdict_is_that_of_postgresql_by_the_default_query() {
    let setting = Setting::new(&[]);
    setting.change("alter role asker superuser");
    println!("{} logins by the default auth_query: the same verdicts", compare(&setting));
}

#[test]
fn the_verdict_is_that_of_postgresql_by_a_query_with_two_columns() {
    let query =
        "select usename, case when valuntil < now() then null else passwd end from pg_shadow where usename = $1";
    let setting = Setting::new(&[("auth_query", query)]);
    setting.change("alter role asker superuser");
    println!("{} logins by a query on pg_shadow: the same verdicts", compare(&setting));
}

#[test]
fn a_changed_password_and_a_dropped_role_count_at_once() {
    let setting = Setting::new(&[("auth_query", BY_FUNCTION), ("auth_type", "scram-sha-256")]);
    for round in 0..5 {
        let (password, last) = (format!("password {round}"), format!("password {}", round - 1));
        setting.change(&format!("alter role ann password '{password}'"));
        assert!(setting.through("ann", &last).is_err(), "round {round}: the old password works");
        assert_eq!(setting.through("ann", &password), Ok("ann".to_owned()), "round {round}");
    }
    setting.change("drop role ann");
    assert!(setting.through("ann", "password 4").is_err(), "the role is gone");
}

/// CVE-2015-6817: an unknown user was logged in as auth_user.
#[test]
fn cve_2015_6817_an_unknown_user_gets_the_answer_to_a_wrong_password() {
    for auth_type in ["md5", "scram-sha-256", "plain"] {
        let setting = Setting::new(&[("auth_query", BY_FUNCTION), ("auth_type", auth_type)]);
        let words = |user: &str, password: &str| {
            let text = setting.through(user, password).expect_err("refused");
            let (_, words) = text.split_once("FATAL:").expect("the pooler's error");
            words.replace(user, "USER")
        };
        let wrong = words("ann", "wrong");
        for password in ["wrong", "of asker", "right"] {
            assert_eq!(words("nobody", password), wrong, "{auth_type}");
        }
        assert_eq!(words("nopassword", "x"), wrong, "{auth_type}");
        assert_eq!(words("expired", "right"), wrong, "{auth_type}");
    }
}

/// CVE-2025-2291: `auth_query` ignored VALID UNTIL.
#[test]
fn cve_2025_2291_an_expired_password_fails_as_it_does_directly_remembered_or_not() {
    let settings = [("auth_query", BY_FUNCTION), ("auth_dbname", "app"), ("stats_users", "ann, brief")];
    let mut setting = Setting::new(&settings);
    setting.change("create role brief login password 'right'");
    // The transcript `lookup/down.txt` proves the exact moment. Here the login must succeed as long as the password surely is valid: if its
    // answer comes within 6 s from a moment before `valid until` was set.
    let lasts = Duration::from_secs(6);
    let begun = Instant::now();
    let until = setting.stage.direct("select clock_timestamp() + '6 s'");
    setting.change(&format!("alter role brief valid until '{until}'"));
    let assert_valid = |told: Result<String, String>| assert!(told.is_ok() || begun.elapsed() > lasts, "{told:?}");
    assert_valid(setting.through("brief", "right"));
    assert!(setting.console("ann", "right").is_ok());
    // The pooler looks this user up, whether the password is still valid or not.
    assert_valid(setting.console("brief", "right"));
    setting.stage.cluster.halt(demo::Shutdown::Fast).expect("it stops");
    assert_valid(setting.console("brief", "right"));
    let mut told = String::new();
    eventually("it expires", || {
        told = setting.console("brief", "right").err().unwrap_or_default();
        !told.is_empty()
    });
    let expired = begun.elapsed();
    // The reason is the expired password; a user who is not remembered would get an error about the database.
    assert!(told.contains("authentication failed"), "{told}");
    assert!(setting.console("ann", "right").is_ok(), "the database is still down, and ann remembered");
    setting.stage.cluster.resume().expect("it starts");
    assert!(setting.direct("brief", "right").is_err(), "as it is directly");
    eventually("the database is asked again", || setting.through("ann", "right").is_ok());
    assert!(setting.through("brief", "right").is_err());
    println!("a password of 6 s, remembered while PostgreSQL is down, expires after {expired:?}");
}

/// CVE-2025-12819: `search_path` of a client's startup packet made `auth_query` run a stranger's code.
#[test]
fn cve_2025_12819_no_search_path_of_a_client_reaches_auth_query() {
    let query = "select rolname, rolpassword from pg_authid where rolname = $1";
    for settings in [&[("auth_query", query)][..], &[]] {
        let setting = Setting::new(settings);
        setting.change(
            "alter role asker superuser; grant create on schema public to ann; set role ann;
             create table public.caught (who text);
             create function public.evil(name, name) returns boolean language plpgsql as
                 $$ begin insert into public.caught values (session_user); return true; end $$;
             create operator public.= (leftarg = name, rightarg = name, function = public.evil);
             create table public.pg_authid (rolname name, rolpassword text, rolcanlogin boolean, rolvaliduntil timestamptz);
             insert into public.pg_authid values ('nobody', 'known', true);
             reset role; alter role asker set search_path = public, pg_catalog;
             grant all on all tables in schema public to public",
        );
        let evil = "search_path%3Dpublic,pg_catalog";
        for extra in [format!("?options=-c%20{evil}"), String::new()] {
            for (user, password, is_let_in) in [("nobody", "known", false), ("ann", "right", true)] {
                let url = url(setting.pooler.port, "app", user, password) + &extra;
                let outcome = setting.psql(&url, "select 1");
                assert_eq!(outcome.is_ok(), is_let_in, "{user} {extra}: {outcome:?}");
            }
        }
        assert_eq!(setting.stage.direct("select count(*) from public.caught"), "0");
        // The trap is one: whoever asks with this search_path falls into it.
        let trapped = "set search_path = public, pg_catalog; select count(*) from pg_catalog.pg_authid where rolname = 'nobody'::name";
        setting.change(trapped);
        assert_ne!(setting.stage.direct("select count(*) from public.caught"), "0");
    }
}

/// The transcripts `lookup/down.txt` and `lookup/black-hole.txt` prove that clients get the error within 5 s, and that the database is
/// asked again within 1 s.
#[test]
fn a_database_that_is_down_is_told_and_lets_nobody_in() {
    let settings = [("auth_query", BY_FUNCTION), ("auth_dbname", "app"), ("stats_users", "ann, old, nobody")];
    let mut setting = Setting::new(&settings);
    assert!(setting.console("ann", "right").is_ok());
    setting.stage.cluster.halt(demo::Shutdown::Immediate).expect("it stops");
    assert!(setting.console("ann", "right").is_ok(), "it is remembered");
    assert!(setting.console("ann", "wrong").expect_err("refused").contains("authentication failed"));
    for user in ["old", "nobody"] {
        let begun = Instant::now();
        let text = setting.console(user, "right").expect_err("it is not known");
        assert!(text.contains("authentication database \"app\" cannot be reached"), "{text}");
        println!("{user}: told after {:?}", begun.elapsed());
    }
    setting.stage.cluster.resume().expect("it starts");
    setting.change("alter role ann password 'changed'");
    eventually("the database is asked again", || setting.console("ann", "right").is_err());
    assert!(setting.console("ann", "changed").is_ok() && setting.console("old", "right").is_ok());
}

/// As tutorials and operators write it: `user_lookup($1)`, in schema public or in one of the role's search_path.
#[test]
fn a_function_without_its_schema_is_found_where_no_stranger_may_create() {
    let setting = Setting::new(&[("auth_query", "select name, secret from user_lookup($1)")]);
    setting.change("alter function auth.user_lookup(text) set schema public");
    let anew = || {
        setting
            .change("select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%auth_query%'")
    };
    let refused = |why: &str| {
        anew();
        let text = setting.through("ann", "right").expect_err(why);
        assert!(text.contains("bouncer config error"), "{text}");
        eventually(why, || setting.pooler.log().contains(why));
    };
    assert!(setting.through("ann", "right").is_ok(), "{}", setting.pooler.log());
    assert!(setting.through("ann", "wrong").is_err());
    setting.change("grant create on schema public to old");
    refused("schema public has the query's names, but other roles may create objects in it");
    setting.change("revoke create on schema public from old");
    assert!(setting.through("ann", "right").is_ok(), "a new connection looks again: {}", setting.pooler.log());
    setting.change(
        "create schema \"odd, one\"; alter role asker in database postgres set search_path = none, \"odd, one\";
         alter role asker set search_path = public; grant usage on schema \"odd, one\" to asker",
    );
    refused("no schema in the search_path of auth_user has the query's names: \"odd, one\"");
    setting.change("alter function public.user_lookup(text) set schema \"odd, one\"");
    assert!(setting.through("ann", "right").is_ok(), "{}", setting.pooler.log());
    // A stranger who makes another one gets nobody in, and nobody in his place.
    setting.change(
        "alter role asker in database postgres set search_path = stranger, \"odd, one\";
         create schema stranger authorization old; grant usage on schema stranger to asker; set role old;
         create function stranger.user_lookup(text) returns table(name text, secret text) language sql as
             $$ select $1, 'known' $$",
    );
    refused("several schemas have the query's names, write the one that is meant: stranger, \"odd, one\"");
    assert!(setting.through("ann", "known").is_err());
}

#[test]
fn what_is_wrong_with_a_query_is_in_the_log_alone() {
    let setting = Setting::new(&[("auth_query", "select name, secret from user_lookup($1)")]);
    let text = setting.through("ann", "right").expect_err("there is no such function in pg_catalog");
    assert!(text.contains("bouncer config error"), "{text}");
    let why = "auth_query failed: ERROR 42883: function user_lookup(unknown) does not exist";
    eventually("the log says why", || setting.pooler.log().contains(why));
    let advice = "no schema in the search_path of auth_user has the query's names: public";
    eventually(advice, || setting.pooler.log().contains(advice));
    let log = setting.pooler.log();
    assert!(!log.contains("of asker") && !log.contains("SCRAM-SHA-256$"), "secrets are in no log");
}

/// What `pgweir auth-setup` prints.
fn auth_setup(setting: &Setting, arguments: &[&str]) -> String {
    let url = setting.stage.cluster.url("postgres");
    let output = Command::new(outer::binary()).arg("auth-setup").arg(url).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What `auth-setup` prints is run as it stands, twice; or it runs it itself. Then the verdicts are PostgreSQL's.
#[test]
fn auth_setup_makes_what_auth_query_needs() {
    for applies in [false, true] {
        let setting = Setting::new(&[("auth_query", BY_SETUP)]);
        // Somebody was there first.
        setting.change(
            "create role \"odd \"\" one\"; create schema pgweir authorization ann; set role ann;
             create function pgweir.user_lookup(text) returns table(name text, secret text, valid_until timestamptz)
                 language sql as $$ select 'postgres', 'known', null::timestamptz $$;
             grant all on schema pgweir to old with grant option; grant all on function pgweir.user_lookup to old with grant option;
             set role old;
             grant usage on schema pgweir to public, \"odd \"\" one\";
             grant execute on function pgweir.user_lookup to \"odd \"\" one\"; reset role;
             alter default privileges grant execute on functions to later",
        );
        for _ in 0..2 {
            let script =
                auth_setup(&setting, if applies { &["--role", "asker", "--apply"] } else { &["--role", "asker"] });
            assert!(script.contains(&format!("auth_query = {BY_SETUP}\n")), "{script}");
            if !applies {
                setting.change(&script);
            }
        }
        println!("{} logins after auth-setup: the same verdicts", compare(&setting));
        assert!(setting.through("postgres", "known").is_err() && setting.through("postgres", "x").is_err());
        let may = |sql: &str| setting.psql(&url(setting.stage.cluster.port(), "postgres", "ann", "right"), sql);
        assert!(may("select pgweir.user_lookup('old')").is_err(), "nobody else may call it");
        assert!(may("drop function pgweir.user_lookup").is_err(), "nor remove it, though she made it first");
        assert!(may("create function pgweir.other() returns int language sql as 'select 1'").is_err());
        let others = "select string_agg(distinct grantee::regrole::text, ' ') from (
                select (aclexplode(nspacl)).* from pg_namespace where nspname = 'pgweir'
                union select (aclexplode(proacl)).* from pg_proc where pronamespace = 'pgweir'::regnamespace) as granted";
        assert_eq!(setting.stage.direct(others), "asker postgres", "what was granted before is taken back");
        let as_old = setting
            .psql(&url(setting.stage.cluster.port(), "postgres", "old", "right"), "select pgweir.user_lookup('ann')");
        assert!(as_old.is_err_and(|text| text.contains("permission denied")), "nobody else may call it");
        let found = setting.stage.direct(
            "set role asker; select count(*) from pgweir.user_lookup('postgres');
             select count(*) from pgweir.user_lookup('asker'); select count(*) from pgweir.user_lookup('ann')",
        );
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), "0 0 1");
    }
}

#[test]
fn many_logins_at_once_are_looked_up_few_times() {
    let setting = Setting::new(&[("auth_query", BY_FUNCTION), ("max_client_conn", "500")]);
    setting.change("alter function auth.user_lookup(text) volatile cost 1");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(setting.through("ann", "right"), Ok("ann".to_owned())));
        }
    });
    let servers = "select count(*) from pg_stat_activity where application_name = 'pgweir auth_query'";
    assert_eq!(setting.stage.direct(servers), "1", "one connection for all lookups");
    println!("40 logins at once, psql and all: {:?}", begun.elapsed());
}
