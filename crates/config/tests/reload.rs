//! RELOAD and SET: what changes, what stays until a restart, what is refused.

use std::io;

use config::{Config, Severity};

fn load(text: &str) -> Config {
    config::load_with("weir.ini", 4, config::Built::default(), &read(text)).expect("the test's file is sound")
}

fn read(text: &str) -> impl Fn(&str) -> io::Result<Vec<u8>> {
    let text = text.to_owned();
    move |name| match name {
        "weir.ini" => Ok(text.clone().into_bytes()),
        "users.txt" => Ok(b"\"ann\" \"secret\"".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn row(config: &Config, key: &str) -> String {
    config.rows.iter().find(|row| row.key == key).expect("every setting has a row").value.clone().unwrap_or_default()
}

#[test]
fn a_reload_takes_up_what_it_can() {
    let running = load("[pgbouncer]\nlisten_port = 7000\nmax_client_conn = 50\nworkers = 2\n[databases]\na =");
    let file = "[databases]\nb =\n[pgbouncer]\nlisten_port = 7001\nunix_socket_dir = /run\nquery_timeout = 5\nauth_file = users.txt";
    let config = running.reload_with(&read(file)).expect("the new file is sound");
    assert_eq!(config.pooling.global.listening, running.pooling.global.listening, "nothing of it can change");
    assert_eq!(row(&config, "listen_port"), "7000");
    assert_eq!(config.pooling.workers, 2);
    assert_eq!(config.pooling.global.pools.max_client_conn, 100, "an absent setting is the default again");
    assert_eq!(row(&config, "query_timeout"), "5");
    assert!(config.pooling.secrets.contains_key("ann"));
    assert!(!config.pooling.databases.contains_key("a"));
    let hosts = format!("{:?}", config.pooling.databases["b"].hosts);
    assert!(hosts.contains("/tmp"), "the directory of the sockets stays too: {hosts}");
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "weir.ini: workers: found \"0\", expected \"2\" until the next restart",
            "weir.ini:4: listen_port: found \"7001\", expected \"7000\" until the next restart",
            "weir.ini:5: unix_socket_dir: found \"/run\", expected \"/tmp\" until the next restart",
        ]
    );
}

#[test]
fn what_follows_from_the_cores_stays() {
    let file = "[pgbouncer]\nworkers = 1";
    let running = config::load_with("weir.ini", 16, config::Built::default(), &read(file)).expect("the file is sound");
    assert_eq!(running.pooling.auto_pool_size_start, 32);
    let again = running.reload_with(&read(file)).expect("the file is sound");
    assert_eq!(again.pooling, running.pooling);
    let set = running.set("query_timeout", "0").expect("it can be set");
    assert_eq!(set.pooling, running.pooling);
}

#[test]
fn a_reload_of_a_broken_file_is_an_error() {
    let running = load("[pgbouncer]");
    let problems = running.reload_with(&read("[pgbouncer]\npool_mode = fast")).expect_err("the file is broken");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].severity, Severity::Error);
    assert!(running.reload_with(&|_| Err(io::ErrorKind::NotFound.into())).is_err());
}

#[test]
fn the_users_stay_while_auth_file_cannot_be_read() {
    let file = "[pgbouncer]\nauth_file = users.txt\n[databases]\n* =";
    let running = load(file);
    let without = |name: &str| if name == "users.txt" { Err(io::ErrorKind::NotFound.into()) } else { read(file)(name) };
    let config = running.reload_with(&without).expect("it is a warning");
    assert_eq!(config.pooling.secrets, running.pooling.secrets);
    assert_eq!(config.warnings.len(), 1);
    let config = running.reload_with(&read("[pgbouncer]\nauth_file =")).expect("the file is sound");
    assert!(config.pooling.secrets.is_empty(), "the setting is gone, and so are the users");
}

#[test]
fn a_class_file_is_read_again_and_a_broken_one_changes_nothing() {
    let ini = "[databases]\n* =\n[classes]\nweb = weight=2\njobs =\n[pgbouncer]\nclass_file = classes.conf\n";
    let files = |ini: &str, rules: Option<&str>| {
        let (ini, rules) = (ini.to_owned(), rules.map(str::to_owned));
        move |name: &str| match (name, &rules) {
            ("weir.ini", _) => Ok(ini.clone().into_bytes()),
            ("classes.conf", Some(rules)) => Ok(rules.clone().into_bytes()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let rules = "all all puma* all web\nall all all all jobs\n";
    let running = config::load_with("weir.ini", 4, config::Built::default(), &files(ini, Some(rules)))
        .expect("the test's files are sound");
    assert_eq!(running.pooling.classes.rules.len(), 2);

    let fewer = running.reload_with(&files(ini, Some("all all all all web\n"))).expect("sound");
    assert_eq!(fewer.pooling.classes.rules.len(), 1);
    assert!(fewer.warnings.iter().any(|warning| warning.to_string().contains("no rule names")));

    let broken = files(&format!("{ini}max_client_conn = 7\n"), Some("all all puma* all wbe\nall all all jobs\n"));
    let problems = running.reload_with(&broken).expect_err("nothing of it is taken up");
    let errors: Vec<String> =
        problems.iter().filter(|problem| problem.severity == Severity::Error).map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "classes.conf:1: class: found \"wbe\", expected a class of [classes], web, jobs, or default; did you mean web?",
            "classes.conf:2: found 4 fields, expected five: database user application tag class",
        ]
    );
    assert!(running.reload_with(&files(ini, None)).is_err(), "who is first is not decided by a file that is missing");

    // The class of a rule has gone: the rules stand on what the sections say now.
    let without = ini.replace("jobs =\n", "");
    assert!(running.reload_with(&files(&without, Some(rules))).is_err());
    let bare = running.reload_with(&read("[pgbouncer]\n")).expect("a file without classes");
    assert_eq!(bare.pooling.classes, std::sync::Arc::default());
}

#[test]
fn set_keeps_classes_and_rules() {
    let running = load("[classes]\nweb = weight=2\n[pgbouncer]\n");
    let set = running.set("class_ageing", "0.5").expect("a sound value");
    assert_eq!(set.pooling.classes.ageing, std::time::Duration::from_millis(500));
    assert_eq!(set.pooling.classes.all, running.pooling.classes.all);
    assert_eq!(running.set("default_pool_size", "7").expect("sound").pooling.classes, running.pooling.classes);
}

#[test]
fn set_changes_one_setting_until_the_next_reload() {
    let file = "[pgbouncer]\nauth_file = users.txt\n[databases]\na = host=10.0.0.1\n[users]\nann = pool_size=2";
    let running = load(file);
    let config = running.set("default_pool_size", "7").expect("a sound value");
    assert_eq!(config.pooling.global.pools.default_pool_size, settings::PoolSize::Fixed(7));
    assert_eq!(row(&config, "default_pool_size"), "7");
    assert_eq!(config.pooling.databases, running.pooling.databases);
    assert_eq!(config.pooling.users, running.pooling.users);
    assert_eq!(config.pooling.secrets, running.pooling.secrets);
    assert_eq!(config.reload_with(&read(file)), Ok(running.clone()));

    assert_eq!(running.set("listen_port", "7000"), Ok(running.clone()), "accepted, without effect");
    for (name, text) in [("default_pool_size", "many"), ("colour", "blue"), ("client_tls_sslmode", "require")] {
        let problem = running.set(name, text).expect_err(name);
        assert_eq!(problem.key.as_deref(), Some(name));
    }
}

#[test]
fn no_row_shows_the_password_for_the_directory() {
    let options = "ldapserver=a ldapbasedn=b ldapbinddn=c ldapbindpasswd=hunter2";
    let config = load(&format!("[pgbouncer]\nauth_ldap_options = {options}"));
    assert_eq!(row(&config, "auth_ldap_options"), "…");
    let config = load("[pgbouncer]\nauth_ldap_options = ldapserver=a ldapprefix=b");
    assert_eq!(row(&config, "auth_ldap_options"), "ldapserver=a ldapprefix=b");
}

#[test]
fn rows_are_those_of_pgbouncer_with_ours() {
    let config = load("[pgbouncer]\nquery_timeout = 1234567.5\nunix_socket_mode = 0750\nauth_type = SCRAM-sha-256");
    assert_eq!(config.rows.len(), 169);
    assert!(config.rows.is_sorted_by(|a, b| a.key < b.key));
    // As PgBouncer shows these three.
    assert_eq!(row(&config, "query_timeout"), "1.23457e+06");
    assert_eq!(row(&config, "unix_socket_mode"), "488");
    assert_eq!(row(&config, "auth_type"), "scram-sha-256");
    assert_eq!(row(&config, "conffile"), "weir.ini");
    assert_eq!(row(&config, "verbose"), "0");
    assert_eq!(row(&config, "workers"), "4", "what it comes to");
    let fixed: Vec<&str> = config.rows.iter().filter(|row| !row.changeable).map(|row| row.key).collect();
    assert_eq!(
        fixed,
        [
            "auth_gss_keytab",
            "auth_threads",
            "disable_pqexec",
            "http_hosts",
            "http_listen",
            "http_page",
            "job_name",
            "listen_addr",
            "listen_backlog",
            "listen_port",
            "pidfile",
            "pkt_buf",
            "resolv_conf",
            "so_reuseport",
            "statement_memo_size",
            "track_extra_parameters",
            "unix_socket_dir",
            "unix_socket_group",
            "unix_socket_mode",
            "user",
            "workers",
        ]
    );
}

#[test]
fn rules_with_a_mistake_leave_those_before() {
    let ini = "[pgbouncer]\nauth_type = hba\nauth_hba_file = hba.conf\nauth_ident_file = ident.conf\nauth_file = users.txt\n[databases]\na =";
    let files = |hba: &'static str, ident: &'static str| {
        move |name: &str| match name {
            "weir.ini" => Ok(ini.as_bytes().to_vec()),
            "users.txt" => Ok(b"\"ann\" \"secret\"".to_vec()),
            "hba.conf" => Ok(hba.as_bytes().to_vec()),
            "ident.conf" => Ok(ident.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let running =
        config::load_with("weir.ini", 1, config::Built::default(), &files("local all all peer map=m", "m root ann"))
            .expect("sound");
    let again = running.reload_with(&files("local all all\nlocal all all trust", "m root")).expect("the rules stay");
    assert_eq!((&again.pooling.hba, &again.pooling.ident), (&running.pooling.hba, &running.pooling.ident));
    let warnings: Vec<String> = again.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "weir.ini:3: auth_hba_file: found a file with mistakes, expected none: until then the lines that were read before hold",
            "weir.ini:4: auth_ident_file: found a file with mistakes, expected none: until then the lines that were read before hold",
            "hba.conf:1: auth_hba_file: found the end of the line, expected a method",
            "ident.conf:1: auth_ident_file: found the end of the line, expected a database user",
        ]
    );
    let changed = again.reload_with(&files("local all all trust", "m root ann")).expect("sound");
    assert_ne!(changed.pooling.hba, running.pooling.hba);
    assert!(changed.warnings.is_empty(), "{:?}", changed.warnings);
    let refused = config::load_with("weir.ini", 1, config::Built::default(), &files("local all all", ""))
        .expect_err("at the start it is an error");
    assert!(refused.iter().any(|problem| problem.severity == Severity::Error));
}

#[test]
fn rules_are_asked_for_on_the_console_only_where_there_are_some() {
    let problem = load("[pgbouncer]").set("auth_type", "hba").expect_err("there is no file");
    assert!(problem.to_string().contains("auth_hba_file beside it"), "{problem}");
    let files = |name: &str| match name {
        "weir.ini" => Ok(b"[pgbouncer]\nauth_hba_file = hba.conf".to_vec()),
        "hba.conf" => Ok(b"local all all trust".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let config = config::load_with("weir.ini", 1, config::Built::default(), &files)
        .expect("sound")
        .set("auth_type", "hba")
        .expect("there are rules");
    assert_eq!(config.pooling.hba.as_slice().len(), 1);
}

#[test]
fn rules_that_stay_know_the_provider_that_there_is_now() {
    let files = |jwks: &str, hba: &'static str| {
        let ini = format!(
            "[pgbouncer]\nauth_type = hba\nauth_hba_file = hba.conf\nauth_file = users.txt\n\
             auth_oauth_options = issuer=https://a audience=b jwks={jwks} scope=all map=its\n[databases]\na ="
        );
        move |name: &str| match name {
            "weir.ini" => Ok(ini.clone().into_bytes()),
            "hba.conf" => Ok(hba.as_bytes().to_vec()),
            "users.txt" => Ok(b"\"ann\" \"secret\"".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let told = |config: &Config| {
        let provider = config.pooling.hba.as_slice()[0].provider.clone().expect("it is the line's issuer");
        (provider.jwks.clone(), provider.scope.clone(), provider.map.clone())
    };
    let line = "host all all all oauth issuer=https://a scope=some";
    let running = config::load_with("weir.ini", 4, config::Built::default(), &files("/one", line));
    let running = running.expect("the file is sound");
    assert_eq!(told(&running), ("/one".to_owned(), "some".to_owned(), None));
    let again = running.reload_with(&files("/two", "host all all all")).expect("the lines of before stay");
    assert_eq!(told(&again), ("/two".to_owned(), "some".to_owned(), None));
    let set = again.set("auth_oauth_options", "issuer=https://a audience=b jwks=/three").expect("it can be set");
    assert_eq!(told(&set).0, "/three");
    let other = again.set("auth_oauth_options", "issuer=https://b audience=b jwks=/three").expect("it can be set");
    assert_eq!(other.pooling.hba.as_slice()[0].provider, None, "the line is about another issuer");
}

#[test]
fn a_set_that_names_a_file_reads_it() {
    let files = |name: &str| match name {
        "weir.ini" => {
            Ok(b"[pgbouncer]\nauth_type = hba\nauth_file = users.txt\nauth_hba_file = hba.conf\n[databases]\na ="
                .to_vec())
        }
        "users.txt" => Ok(b"\"ann\" \"secret\"".to_vec()),
        "others.txt" => Ok(b"\"bob\" \"secret\"\n\"eve\" \"secret\"".to_vec()),
        "hba.conf" => Ok(b"local all all trust".to_vec()),
        "other.conf" => Ok(b"local all all reject\nhost all all 127.0.0.1/32 trust".to_vec()),
        "wrong.conf" => Ok(b"local all all".to_vec()),
        "ident.conf" => Ok(b"m root ann".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let running = config::load_with("weir.ini", 1, config::Built::default(), &files).expect("sound");
    let set = |key: &str, value: &str| running.set_with(key, value, &files).expect("it can be set");
    let users = |config: &Config| config.pooling.secrets.keys().cloned().collect::<Vec<_>>();
    assert_eq!(users(&running), ["ann"]);
    assert_eq!(users(&set("auth_file", "others.txt")), ["bob", "eve"]);
    assert_eq!(users(&set("auth_file", "")), [""; 0]);
    let gone = set("auth_file", "nowhere.txt");
    assert_eq!((users(&gone), row(&gone, "auth_file").as_str()), (vec!["ann".to_owned()], "nowhere.txt"));
    assert!(gone.warnings.iter().any(|problem| problem.to_string().contains("nowhere.txt")), "{:?}", gone.warnings);
    assert!(set("auth_ident_file", "ident.conf").pooling.ident.has("m"));
    let other = set("auth_hba_file", "other.conf");
    assert_ne!(other.pooling.hba, running.pooling.hba);
    // Another SET reads no file, and leaves what was read.
    let none = |_: &str| -> io::Result<Vec<u8>> { panic!("no file is named") };
    let later = other.set_with("default_pool_size", "7", &none).expect("it can be set");
    assert_eq!(later.pooling.hba, other.pooling.hba);
    let wrong = set("auth_hba_file", "wrong.conf");
    assert_eq!(wrong.pooling.hba, running.pooling.hba, "the lines that were read before hold");
    assert!(wrong.warnings.iter().any(|problem| problem.to_string().contains("a file with mistakes")));
}
