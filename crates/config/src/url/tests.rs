//! URLs as a table, and the promises about passwords.

use std::collections::BTreeSet;

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn upstream(env: &dyn Fn(&str) -> Option<String>) -> Upstream<'_> {
    Upstream { env, assignments: &[], passfile: None, listen: None, pool_size: None, cores: 2, built: Built::default() }
}

fn from_url(url: &str, upstream: &Upstream<'_>) -> Result<Config, Problem> {
    let missing = |name: &str| panic!("no file is read, {name} neither");
    from_urls(&[url.to_owned()], upstream, &missing).map_err(|mut problems| problems.remove(0))
}

/// `user password hosts… database startup…`, as one line.
fn summary(config: &Config) -> String {
    let (user, secret) = config.pooling.secrets.first_key_value().expect("there is one user");
    let (name, database) = config.pooling.databases.first_key_value().expect("there is one database");
    let password = match secret {
        Secret::Plain(password) => password.as_str(),
        _ => "not a password",
    };
    let hosts: Vec<String> = database.hosts.iter().map(shown).collect();
    let startup: Vec<String> = database.startup.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{user} {password:?} {} {name} {}", hosts.join(","), startup.join(" ")).trim_end().to_owned()
}

fn shown(address: &Address) -> String {
    match &address.host {
        Host::Unix(dir) => format!("{dir}:{}", address.port),
        Host::Ip(ip) => SocketAddr::new(*ip, address.port).to_string(),
        Host::Name(name) => format!("{name}:{}", address.port),
    }
}

#[test]
fn urls_are_read_as_libpq_reads_them() {
    let table = [
        ("postgres://ann:pw@db:5433/app", r#"ann "pw" db:5433 app"#),
        ("postgresql://ann@db", r#"ann "" db:5432 ann"#),
        ("postgres://ann@/app", r#"ann "" /var/run/postgresql:5432,/tmp:5432 app"#),
        ("postgres://ann:p%40%3A%2F%25@10.0.0.1/a%20b", r#"ann "p@:/%" 10.0.0.1:5432 a b"#),
        ("postgres://ann:p@ss@db/app", r#"ann "p@ss" db:5432 app"#),
        ("postgres://ann@[::1]:5433/app", r#"ann "" [::1]:5433 app"#),
        ("postgres://ann@[fe80::1]/app", r#"ann "" [fe80::1]:5432 app"#),
        ("postgres://ann@%2Frun%2Fpg/app", r#"ann "" /run/pg:5432 app"#),
        ("postgres:///app?host=/run/pg&user=ann&port=7", r#"ann "" /run/pg:7 app"#),
        ("postgres://ann@a,b:2,[::1]:3/app", r#"ann "" a:5432,b:2,[::1]:3 app"#),
        ("postgres://ann@/app?host=a,b&port=9", r#"ann "" a:9,b:9 app"#),
        ("postgres://ann@db/app?hostaddr=10.0.0.2", r#"ann "" 10.0.0.2:5432 app"#),
        (
            "postgres://ann@db/app?application_name=my%20app&sslmode=prefer",
            r#"ann "" db:5432 app application_name=my app"#,
        ),
        ("postgres://ann@db/app?client_encoding=auto&connect_timeout=1", r#"ann "" db:5432 app"#),
        (
            "postgres://ann:md50123456789abcdef0123456789abcdef@db/app",
            r#"ann "md50123456789abcdef0123456789abcdef" db:5432 app"#,
        ),
    ];
    for (url, expected) in table {
        let config = from_url(url, &upstream(&nothing)).unwrap_or_else(|problem| panic!("{url}: {problem}"));
        assert_eq!(summary(&config), expected, "{url}");
    }
}

#[test]
fn channel_binding_is_libpqs() {
    use ::settings::ChannelBinding::{Disable, Prefer, Require};
    let env = |name: &str| (name == "PGCHANNELBINDING").then(|| "disable".to_owned());
    let none = upstream(&nothing);
    let table = [
        (&none, "postgres://ann@db", Prefer),
        (&none, "postgres://ann@db?channel_binding=require", Require),
        (&none, "postgres://ann@db?channel_binding=disable", Disable),
        (&upstream(&env), "postgres://ann@db", Disable),
        (&upstream(&env), "postgres://ann@db?channel_binding=require", Require),
    ];
    for (upstream, url, expected) in table {
        let config = from_url(url, upstream).unwrap_or_else(|problem| panic!("{url}: {problem}"));
        assert_eq!(config.pooling.global.tls.server_channel_binding, expected, "{url}");
    }
}

#[test]
fn the_protocol_is_what_libpq_would_ask_for() {
    let env = |name: &str| (name == "PGMAXPROTOCOLVERSION").then(|| "latest".to_owned());
    let none = upstream(&nothing);
    let table = [
        (&none, "postgres://ann@db", 0),
        (&none, "postgres://ann@db?max_protocol_version=3.2", 2),
        (&upstream(&env), "postgres://ann@db", 2),
        (&upstream(&env), "postgres://ann@db?max_protocol_version=3.0", 0),
    ];
    for (upstream, url, expected) in table {
        let config = from_url(url, upstream).unwrap_or_else(|problem| panic!("{url}: {problem}"));
        assert_eq!(config.pooling.global.servers.server_max_protocol_version.minor(), expected, "{url}");
    }
}

/// All pools together leave room in a PostgreSQL with default settings.
#[test]
fn the_size_is_found_unless_it_is_said() {
    let of = |pool_size| {
        let upstream = Upstream { pool_size: Some(pool_size), ..upstream(&nothing) };
        from_url("postgres://ann@db/app", &upstream).expect("nothing is wrong with it").pooling
    };
    let found = of(PoolSize::Auto);
    assert_eq!(
        (found.global.pools.default_pool_size, found.global.pools.max_server_connections),
        (PoolSize::Auto, SERVERS_MAX)
    );
    assert!(found.global.pools.auto_pool_size_max <= SERVERS_MAX, "one pool alone can be as large as it may");
    let said = of(PoolSize::Fixed(7));
    assert_eq!(
        (said.global.pools.default_pool_size, said.global.pools.max_server_connections),
        (PoolSize::Fixed(7), 0)
    );
}

#[test]
fn mistakes_are_named() {
    let table = [
        ("mysql://u@h/d", "URL: found \"mysql://\", expected postgres://user@host/database"),
        ("ann:secret@db", "URL: found no postgres://, expected postgres://user@host/database"),
        ("postgres://u@h:x/d", "port: found \"x\", expected a number from 1 to 65535"),
        ("postgres://u@h:0/d", "port: found \"0\", expected a number from 1 to 65535"),
        ("postgres://u@[::1/d", "host: found \"[::1\", expected a closing ] after the IPv6 address"),
        ("postgres://u@[::1]x/d", "host: found \"[::1]x\", expected a port or nothing after the ]"),
        ("postgres://u@a%20b/d", "host: found \"a b\", expected an address, a name, or the directory of a Unix socket"),
        ("postgres://u@a,b,c/d?port=1,2", "port: found 2 ports for 3 hosts, expected one port, or one for each host"),
        (
            "postgres://u:s%zz@h/d",
            "password: found a % that encodes nothing, expected two hexadecimal digits after each %, and %25 for a % itself",
        ),
        (
            "postgres://u:s%00@h/d",
            "password: found a % that encodes nothing, expected two hexadecimal digits after each %, and %25 for a % itself",
        ),
        ("postgres://u:s%ff@h/d", "password: found bytes that are no text, expected text in UTF-8"),
        (
            "postgres://u@h/d?sslmode=required",
            "sslmode: found \"required\", expected disable, allow, prefer, require, verify-ca or verify-full",
        ),
        (
            "postgres://u@h/d?channel_binding=always",
            "channel_binding: found \"always\", expected disable, prefer or require",
        ),
        (
            "postgres://u@h/d?max_protocol_version=3.1",
            "max_protocol_version: found \"3.1\", expected 3.0, 3.2 or latest",
        ),
        (
            "postgres://u@h/d?sslcert=own.crt",
            "server_tls_cert_file: found \"own.crt\", expected server_tls_key_file too: neither is of use alone",
        ),
        (
            "postgres://u@h/d?sslrootcert=system&sslmode=require",
            "sslrootcert: found \"system\", expected sslmode=verify-full too, as libpq does",
        ),
        ("postgres://u@h/d?options=-cx%3D1", "options: found a value, expected nothing: it is not supported yet"),
        (
            "postgres://u@h/d?aplication_name=x",
            "aplication_name: found an unknown name, expected a parameter of libpq's; did you mean application_name?",
        ),
        ("postgres://u@h/d?x", "URL: found a parameter without =, expected parameter=value after the ?"),
        (
            "postgres://u@h/d?connect_timeout=soon",
            "connect_timeout: found \"soon\", expected a whole number of seconds",
        ),
        ("postgres://h/d", "user: found nothing, expected postgres://USER@host, or PGUSER"),
    ];
    for (url, expected) in table {
        let problem = from_url(url, &upstream(&nothing)).expect_err(url);
        assert_eq!(problem.to_string(), expected, "{url}");
    }
}

#[test]
fn the_environment_fills_what_the_url_leaves_out() {
    let env = |name: &str| match name {
        "PGHOST" => Some("envhost".to_owned()),
        "PGHOSTADDR" => Some("10.9.9.9".to_owned()),
        "PGPORT" => Some("7777".to_owned()),
        "PGUSER" => Some("envuser".to_owned()),
        "PGPASSWORD" => Some("envpass".to_owned()),
        "PGDATABASE" => Some("envdb".to_owned()),
        _ => None,
    };
    let table = [
        ("postgres://", r#"envuser "envpass" 10.9.9.9:7777 envdb"#),
        ("postgres://ann:pw@db:1/app", r#"ann "pw" db:1 app"#),
        ("postgres://ann@db/app", r#"ann "envpass" db:7777 app"#),
    ];
    for (url, expected) in table {
        let config = from_url(url, &upstream(&env)).expect(url);
        assert_eq!(summary(&config), expected, "{url}");
    }
    let only_user = |name: &str| (name == "USER").then(|| "me".to_owned());
    let config = from_url("postgres://db", &upstream(&only_user)).expect("USER is set");
    assert_eq!(summary(&config), r#"me "" db:5432 me"#);
}

#[test]
fn the_password_file_comes_last() {
    let file = "db:5432:app:ann:fromfile\nlocalhost:*:*:ann:fromsocket\n";
    let upstream = Upstream { passfile: Some(file), ..upstream(&nothing) };
    let table = [
        ("postgres://ann@db/app", "fromfile"),
        ("postgres://ann:pw@db/app", "pw"),
        ("postgres://ann@db/app?hostaddr=10.0.0.1", "fromfile"),
        ("postgres://ann@/app", "fromsocket"),
        ("postgres://ann@/app?host=/tmp", "fromsocket"),
        ("postgres://ann@/app?host=/elsewhere", ""),
    ];
    for (url, expected) in table {
        let config = from_url(url, &upstream).expect(url);
        assert!(summary(&config).contains(&format!("{expected:?}")), "{url}: {}", summary(&config));
    }
}

#[test]
fn clients_are_trusted_on_this_machine_only_and_only_without_a_password() {
    use ::settings::AuthType;
    let with =
        |url: &str, listen: &'static str| from_url(url, &Upstream { listen: Some(listen), ..upstream(&nothing) });
    for listen in ["127.0.0.1:6432", "[::1]:6432", "localhost", ":6543", "::1", "127.0.0.9"] {
        let config = with("postgres://u@h/d", listen).expect(listen);
        assert_eq!(config.pooling.global.login.auth_type, AuthType::Trust, "{listen}");
        assert_eq!(config.warnings.len(), 1, "{listen}: it is said so");
    }
    for listen in ["*", "*:6432", "0.0.0.0:6432", "[::]:6432", "10.0.0.1", "example.net:1"] {
        let problem = with("postgres://u@h/d", listen).expect_err(listen);
        assert_eq!(problem.key.as_deref(), Some("password"), "{listen}");
        let config = with("postgres://u:pw@h/d", listen).expect(listen);
        assert_eq!(config.pooling.global.login.auth_type, AuthType::Scram, "{listen}");
        assert!(config.warnings.is_empty());
    }
    for listen in ["", "a b", "h:x", "h:99999", "1:2:3", "/tmp"] {
        let is_default = listen.is_empty();
        assert_eq!(with("postgres://u:p@h/d", listen).is_ok(), is_default, "{listen:?}");
    }
}

#[test]
fn where_to_listen_is_a_port_an_address_or_both() {
    let at = |listen: &str| {
        let config = from_url("postgres://u:p@h/d", &Upstream { listen: Some(listen), ..upstream(&nothing) })?;
        Ok(format!(
            "{} {}",
            config.pooling.global.listening.listen_addr.join(","),
            config.pooling.global.listening.listen_port
        ))
    };
    let table = [
        ("27450", "127.0.0.1 27450"),
        (":27450", "127.0.0.1 27450"),
        ("10.0.0.5", "10.0.0.5 6432"),
        ("10.0.0.5:27450", "10.0.0.5 27450"),
        ("example.net:27450", "example.net 27450"),
        ("*:27450", "* 27450"),
        ("[::1]:27450", "::1 27450"),
        ("[::1]", "::1 6432"),
    ];
    for (listen, expected) in table {
        assert_eq!(at(listen).map_err(|problem: Problem| problem.to_string()), Ok(expected.to_owned()), "{listen}");
    }
    for listen in ["0", "70000", "127.0.0.1:0", "h:x"] {
        let problem = at(listen).expect_err(listen).to_string();
        assert!(problem.contains(listen) && problem.contains("a port from 1 to 65535"), "{problem}");
    }
}

#[test]
fn no_message_repeats_a_password() {
    let urls = [
        "postgres://u:hunter2%@h/d",
        "postgres://u:hunter2@h:x/d",
        "postgres://u:hunter2@h/d?port=y",
        "http://u:hunter2@h/d",
        "u:hunter2@h/d",
        "postgres://u@h/d?password=hunter2&nonsense=1",
        "postgres://u@h/d?password=hunter2%",
        // As base64 has it, and nobody has encoded it.
        "postgres://u:hunter2/xyz@h/d",
        "postgres://u:xyz/hunter2@h/d",
        "postgres://u:123/hunter2@h/d",
        "postgres://u:hunter2?xyz@h/d",
        "postgres://u:xyz?hunter2@h/d",
        "postgres://u:xyz?hunter2=1@h/d",
        "postgres://u:xyz&hunter2@h:x/d",
        "postgres://u@h/d?sslpassword=hunter2",
        "postgres://u@h/d?options=hunter2",
    ];
    for url in urls {
        // Where the URL's own user cannot be found, somebody is.
        for env in [&nothing as &dyn Fn(&str) -> Option<String>, &|name| (name == "USER").then(|| "ann".to_owned())] {
            let problem = from_url(url, &upstream(env)).expect_err(url);
            assert!(!problem.to_string().contains("hunter2"), "{problem}");
        }
    }
    let config = from_url("postgres://u:hunter2@h/d", &upstream(&nothing)).expect("it is well-formed");
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_user_with_the_password_may_run_every_console_command() {
    let rights = |url: &str| {
        let settings = from_url(url, &upstream(&nothing)).expect("a sound URL").pooling;
        (settings.global.console.admin_users.contains("ann"), settings.global.console.stats_users.contains("ann"))
    };
    assert_eq!(rights("postgres://ann:secret@db/app"), (true, false));
    assert_eq!(rights("postgres://ann@db/app"), (false, true), "whoever says to be ann");
}

fn assignments(pairs: &[(&str, &str)]) -> Vec<Assignment> {
    let of = |(name, text): &(&str, &str)| Assignment {
        variable: format!("PGWEIR_{}", name.to_uppercase()),
        name: (*name).to_owned(),
        text: (*text).to_owned(),
        is_of_file: false,
    };
    pairs.iter().map(of).collect()
}

fn many(urls: &[&str], pairs: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let read = |name: &str| match name {
        "users.txt" => Ok(b"\"bob\" \"other\"\n\"ann\" \"old\"\n".to_vec()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
    };
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    let upstream = Upstream { assignments: &assignments(pairs), ..upstream(&nothing) };
    from_urls(&urls, &upstream, &read).map_err(|problems| problems.iter().map(Problem::to_string).collect())
}

#[test]
fn the_environment_may_have_any_setting() {
    let url = ["postgres://ann:pw@db/app"];
    let config =
        many(&url, &[("pool_mode", "session"), ("listen_addr", "*"), ("auth_file", "users.txt")]).expect("sound");
    assert_eq!(config.pooling.global.pools.pool_mode, ::settings::PoolMode::Session);
    assert_eq!(config.pooling.global.listening.listen_addr, ["*"]);
    let users: Vec<&String> = config.pooling.secrets.keys().collect();
    assert_eq!(users, ["ann", "bob"]);
    assert!(
        matches!(&config.pooling.secrets["ann"], Secret::Plain(password) if password.as_str() == "pw"),
        "the URL counts"
    );
    let shown = |key: &str| config.rows.iter().find(|row| row.key == key).and_then(|row| row.value.clone());
    assert_eq!(shown("pool_mode").as_deref(), Some("session"), "SHOW CONFIG has it");
}

/// As SET and RELOAD of a process that serves it.
#[test]
fn users_of_urls_stay_whatever_auth_file_is_set() {
    let url = ["postgres://ann:pw@db/app"];
    let read = |_: &str| Ok(b"\"bob\" \"other\"\n\"ann\" \"old\"\n".to_vec());
    let config = many(&url, &[]).expect("sound").set_with("auth_file", "users.txt", &read).expect("a file");
    assert_eq!(config.pooling.secrets.keys().collect::<Vec<_>>(), ["ann", "bob"]);
    assert!(matches!(&config.pooling.secrets["ann"], Secret::Plain(password) if password.as_str() == "pw"));
    let again = config.reload_urls(&url.map(str::to_owned), &upstream(&nothing), &read).expect("the same once more");
    assert_eq!(again.pooling.secrets.keys().collect::<Vec<_>>(), ["ann"], "a SET is undone");
}

/// A password file that the process may not read any more, a Secret that is just being written.
#[test]
fn a_reload_that_finds_no_password_keeps_the_last_one() {
    let (with, without) = ("postgres://ann:pw@db/app".to_owned(), "postgres://ann@db/app".to_owned());
    let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let reload =
        |config: &Config, url: &String| config.reload_urls(std::slice::from_ref(url), &upstream(&nothing), &read);
    let password = |config: &Config| match &config.pooling.secrets["ann"] {
        Secret::Plain(password) => password.as_str().to_owned(),
        other => panic!("{other:?}"),
    };
    let config = from_url(&with, &upstream(&nothing)).expect("sound");
    let again = reload(&config, &without).expect("the last one stays");
    assert_eq!(
        (password(&again).as_str(), again.pooling.global.login.auth_type),
        ("pw", config.pooling.global.login.auth_type)
    );
    let warned = again.warnings.iter().any(|warning| warning.found == "none for user \"ann\" any more");
    assert!(warned, "{:?}", again.warnings);
    let again = reload(&again, &"postgres://ann:new@db/app".to_owned()).expect("a new one");
    assert_eq!(password(&again), "new");
    let refused = reload(&again, &"postgres://bob@db/app".to_owned()).expect_err("nobody has said that bob is trusted");
    assert!(refused[0].to_string().starts_with("password: found none, expected one: "), "{refused:?}");
    let trusted = from_url(&without, &upstream(&nothing)).expect("sound");
    assert!(reload(&trusted, &without).expect("as before").warnings.len() <= trusted.warnings.len());
}

/// Compose gives a variable that has no value so.
#[test]
fn a_variable_without_a_value_is_not_set_where_empty_is_no_value() {
    let url = ["postgres://ann:pw@db/app"];
    let names = ["auth_type", "pool_mode", "default_pool_size", "max_client_conn"];
    let empty = many(&url, &names.map(|name| (name, ""))).expect("as if they were not there");
    let none = many(&url, &[]).expect("sound");
    assert_eq!(empty.pooling.global, none.pooling.global);
    let config = many(&url, &[("unix_socket_dir", "")]).expect("no socket");
    assert_eq!(config.pooling.global.listening.unix_socket_dir, None);
}

#[test]
fn a_value_of_a_file_is_not_repeated() {
    let mut assignments = assignments(&[("max_client_conn", "hunter2"), ("conffile", "/etc/x.ini")]);
    assignments[0].is_of_file = true;
    let upstream = Upstream { assignments: &assignments, ..upstream(&nothing) };
    let url = ["postgres://ann:pw@db/app".to_owned()];
    let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let wrong = from_urls(&url, &upstream, &read).expect_err("two mistakes");
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert!(wrong[0].starts_with("PGWEIR_MAX_CLIENT_CONN: found what its file has, expected "), "{wrong:?}");
    assert!(wrong[1].starts_with("PGWEIR_CONFFILE: found the name of a file, expected nothing"), "{wrong:?}");
}

#[test]
fn the_console_is_for_reading_only_where_nobody_proves_who_they_are() {
    let rights = |url: &str, variables: &[(&str, &str)]| {
        let console = many(&[url], variables).expect("sound").pooling.global.console;
        let names = |users: BTreeSet<String>| users.into_iter().collect::<Vec<_>>().join(",");
        format!("admin_users = {}; stats_users = {}", names(console.admin_users), names(console.stats_users))
    };
    let (with, without) = ("postgres://ann:pw@db/app", "postgres://ann@db/app");
    assert_eq!(rights(with, &[]), "admin_users = ann; stats_users = ");
    assert_eq!(rights(without, &[]), "admin_users = ; stats_users = ann");
    for auth_type in ["trust", "any"] {
        assert_eq!(rights(with, &[("auth_type", auth_type)]), "admin_users = ; stats_users = ann");
    }
    assert_eq!(rights(with, &[("admin_users", "dba")]), "admin_users = dba; stats_users = ");
    assert_eq!(rights(with, &[("admin_users", "")]), "admin_users = ; stats_users = ");
    assert_eq!(rights(with, &[("auth_type", "trust"), ("admin_users", "ann")]), "admin_users = ann; stats_users = ann");
}

#[test]
fn the_command_line_counts_more_than_the_environment() {
    let assignments = assignments(&[("listen_addr", "*"), ("listen_port", "7000"), ("default_pool_size", "9")]);
    let of = |listen, pool_size| {
        let upstream = Upstream { assignments: &assignments, listen, pool_size, ..upstream(&nothing) };
        let config = from_url("postgres://ann:pw@db/app", &upstream).expect("sound");
        let global = config.pooling.global;
        (global.listening.listen_addr.join(","), global.listening.listen_port, global.pools.default_pool_size)
    };
    assert_eq!(of(None, None), ("*".to_owned(), 7000, PoolSize::Fixed(9)));
    let size = Some(PoolSize::Fixed(3));
    assert_eq!(of(Some("10.0.0.5:27450"), size), ("10.0.0.5".to_owned(), 27450, PoolSize::Fixed(3)));
}

#[test]
fn a_variable_that_is_wrong_is_named() {
    let url = ["postgres://ann:pw@db/app"];
    let wrong = many(&url, &[("pool_mode", "sesion"), ("default_pool_size", "many")]).expect_err("two mistakes");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong.iter().any(|text| text.starts_with("PGWEIR_POOL_MODE: found \"sesion\", expected ")), "{wrong:?}");
    assert!(wrong.iter().any(|text| text.starts_with("PGWEIR_DEFAULT_POOL_SIZE: found \"many\"")), "{wrong:?}");
    let config = many(&url, &[("pool_mod", "session")]).expect("it may be somebody else's");
    let warnings: Vec<String> = config.warnings.iter().map(Problem::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("PGWEIR_POOL_MOD: ") && warnings[0].ends_with("did you mean pool_mode?"),
        "{warnings:?}"
    );
}

/// A variable can neither open what the URL's password closes by mistake, nor be in the way of another method.
#[test]
fn a_variable_that_opens_the_door_has_to_say_so() {
    let without = ["postgres://ann@db/app"];
    let refused = many(&without, &[("listen_addr", "127.0.0.1,*")]).expect_err("everybody could come in");
    assert!(refused[0].starts_with("password: found none for user \"ann\" while listening on"), "{refused:?}");
    let config = many(&without, &[("listen_addr", "*"), ("auth_type", "scram-sha-256"), ("auth_file", "users.txt")]);
    assert_eq!(config.expect("users.txt says who may").pooling.secrets.len(), 2);
    let config = many(&["postgres://ann:pw@db/app"], &[("listen_addr", "*"), ("auth_type", "trust")]);
    assert!(config.is_ok(), "somebody wants it so: {config:?}");
}

#[test]
fn several_urls_are_several_databases() {
    let urls = ["postgres://ann:pw@a/app", "postgres://bob:pw2@b:7/app2", "old=postgres://ann:pw@c/app"];
    let config = many(&urls, &[]).expect("three of them");
    let hosts = |name: &str| config.pooling.databases[name].hosts.iter().map(shown).collect::<Vec<_>>().join(",");
    assert_eq!((hosts("app"), hosts("app2"), hosts("old")), ("a:5432".into(), "b:7".into(), "c:5432".into()));
    assert_eq!(config.pooling.databases["old"].dbname.as_deref(), Some("app"));
    assert_eq!(config.pooling.databases["app"].dbname, None);
    assert_eq!(config.pooling.secrets.keys().collect::<Vec<_>>(), ["ann", "bob"]);
    assert!(config.pooling.fallback.is_none(), "whose would it be?");
    assert!(config.pooling.global.console.admin_users.contains("ann"));
    assert!(!config.pooling.global.console.admin_users.contains("bob"));
}

#[test]
fn urls_that_contradict_each_other_are_refused() {
    let table = [
        (
            ["postgres://u:p@a/d", "postgres://u:p@b/d"],
            "database: found \"d\" in two URLs, expected another name for one of them, as in other=postgres://…",
        ),
        (
            ["postgres://u:p@a/d", "postgres://u:q@b/e"],
            "password: found two passwords for user \"u\", expected one, since clients of all databases prove it",
        ),
        (
            ["postgres://u:p@a/d", "postgres://v@b/e"],
            "password: found none for user \"v\", expected one for each URL, or for none of them",
        ),
        (
            ["postgres://u:p@a/d?sslmode=require", "postgres://v:p@b/e?sslmode=disable"],
            "server_tls_sslmode: found two values in the URLs, expected one, since it holds for all servers",
        ),
        (
            ["postgres://u:p@a/pgbouncer", "postgres://v:p@b/e"],
            "database: found \"pgbouncer\", expected another name, as in other=postgres://…: this one is the console's",
        ),
        (
            ["=postgres://u:p@a/d", "postgres://v:p@b/e"],
            "database: found a name of 0 bytes, expected a name of 1 to 127 bytes",
        ),
    ];
    for (urls, expected) in table {
        assert_eq!(many(&urls, &[]).expect_err("it is wrong"), [expected], "{urls:?}");
    }
    // Only the part in front of the scheme is a name.
    let config = many(&["postgres://ann:a=b@db/app?application_name=x"], &[]).expect("one");
    assert!(config.pooling.databases.contains_key("app"));
}
