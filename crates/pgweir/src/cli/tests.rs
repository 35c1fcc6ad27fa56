//! Command lines, what they mean, and what is said of those that mean nothing.

use config::url::SERVERS_MAX;
use machine::Settings;
use programs::{Bench, Dev, Wishes};
use stacks::Tool;

use super::*;

fn parsed(line: &str) -> Result<Invocation, Misuse> {
    parse(line.split_whitespace().map(OsString::from))
}

fn serve(file: &str, flags: Flags) -> Result<Invocation, Misuse> {
    Ok(Invocation::Serve { file: file.into(), flags })
}

fn dev(dev: Dev) -> Result<Invocation, Misuse> {
    Ok(Invocation::Beside(Errand::Dev(dev)))
}

fn bench(url: Option<&str>, wishes: Wishes) -> Result<Invocation, Misuse> {
    Ok(Invocation::Beside(Errand::Bench(Bench { url: url.map(str::to_owned), wishes })))
}

fn sized(size: PoolSize) -> Sized {
    Sized { pool_size: Some(size) }
}

fn run(listen: &str, flags: Flags) -> Result<Invocation, Misuse> {
    let (urls, listen) = (vec!["postgres://h/d".to_owned()], Some(listen.to_owned()));
    Ok(Invocation::Run { urls, listen, pool_size: None, flags })
}

fn profiled(looked: Looked, more: &dyn Fn(&mut Look)) -> Result<Invocation, Misuse> {
    let mut look = Look::default();
    match &looked {
        Looked::File(file) => look.file = Some(file.clone()),
        Looked::PidFile(file) => look.pid_file = Some(file.clone()),
        Looked::Pooler(pid) => look.pid = Some(*pid),
        Looked::Backend(pid) => look.backend = Some(*pid),
        Looked::Backends { url, event } => (look.postgres, look.waiting) = (Some(url.clone()), event.clone()),
    }
    more(&mut look);
    Ok(Invocation::Profile { looked, look })
}

fn help(line: &str) -> String {
    match parsed(line) {
        Ok(Invocation::Help(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

// tidy: a table of lines
#[test]
fn a_table_of_lines() {
    let nobody = || Flags { user: Some("nobody".to_owned()), ..Flags::default() };
    let quiet = || Flags { quiet: true, ..Flags::default() };
    let table = [
        ("-V", Ok(Invocation::Version)),
        ("a.ini --version", Ok(Invocation::Version)),
        ("a.ini", serve("a.ini", Flags::default())),
        ("./run", serve("./run", Flags::default())),
        ("-- run", serve("run", Flags::default())),
        ("a.ini -u nobody", serve("a.ini", nobody())),
        ("-unobody a.ini", serve("a.ini", nobody())),
        ("--user=nobody a.ini", serve("a.ini", nobody())),
        ("--user nobody a.ini", serve("a.ini", nobody())),
        ("-u root -u nobody a.ini", serve("a.ini", nobody())),
        ("-dqv -v a.ini", serve("a.ini", Flags { daemon: true, quiet: true, verbose: 2, ..Flags::default() })),
        ("-q --quiet a.ini", serve("a.ini", quiet())),
        ("--qui a.ini", serve("a.ini", quiet())),
        ("-R a.ini", serve("a.ini", Flags { reboot: true, ..Flags::default() })),
        ("check x.ini", Ok(Invocation::Check { file: "x.ini".into() })),
        ("dev", dev(Dev::default())),
        (
            "dev --port 7000 --data=/d --pool-size 20",
            dev(Dev { port: Some(7000), data: Some("/d".into()), size: sized(PoolSize::Fixed(20)), ..Dev::default() }),
        ),
        ("dev --pool-size auto -q", dev(Dev { size: sized(PoolSize::Auto), quiet: true, ..Dev::default() })),
        ("bench", bench(None, Wishes::default())),
        (
            "bench postgres://h/d --quick --scale 3 --only cern --only linux-6",
            bench(
                Some("postgres://h/d"),
                Wishes {
                    quick: true,
                    scale: Some(3),
                    only: vec!["cern".to_owned(), "linux-6".to_owned()],
                    ..Wishes::default()
                },
            ),
        ),
        (
            "auth-setup postgres://h/d --apply --role asker",
            Ok(Invocation::AuthSetup { url: "postgres://h/d".to_owned(), role: "asker".to_owned(), apply: true }),
        ),
        (
            "observe-setup postgres://h/d",
            Ok(Invocation::ObserveSetup {
                url: "postgres://h/d".to_owned(),
                role: "pgweir_observer".to_owned(),
                apply: false,
            }),
        ),
        ("run", Ok(Invocation::Run { urls: Vec::new(), listen: None, pool_size: None, flags: Flags::default() })),
        (
            "run postgres://h/d --pool-size 7 x=postgres://h/e",
            Ok(Invocation::Run {
                urls: vec!["postgres://h/d".to_owned(), "x=postgres://h/e".to_owned()],
                listen: None,
                pool_size: Some(PoolSize::Fixed(7)),
                flags: Flags::default(),
            }),
        ),
        ("health", Ok(Invocation::Health { address: None, only_live: false })),
        (
            "doctor a.ini --replicas 3 --json",
            Ok(Invocation::Doctor(Examination {
                pooler: Some("a.ini".to_owned()),
                replicas: Some(3),
                json: true,
                ..Examination::default()
            })),
        ),
        ("health --live [::1]:9", Ok(Invocation::Health { address: Some("[::1]:9".to_owned()), only_live: true })),
        ("top", Ok(Invocation::Top(Watching::default()))),
        (
            "top postgres://h/pgbouncer --once --view waits --table pool --span 15min --interval 0.5",
            Ok(Invocation::Top(Watching {
                url: Some("postgres://h/pgbouncer".to_owned()),
                view: Some("waits".to_owned()),
                table: Some("pool".to_owned()),
                span: Some("15min".to_owned()),
                interval: Some(Duration::from_millis(500)),
                once: true,
                ..Watching::default()
            })),
        ),
        ("run postgres://h/d --listen :7000", run(":7000", Flags::default())),
        ("run --listen 27450 postgres://h/d -u nobody", run("27450", nobody())),
        ("-q run postgres://h/d --listen 27450", run("27450", quiet())),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line), expected, "{line}");
    }
}

#[test]
fn a_table_of_what_is_profiled() {
    let table = [
        ("profile a.ini", profiled(Looked::File("a.ini".into()), &|_| {})),
        (
            "profile --pid 7 --by gdb --yes",
            profiled(Looked::Pooler(7), &|look| (look.by, look.yes) = (Some(Tool::Gdb), true)),
        ),
        ("profile --pid-file p", profiled(Looked::PidFile("p".into()), &|_| {})),
        ("profile --backend 8 --rate 99", profiled(Looked::Backend(8), &|look| look.rate = Some(99))),
        (
            "profile --postgres postgres://h/d --waiting IO --folded -",
            profiled(Looked::Backends { url: "postgres://h/d".to_owned(), event: Some("IO".to_owned()) }, &|look| {
                look.folded = Some("-".into());
            }),
        ),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line), expected, "{line}");
    }
}

#[test]
fn a_table_of_mistakes() {
    let table = [
        ("", "no configuration file specified"),
        ("-q", "no configuration file specified"),
        ("--frob a.ini", "unrecognized option '--frob'"),
        ("-x", "invalid option -- 'x'"),
        ("-qx a.ini", "invalid option -- 'x'"),
        ("a.ini b.ini", "one argument too many: b.ini"),
        ("a.ini b.ini c.ini", "one argument too many: b.ini"),
        ("a.ini run", "one argument too many: run"),
        ("check", "check needs a configuration file"),
        ("import", "import needs a configuration file"),
        ("auth-setup", "auth-setup needs a URL, as in auth-setup 'postgres://user@host/db'"),
        ("observe-setup", "observe-setup needs a URL, as in observe-setup 'postgres://user@host/db'"),
        ("dev x", "one argument too many: x"),
        (
            "dev --listen db:x",
            "invalid value 'db:x' for '--listen <ADDR>': a port from 1 to 65535, an address, or both, such as 6432, 10.0.0.5, *:6432 or \
             [::1]:6432 is needed",
        ),
        ("dev --listen 7000 --port 7000", "the argument '--listen <ADDR>' cannot be used with '--port <PORT>'"),
        ("dev --port 70000", "invalid value '70000' for '--port <PORT>': a port is a number up to 65535"),
        (
            "dev --pool-size 0",
            "invalid value '0' for '--pool-size <N|auto>': auto or a number from 1 to 10000 is needed",
        ),
        ("a.ini --pool-size 5", "--pool-size is for \"run\" and \"dev\" only"),
        ("a.ini --live", "--live is for \"health\" only"),
        ("doctor", "doctor needs a configuration file, a console's URL, or --postgres URL"),
        ("doctor a.ini --replicas 0", "invalid value '0' for '--replicas <N>': a number from 1 to 10000 is needed"),
        ("-q doctor a.ini", "\"doctor\" has no option --quiet"),
        ("health a b", "one argument too many: b"),
        ("-q health", "\"health\" has no option --quiet"),
        ("profile", "profile needs a configuration file, --pid, --pid-file, --postgres or --backend"),
        (
            "profile --pid 7 a.ini",
            "profile looks at one: a configuration file, --pid, --pid-file, --postgres or --backend",
        ),
        ("profile a.ini --waiting IO", "--waiting needs --postgres"),
        ("profile --pid 0", "invalid value '0' for '--pid <PID>': a process id is a number from 1"),
        ("profile --pid 7 --by strace", "invalid value 'strace' for '--by <TOOL>': perf or gdb is needed"),
        ("profile --pid 7 --seconds 601", "invalid value '601' for '--seconds <N>': a number from 1 to 600 is needed"),
        ("-v profile a.ini", "\"profile\" has no option --verbose"),
        ("-q top", "\"top\" has no option --quiet"),
        ("top --interval 0", "invalid value '0' for '--interval <S>': a number of seconds from 0.1 to 3600 is needed"),
        ("a.ini --port 7000", "--port is for \"dev\" only"),
        ("bench --scale 0", "invalid value '0' for '--scale <N>': a number from 1 to 10000 is needed"),
        ("dev --quick", "--quick is for \"bench\" only"),
        ("bench a b", "one argument too many: b"),
        ("bench --listen :1", "--listen is for \"run\" and \"dev\" only"),
        ("bench --quik", "unrecognized option '--quik'; did you mean '--quick'?"),
        ("-d run postgres://h/d", "\"run\" has no option --daemon"),
        ("-q check a.ini", "\"check\" has no option --quiet"),
        ("runn postgres://h/d", "unrecognized command 'runn'; did you mean 'run'?"),
        ("runn postgres://h/d --listen 27450", "unrecognized command 'runn'; did you mean 'run'?"),
        ("benhc --quick", "unrecognized command 'benhc'; did you mean 'bench'?"),
        ("chekc a.ini", "unrecognized command 'chekc'; did you mean 'check'?"),
        ("help runn", "there is no command runn"),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line).map_err(|misuse| misuse.text), Err(expected.to_owned()), "{line}");
    }
    assert!(parsed("a.ini -u").is_err());
}

#[test]
fn a_word_that_is_near_a_command_is_taken_for_it_unless_it_is_a_files_name() {
    for (word, near) in [("benhc", "bench"), ("chek", "check"), ("rum", "run"), ("hlep", "help")] {
        let misuse = meant(Path::new(word)).unwrap_or_else(|| panic!("{word}"));
        assert!(misuse.text.ends_with(&format!("did you mean '{near}'?")), "{}", misuse.text);
    }
    for word in ["a.ini", "./rum", "etc/bench", "pgbouncer", "settings", ""] {
        assert_eq!(meant(Path::new(word)), None, "{word}");
    }
}

#[test]
fn a_mistake_names_the_help_that_explains_it() {
    let hint = |line: &str| parsed(line).map_err(|misuse| misuse.help("pgweir"));
    assert_eq!(hint("bench --quik"), Err("pgweir help bench".to_owned()));
    assert_eq!(hint("auth-setup"), Err("pgweir help auth-setup".to_owned()));
    assert_eq!(hint("--frob a.ini"), Err("pgweir --help".to_owned()));
}

#[test]
fn help_comes_by_command_with_examples() {
    let options: &[(&str, &[&str])] = &[
        (
            "",
            &[
                "-d,",
                "-q,",
                "-R,",
                "-u,",
                "-v,",
                "-V,",
                "-h,",
                "run ",
                "dev ",
                "bench ",
                "check ",
                "import ",
                "CONFIG_FILE",
            ],
        ),
        ("run", &["--listen", "--pool-size", "-u,", "PGPASSWORD"]),
        ("dev", &["--port", "--data", "--pool-size"]),
        ("bench", &["--only", "--rounds", "--scale", "--quick", "--out", "--no-fsync", "PGBOUNCER"]),
        ("auth-setup", &["--role", "--apply", "psql"]),
        ("observe-setup", &["--role", "--apply", "psql"]),
        (
            "profile",
            &["--postgres", "--waiting", "--backend", "--pid-file", "--by", "--yes", "--folded", "CONFIG_FILE"],
        ),
        ("check", &["CONFIG_FILE"]),
        ("import", &["CONFIG_FILE"]),
    ];
    for (command, options) in options.iter().copied() {
        let text = help(&format!("help {command}"));
        for option in options {
            assert!(text.contains(option), "{command}: {option} in {text}");
        }
        assert!(text.contains("Examples:\n  "), "{text}");
        assert_eq!(help(&format!("{command} --help")), text);
        assert_eq!(help(&format!("{command} -h")), text);
    }
    assert!(help("--help --frob").contains("CONFIG_FILE"), "the first that is asked for is answered");
}

#[test]
fn help_says_the_sizes_that_hold() {
    let settings = Settings::default();
    let sizes =
        format!("from {} to {}", settings.global.pools.auto_pool_size_min, settings.global.pools.auto_pool_size_max);
    let text = help("help run").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&sizes) && text.contains(&format!("at most {SERVERS_MAX} for all databases")), "{text}");
}
