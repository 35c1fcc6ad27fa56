//! PAM decides about logins: the pooler's verdict on each is PostgreSQL's own, in its words, by the same lines of pg_hba.conf and
//! the same modules. Where this PostgreSQL is built without PAM, the table alone says what is right.
//!
//! Services are files of `/etc/pam.d`, so this needs root. They have names of their own, and are removed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use outer::{Pooler, Stage, Wishes, eventually};

/// The password comes on standard input with a NUL behind it. What it hears goes into a file. `stuck` is checked until `hold` is
/// gone.
const CHECK: &str = "#!/bin/sh
given=$(tr -d '\\000')
echo \"$PAM_TYPE $PAM_USER at $PAM_RHOST\" >> {dir}/heard
[ \"$PAM_USER\" != stuck ] || while [ -e {dir}/hold ]; do sleep 0.1; done
case $PAM_USER:$given in ann:right | expired:right | denied:right | 'Jürgen Groß:rïght wörd' | dave:right) exit 0 ;; esac
exit 1
";
const ACCOUNT: &str = "#!/bin/sh
echo \"$PAM_TYPE $PAM_USER at $PAM_RHOST\" >> {dir}/heard
[ \"$PAM_USER\" != expired ]
";

/// Services of PAM with their files. Dropping it removes them.
struct Services {
    folder: PathBuf,
    /// In front of their names.
    prefix: String,
}

impl Services {
    /// `None`, and a line that begins with `SKIPPED`: they cannot be had here.
    fn make() -> Option<Services> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED pam: only root may add services to /etc/pam.d");
            return None;
        }
        let prefix = format!("pgweir-{}-{}", std::process::id(), demo::free_port());
        let folder = std::env::temp_dir().join(&prefix);
        fs::create_dir(&folder).expect("the port makes the name fresh");
        let services = Services { folder, prefix };
        let dir = services.folder.display().to_string();
        for (name, text, mode) in [("check", CHECK, 0o755), ("account", ACCOUNT, 0o755), ("denied", "denied\n", 0o644)]
        {
            services.write(name, &text.replace("{dir}", &dir), mode);
        }
        services.write("heard", "", 0o666);
        services.service(
            "whole",
            &format!(
                "auth required pam_exec.so expose_authtok {dir}/check\n\
                 account required pam_listfile.so item=user sense=deny onerr=fail file={dir}/denied\n\
                 account required pam_exec.so quiet {dir}/account\n"
            ),
        );
        services.service("open", "auth required pam_permit.so\naccount required pam_permit.so\n");
        services.service("shut", "auth required pam_deny.so\naccount required pam_permit.so\n");
        Some(services)
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("a fresh folder is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    fn service(&self, name: &str, text: &str) {
        fs::write(Path::new("/etc/pam.d").join(self.name(name)), text).expect("root may");
    }

    fn name(&self, service: &str) -> String {
        format!("{}-{service}", self.prefix)
    }

    /// What modules have heard since this was asked last.
    fn heard(&self) -> String {
        let heard = fs::read_to_string(self.folder.join("heard")).expect("it was written");
        self.write("heard", "", 0o666);
        heard
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for service in ["whole", "open", "shut"] {
            let _ = fs::remove_file(Path::new("/etc/pam.d").join(self.name(service)));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Each has a service of its own; nobody has made that of `missing`.
const DATABASES: [&str; 4] = ["whole", "open", "shut", "missing"];
const USERS: [&str; 6] = ["ann", "Jürgen Groß", "expired", "denied", "dave", "nobody"];
const PASSWORDS: [&str; 3] = ["right", "rïght wörd", "wrong"];

/// Whether PAM lets this user in with this password.
fn is_let_in(database: &str, user: &str, password: &str) -> bool {
    match database {
        "whole" => matches!((user, password), ("ann" | "dave", "right") | ("Jürgen Groß", "rïght wörd")),
        "open" => true,
        _ => false,
    }
}

struct Setting {
    pooler: Pooler,
    stage: Stage,
    services: Services,
    compares: bool,
}

impl Setting {
    /// `None`, and a line that begins with `SKIPPED`: it cannot be made here.
    fn new(settings: &str) -> Option<Setting> {
        let binary = outer::full_binary("pam")?;
        let services = Services::make()?;
        let stage = Stage::set(&Wishes::default());
        // Dave is no role of PostgreSQL's.
        for role in ["ann", "Jürgen Groß", "expired", "denied", "stuck", "nobody"] {
            let _ = stage.direct(&format!("create role \"{role}\" login"));
        }
        let mut rules = "local all postgres trust\n".to_owned();
        for database in DATABASES {
            let _ = stage.direct(&format!("create database {database}"));
            let service = services.name(database);
            writeln!(rules, "local {database} all pam pamservice={service}").expect("it is a String");
            writeln!(rules, "host {database} all all pam pamservice={service}").expect("it is a String");
        }
        let theirs = stage.cluster.data().join("pg_hba.conf");
        fs::write(&theirs, &rules).expect("we are root or its owner");
        let wrong = stage.direct("select coalesce(string_agg(error, '; '), '') from pg_hba_file_rules");
        let compares = wrong.is_empty();
        assert!(compares || wrong.contains("not supported by this build"), "{wrong}");
        if !compares {
            fs::write(&theirs, "local all all trust\n").expect("we are root or its owner");
        }
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        services.write("hba.conf", &rules, 0o644);
        let pooler = pooler(&binary, &stage, &services, settings);
        Some(Setting { pooler, stage, services, compares })
    }

    /// The current user, or what follows `FATAL:` in psql's words.
    fn verdict(&self, host: &str, port: u16, login: (&str, &str, &str)) -> Result<String, String> {
        let (database, user, password) = login;
        let target =
            format!("host={host} port={port} user='{user}' dbname={database} password='{password}' sslmode=disable");
        let printed = outer::psql(&self.stage, &["-d", &target, "-Atc", "select current_user"]);
        let fatal =
            |words: String| words.split_once("FATAL:").map_or(words.clone(), |(_, fatal)| fatal.trim().to_owned());
        printed.map(|(out, _)| out.trim().to_owned()).map_err(fatal)
    }

    fn through(&self, login: (&str, &str, &str)) -> Result<String, String> {
        self.verdict("127.0.0.1", self.pooler.port, login)
    }
}

/// The pool logs in on PostgreSQL's Unix socket: with the password that the client has shown.
fn pooler(binary: &Path, stage: &Stage, services: &Services, settings: &str) -> Pooler {
    let ini = format!(
        "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{dir}}\n\
         auth_type = hba\nauth_hba_file = {}/hba.conf\npool_mode = transaction\nserver_login_retry = 0\n\
         auth_failure_delay = 0\n{settings}",
        stage.cluster.socket_dir().display(),
        stage.cluster.port(),
        services.folder.display()
    );
    Pooler::start_program(binary, &ini, "", None, &[])
}

#[test]
fn every_login_gets_the_verdict_of_postgresql_in_its_words() {
    let Some(setting) = Setting::new("") else { return };
    let socket = setting.stage.cluster.socket_dir().display().to_string();
    let (port, dir) = (setting.stage.cluster.port(), setting.pooler.dir().display().to_string());
    let mut allowed = 0;
    for (database, user) in DATABASES.iter().flat_map(|database| USERS.map(|user| (*database, user))) {
        // What Debian's service `other` does with a wrong password takes two seconds.
        let passwords = match (database, user) {
            ("missing", "ann") => &PASSWORDS[..1],
            ("missing", _) => &[],
            _ => &PASSWORDS[..],
        };
        for (login, [ours, theirs]) in passwords
            .iter()
            .map(|password| (database, user, *password))
            .flat_map(|login| [["127.0.0.1", "127.0.0.1"], [&*dir, &*socket]].map(|hosts| (login, hosts)))
        {
            let through = setting.verdict(ours, setting.pooler.port, login);
            let heard = setting.services.heard();
            if setting.compares {
                assert_eq!(through, setting.verdict(theirs, port, login), "{login:?} at {ours}");
                // The pool's own login asks PAM about the same once more.
                let direct = setting.services.heard();
                assert!(heard.starts_with(&direct), "{login:?} at {ours}: {heard} and {direct}");
            }
            let expected = match is_let_in(login.0, login.1, login.2) {
                // PAM knows it, and PostgreSQL does not.
                true if user == "dave" => Err("role \"dave\" does not exist".to_owned()),
                true => Ok(user.to_owned()),
                false => Err(format!("PAM authentication failed for user \"{user}\"")),
            };
            assert_eq!(through, expected, "{login:?} at {ours}");
            let host = if ours == dir { "" } else { ours };
            let is_heard = heard.contains(&format!("auth {user} at {host}\n"));
            assert_eq!(is_heard, database == "whole", "{login:?}: {heard}");
            allowed += usize::from(through.is_ok());
        }
    }
    println!("{allowed} logins allowed, compared with PostgreSQL: {}", setting.compares);
    assert_eq!(allowed, 2 * (2 + 5 * 3));
    for (what, service, why) in [
        ("pam_authenticate", "whole", "System error"),
        ("pam_acct_mgmt", "whole", "Authentication failure"),
        ("pam_authenticate", "shut", "Authentication failure"),
        ("pam_authenticate", "missing", "Authentication failure"),
    ] {
        let words = format!("{what} of PAM's service \"{}\" failed: {why}", setting.services.name(service));
        eventually(&words, || setting.pooler.log().contains(&words));
    }
    // The log is in order: once the last login is in it, everything before is.
    assert!(setting.through(("shut", "the last of all", "wrong")).is_err());
    eventually("the last one is in the log", || setting.pooler.log().contains("the last of all"));
    assert!(!setting.pooler.log().contains("rïght"), "a password is in the log");
}

/// Nobody else waits for a module that does not return, and neither does its client, for longer than a login may take. It returns when it is
/// let go of, and not before.
#[test]
fn a_module_that_hangs_holds_its_own_thread_only() {
    let Some(setting) = Setting::new("client_login_timeout = 3600\nauth_threads = 2\n") else { return };
    setting.services.write("hold", "", 0o644);
    thread::scope(|scope| {
        let stuck = scope.spawn(|| setting.through(("whole", "stuck", "right")));
        eventually("its module has begun", || setting.services.heard().contains("auth stuck"));
        for _ in 0..4 {
            assert_eq!(setting.through(("whole", "ann", "right")).as_deref(), Ok("ann"));
        }
        assert!(!stuck.is_finished(), "its module has not returned, and it has time");
        // Another pooler, which gives it a second.
        let binary = outer::full_binary("pam").expect("there is one");
        let hasty = pooler(&binary, &setting.stage, &setting.services, "client_login_timeout = 1\n");
        let told = setting.verdict("127.0.0.1", hasty.port, ("whole", "stuck", "right"));
        assert_eq!(told, Err("client_login_timeout".to_owned()));
        // Its thread is free once the module returns.
        fs::remove_file(setting.services.folder.join("hold")).expect("it was written above");
        assert!(stuck.join().expect("it does not panic").is_err(), "its password is wrong");
    });
    assert_eq!(setting.through(("whole", "ann", "right")).as_deref(), Ok("ann"));
}

/// `auth_type = pam` asks PgBouncer's service. Nobody has made that one, and `other` lets nobody in.
#[test]
fn without_a_service_nobody_comes_in() {
    let Some(binary) = outer::full_binary("pam") else { return };
    if Path::new("/etc/pam.d/pgbouncer").exists() {
        println!("SKIPPED pam: this machine has a service pgbouncer");
        return;
    }
    let stage = Stage::set(&Wishes::default());
    let ini = format!(
        "[databases]\npostgres = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = pam\nauth_failure_delay = 0\npool_mode = transaction\n",
        stage.cluster.socket_dir().display(),
        stage.cluster.port()
    );
    let pooler = Pooler::start_program(&binary, &ini, "", None, &[]);
    let target = format!("host=127.0.0.1 port={} user=postgres dbname=postgres password=right", pooler.port);
    let why = outer::psql(&stage, &["-d", &target, "-Atc", "select 1"]).expect_err("nobody may");
    assert!(why.contains("PAM authentication failed for user \"postgres\""), "{why}");
    let words = "pam_authenticate of PAM's service \"pgbouncer\" failed";
    eventually(words, || pooler.log().contains(words));
}
