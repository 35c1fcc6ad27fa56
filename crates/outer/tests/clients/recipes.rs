//! The recipes of the guide, followed to the letter: each block with `recipe=NAME` in order, files written where it says, commands run
//! as they stand. Only places are others: a folder of the test's own for `/etc`, `/run` and `/var`, localhost for the hosts, free ports.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outer::examples::{self, Block, Kind};
use outer::shown::{commands, is_shown};
use outer::{Authority, Program, Stage};

/// What is typed where a command asks: the password that the recipe's file has.
const TYPED: &str = "what you have typed at \\password";

/// A reader who follows a recipe.
struct Cook {
    stage: Stage,
    authority: Authority,
    /// In place of `/`.
    root: PathBuf,
    port: u16,
    /// Where the application's language has its programs, and what it needs in the environment.
    language: Option<Language>,
}

/// A language that an application is written in. Its programs run as ourselves: another account may not reach them.
struct Language {
    programs: Option<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Language {
    /// Django's: the environment that `tools/python` makes.
    fn python() -> Language {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python =
            std::env::var_os("PGWEIR_PYTHON").map_or_else(|| root.join("../../.cache/venv/bin/python"), PathBuf::from);
        assert!(python.exists(), "no Python with drivers at {}: run tools/python", python.display());
        let password = ("DJANGO_SUPERUSER_PASSWORD", PathBuf::from("of no use to anybody"));
        Language { programs: python.parent().map(Path::to_owned), environment: vec![password] }
    }

    /// What a script of `tools/` has fetched beside the program that it prints. `None`: it is not to be had here.
    fn beside(tool: &str, name: &'static str, wanted: impl Fn(&Path) -> Option<PathBuf>) -> Option<Language> {
        let program = Program::built_by(tool)?;
        let home = Path::new(program.command().get_program()).parent().map(Path::to_owned).expect("it has a folder");
        let path = wanted(&home).unwrap_or_else(|| panic!("tools/{tool} has left nothing in {}", home.display()));
        Some(Language { programs: None, environment: vec![(name, path)] })
    }
}

/// A driver's jar in this folder.
fn jar(home: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(home).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|it| it == "jar"))
}

impl Cook {
    fn new(language: Option<Language>) -> Cook {
        let (stage, authority) = Stage::encrypted();
        let port = demo::free_port();
        let root = PathBuf::from(format!("/tmp/outer-recipe-{}-{port}", std::process::id()));
        let cook = Cook { stage, authority, root, port, language };
        let dirs = [
            "",
            "bin",
            "etc",
            "etc/pgweir",
            "run",
            "run/pgweir",
            "srv",
            "srv/shop",
            "var",
            "var/log",
            "var/log/pgweir",
        ];
        for dir in dirs {
            fs::create_dir(cook.root.join(dir)).expect("a fresh folder");
            cook.own(&cook.root.join(dir));
        }
        measure::program::place(&outer::binary(), &cook.root.join("bin/pgweir")).expect("the binary is readable");
        cook
    }

    /// Gives a file to whoever runs PostgreSQL and the program.
    fn own(&self, path: &Path) {
        if let Some(account) = self.stage.cluster.account() {
            chown(path, Some(account.uid), Some(account.gid)).expect("root may");
        }
    }

    fn write(&self, path: &Path, text: &str) {
        fs::write(path, text).expect("our own folder");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("our own file");
        self.own(path);
    }

    /// The text with our places.
    fn here(&self, text: &str) -> String {
        let root = self.root.display().to_string();
        let mut text = text.to_owned();
        for dir in ["/etc/pgweir", "/run/pgweir", "/srv/shop", "/var/log/pgweir"] {
            text = text.replace(dir, &format!("{root}{dir}"));
        }
        let text = text.replace("db1.example.org", "localhost").replace("pooler.example.org", "localhost");
        text.replace("5432", &self.stage.cluster.port().to_string()).replace("6432", &self.port.to_string())
    }

    /// Writes a block's file. Lines of pg_hba.conf come first in PostgreSQL's.
    fn file(&self, name: &str, text: &str) {
        let text = self.here(text);
        if name == "pg_hba.conf" {
            let path = self.stage.cluster.data().join(name);
            let rest = fs::read_to_string(&path).expect("it is there");
            return self.write(&path, &format!("{text}{rest}"));
        }
        self.write(Path::new(&self.here(name)), &text);
    }

    /// Runs a command away from the terminal, as the unprivileged user unless it is the application's. What it prints.
    fn run(&self, command: &str) -> String {
        let psql = self.stage.binaries.program("psql").expect("it is needed");
        let programs = self.language.iter().filter_map(|language| language.programs.clone());
        let dirs = [self.root.join("bin"), psql.parent().expect("a folder").to_owned()].into_iter().chain(programs);
        let path = std::env::join_paths(dirs.chain(std::env::split_paths("/usr/bin:/bin")));
        let mut shell = Command::new("setsid");
        shell.args(["-w", "bash", "-c", &format!("exec 2>&1\n{}", self.here(command))]).env_clear();
        shell.env("PATH", path.expect("no colons")).env("HOME", &self.root).env("PSQLRC", "/dev/null");
        shell.env("PGSSLROOTCERT", self.authority.path("ca.crt"));
        let is_applications = command.starts_with("cd /srv/");
        let environment = self.language.iter().flat_map(|language| &language.environment);
        shell.envs(environment.map(|(name, value)| (*name, value)));
        if let Some(account) = self.stage.cluster.account().filter(|_| !is_applications) {
            shell.uid(account.uid).gid(account.gid);
        }
        let mut child = shell
            .current_dir(&self.root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("setsid is here");
        // A command that does not ask may be gone already.
        let _ = child.stdin.take().expect("piped").write_all(format!("{TYPED}\n{TYPED}\n").as_bytes());
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn follow(&self, block: &Block) {
        if let Some(name) = block.setting("file") {
            return self.file(name, &block.text);
        }
        assert_eq!(block.kind, Kind::Console, "{}: neither commands nor a file", block.place);
        for (command, shown) in commands(block) {
            let printed = self.run(&command);
            println!("$ {command}\n{printed}");
            let mut lines = printed.lines();
            for expected in shown {
                let is_there = lines.any(|line| is_shown(line, &self.here(&expected)));
                assert!(is_there, "{}: $ {command}\nshows\n{expected}\nand prints\n{printed}", block.place);
            }
        }
    }
}

impl Drop for Cook {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.root.join("run/pgweir/pgweir.pid"));
        if let Some(pid) = pid.ok().and_then(|text| rustix::process::Pid::from_raw(text.trim().parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.root.join("var/log/pgweir/pgweir.log"));
            println!("pgweir's log:\n{}", log.unwrap_or_default());
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The steps of a recipe.
fn steps(name: &str) -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = examples::all(&root).expect("every block says how it is run");
    blocks.into_iter().filter(|block| block.setting("recipe") == Some(name)).collect()
}

#[test]
fn cerns_set_up_works_as_it_is_written() {
    let steps = steps("cern");
    assert!(steps.len() >= 7, "{} steps", steps.len());
    let cook = Cook::new(None);
    // What the reader has: a database, its user ann, a superuser's password, and certificates.
    let _ = cook.stage.direct("create database shop");
    let user = cook.stage.cluster.user();
    let password = cook.stage.cluster.password();
    assert_eq!(user, "postgres", "the recipe's superuser");
    cook.write(&cook.root.join(".pgpass"), &format!("*:*:*:{user}:{password}\n*:*:*:ann:right\n"));
    for (name, file) in [("server.crt", "pooler.crt"), ("server.key", "pooler.key"), ("ca.crt", "ca.crt")] {
        let text = fs::read_to_string(cook.authority.path(file)).expect("just signed");
        cook.write(&cook.root.join("etc/pgweir").join(name), &text);
    }
    steps.iter().for_each(|block| cook.follow(block));
    let log = fs::read_to_string(cook.root.join("var/log/pgweir/pgweir.log")).expect("it has one");
    assert!(!log.contains(TYPED) && !log.contains("SCRAM-SHA-256$"), "secrets are in no log");
    let encrypted = "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) where ssl and usename in ('ann', 'secure_auth_login')";
    assert_ne!(cook.stage.direct(encrypted), "0", "pgweir reaches PostgreSQL over TLS");
}

/// An application's recipe, in front of a database `shop` of its user `app`.
fn follow(name: &str, language: Language) {
    let steps = steps(name);
    assert!(steps.len() >= 5, "{} steps", steps.len());
    let cook = Cook::new(Some(language));
    let _ = cook.stage.direct("create role app login password 'secret'");
    let _ = cook.stage.direct("create database shop owner app");
    steps.iter().for_each(|block| cook.follow(block));
    let served = "select count(*) from pg_stat_database where datname = 'shop' and sessions > 0";
    assert_eq!(cook.stage.direct(served), "1", "it was PostgreSQL that answered");
    let log = fs::read_to_string(cook.root.join("var/log/pgweir/pgweir.log")).expect("it has one");
    assert!(log.contains(": shop/app@") && log.contains("new connection to server"), "through pgweir: {log}");
}

#[test]
fn djangos_recipe_works_as_it_is_written() {
    follow("django", Language::python());
}

#[test]
fn sqlalchemys_recipe_works_as_it_is_written() {
    follow("sqlalchemy", Language::python());
}

#[test]
fn pg_dumps_recipe_works_as_it_is_written() {
    follow("pg_dump", Language { programs: None, environment: Vec::new() });
}

#[test]
fn secrets_that_change_are_followed_as_it_is_written() {
    let steps = steps("secrets");
    assert!(steps.len() >= 7, "{} steps", steps.len());
    let cook = Cook::new(None);
    let _ = cook.stage.direct("create role app login password 'secret'");
    let _ = cook.stage.direct("create database shop owner app");
    // As a vault makes it.
    let _ = cook.stage.direct("create role v_app_2 login password 'lease' in role app");
    steps.iter().for_each(|block| cook.follow(block));
}

#[test]
fn nodes_recipe_works_as_it_is_written() {
    let beside = |home: &Path| Some(home.join("node_modules")).filter(|path| path.exists());
    if let Some(node) = Language::beside("node-postgres", "NODE_PATH", beside) {
        follow("node", node);
    }
}

#[test]
fn springs_recipe_works_as_it_is_written() {
    if let Some(java) = Language::beside("pgjdbc", "CLASSPATH", jar) {
        follow("spring", java);
    }
}
