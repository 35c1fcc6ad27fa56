//! The built program from outside, as far as no PostgreSQL is needed: what it prints, and its exit status.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output};

const PGWEIR: &str = env!("CARGO_BIN_EXE_pgweir");

fn run(arguments: &[&str]) -> Output {
    Command::new(PGWEIR).args(arguments).output().expect("the program was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("we write UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("we write UTF-8")
}

/// A file with these contents, gone at the end of the test.
struct Ini(PathBuf);

impl Ini {
    fn new(name: &str, text: &str) -> Ini {
        let path = std::env::temp_dir().join(format!("pgweir-{}-{name}.ini", std::process::id()));
        std::fs::write(&path, text).expect("the directory for temporary files is writable");
        Ini(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("we named it")
    }
}

impl Drop for Ini {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn version_is_one_that_exporters_can_read() {
    for flag in ["-V", "--version"] {
        let output = run(&[flag]);
        assert!(output.status.success());
        let text = stdout(&output);
        let [first, second] = [0, 1].map(|line| text.lines().nth(line).expect("a line"));
        assert_eq!(first, control::version::text());
        let number = first.strip_prefix("PgBouncer ").expect("PgBouncer's name stands first");
        assert!(number.split('.').all(|part| part.parse::<u32>().is_ok()), "{first}");
        assert_eq!(second, format!("pgweir {}", control::version::PGWEIR));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn help_goes_to_stdout() {
    for flag in ["-h", "--help"] {
        let output = run(&[flag]);
        assert!(output.status.success());
        assert!(stdout(&output).contains("CONFIG_FILE"));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn a_command_explains_itself() {
    for command in ["run", "dev", "bench", "auth-setup", "check", "import"] {
        let output = run(&["help", command]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains(&format!("Usage: pgweir {command}")) && text.contains("Examples:"), "{text}");
        assert_eq!(stdout(&run(&[command, "--help"])), text);
    }
}

#[test]
fn mistakes_on_the_command_line_end_with_one_and_a_hint() {
    let table: &[(&[&str], &str)] = &[
        (&[], "no configuration file specified"),
        (&["--frob"], "unrecognized option '--frob'"),
        (&["-x"], "invalid option -- 'x'"),
        (&["auth-setup"], "auth-setup needs a URL"),
        (&["check"], "check needs a configuration file"),
        (&["benhc"], "unrecognized command 'benhc'; did you mean 'bench'?"),
        (&["runn", "postgres://h/d"], "unrecognized command 'runn'; did you mean 'run'?"),
    ];
    for (arguments, expected) in table {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = stderr(&output);
        assert!(text.contains(expected), "{text}");
        assert!(text.ends_with("for more information.\n") && text.contains("Try \""), "{text}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn check_says_what_a_good_file_means() {
    let text = "[databases]\napp = host=127.0.0.1 port=5432 pool_size=7\n[pgbouncer]\npool_mode = transaction\n";
    let ini = Ini::new("good", text);
    let output = run(&["check", ini.path()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("app") && text.contains("transaction"), "{text}");
}

#[test]
fn check_names_file_line_key_and_what_was_expected() {
    let ini = Ini::new("bad", "[databases]\n[pgbouncer]\nlisten_port = abc\npool_mod = session\n");
    let output = run(&["check", ini.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    let place = |line: u32| format!("{}:{line}", ini.path());
    assert!(text.contains(&place(3)) && text.contains("listen_port") && text.contains("abc"), "{text}");
    assert!(text.contains(&place(4)) && text.contains("pool_mod"), "{text}");
    // And what the rest means.
    let text = stdout(&output);
    assert!(
        text.starts_with("Without its mistakes the file means:\n\nListening\n  Unix socket /tmp/.s.PGSQL.6432"),
        "{text}"
    );
}

#[test]
fn import_says_whether_pgweir_can_serve_a_file_and_what_differs() {
    let ini = Ini::new(
        "import",
        "[databases]\napp = host=127.0.0.1\n[pgbouncer]\npool_mode = transaction\nadmin_users = adm, misspelt\n",
    );
    let output = run(&["import", ini.path()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("pgweir can serve this file.\n") && text.contains("pool_fidelity = classic"), "{text}");
    assert!(stderr(&output).contains("\"misspelt\""), "{}", stderr(&output));
    let ini = Ini::new("import-bad", "[databases]\n[pgbouncer]\nchaos_poison = 1\n");
    let output = run(&["import", ini.path()]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("chaos_poison: found \"1\""));
}

/// Each was "can serve this file", and FATAL at the start.
#[test]
fn check_and_import_refuse_what_the_start_refuses() {
    let table = [
        ("logfile = /nonexistent/log", "logfile: found \"/nonexistent/log\" (No such file or directory)"),
        ("pidfile = /nonexistent/pid", "pidfile: found \"/nonexistent/pid\" (No such file or directory)"),
        ("unix_socket_dir = /nonexistent", "unix_socket_dir: found \"/nonexistent\" (No such file or directory)"),
        ("unix_socket_dir =\nlisten_addr =", "listen_addr: found nothing, expected an address"),
        ("user = no-such-user", "user: found \"no-such-user\", expected a user of this system"),
        (
            "unix_socket_group = no-such-group",
            "unix_socket_group: found \"no-such-group\" (there is no group no-such-group)",
        ),
        ("resolv_conf = /nonexistent/resolv.conf", "resolv_conf: found no usable file: /nonexistent/resolv.conf: "),
        ("resolv_conf = /dev/null", "resolv_conf: found no usable file: /dev/null: "),
        // TEST-NET-1 of RFC 5737.
        ("listen_addr = 192.0.2.1", "listen_addr: found \"192.0.2.1:6432\" ("),
        ("listen_addr = no-such-host.invalid", "listen_addr: found \"no-such-host.invalid\" ("),
        ("http_listen = 192.0.2.1:9127", "http_listen: found \"192.0.2.1:9127\" ("),
        (
            "http_listen = 127.0.0.1:6432\nlisten_addr = *",
            "http_listen: found \"127.0.0.1:6432\", expected another port than listen_port",
        ),
        (
            "client_tls_sslmode = require\nclient_tls_cert_file = /nonexistent/a\nclient_tls_key_file = /nonexistent/b",
            "client_tls_cert_file: found no usable file: cannot read \"/nonexistent/a\": No such file or directory",
        ),
        (
            "server_tls_sslmode = verify-ca\nserver_tls_ca_file = /dev/null",
            "server_tls_ca_file: found no usable file: \"/dev/null\" cannot be used: it holds no certificate in PEM",
        ),
    ];
    for (number, (settings, words)) in table.into_iter().enumerate() {
        let text = format!("[databases]\n* = host=127.0.0.1\n[pgbouncer]\n{settings}\n");
        let ini = Ini::new(&format!("start-{number}"), &text);
        for command in ["check", "import"] {
            let output = run(&[command, ini.path()]);
            assert_eq!(output.status.code(), Some(1), "{command}: {settings}");
            assert_eq!(stdout(&output).is_empty(), command == "import", "{command}: {settings}");
            assert!(
                stderr(&output).contains(&format!("error: {}:4: {words}", ini.path())) || settings.contains('\n'),
                "{}",
                stderr(&output)
            );
            assert!(stderr(&output).contains(words), "{command}: {}", stderr(&output));
        }
    }
}

/// The rights of the file's user count, also when root checks the file.
#[test]
fn check_refuses_what_the_user_of_the_file_may_not_write() {
    let sealed = std::env::temp_dir().join(format!("pgweir-{}-sealed", std::process::id()));
    std::fs::create_dir_all(&sealed).expect("the directory for temporary files is writable");
    let key = sealed.join("key");
    std::fs::write(&key, "of nobody's").expect("the folder is ours");
    std::fs::set_permissions(&key, Permissions::from_mode(0o000)).expect("the file is ours");
    std::fs::set_permissions(&sealed, Permissions::from_mode(0o555)).expect("the folder is ours");
    // Root may write everywhere, and becomes another user.
    let is_root = std::fs::metadata(&key).expect("it was just written").uid() == 0;
    let user = if is_root { "user = nobody\n" } else { "" };
    let folder = sealed.to_str().expect("we named it");
    let settings = [
        format!("logfile = {folder}/log"),
        format!("pidfile = {folder}/pid"),
        format!("unix_socket_dir = {folder}"),
        format!(
            "client_tls_sslmode = require\nclient_tls_key_file = {folder}/key\nclient_tls_cert_file = {folder}/key"
        ),
    ];
    for (number, settings) in settings.iter().enumerate() {
        let text = format!("[databases]\n* = host=127.0.0.1\n[pgbouncer]\n{user}{settings}\n");
        let ini = Ini::new(&format!("sealed-{number}"), &text);
        let output = run(&["check", ini.path()]);
        assert_eq!(output.status.code(), Some(1), "{settings}");
        assert!(stderr(&output).contains("Permission denied"), "{settings}: {}", stderr(&output));
    }
    std::fs::remove_dir_all(&sealed).expect("the folder is ours");
}

#[test]
fn a_url_in_the_wrong_place_is_named_without_its_password() {
    let url = "postgres://u:secret@h/db";
    let wrong = "postgres:/u:secret@h/db";
    for arguments in [
        &["health", url][..],
        &["dev", url],
        &["check", url],
        &["import", url],
        &["doctor", wrong],
        &["profile", wrong],
        &[url],
        &["a.ini", url],
    ] {
        let output = run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let told = stderr(&output) + &stdout(&output);
        assert!(!told.contains("secret") && told.contains("…@h"), "{arguments:?}: {told}");
    }
}

/// systemd creates such folders when the service starts, and a package is checked before that.
#[test]
fn check_accepts_a_folder_that_systemd_creates() {
    let settings = "unix_socket_dir = /run/no-such-folder\npidfile = /run/no-such-folder/pid\n";
    let ini = Ini::new("runtime", &format!("[databases]\n* = host=127.0.0.1\n[pgbouncer]\n{settings}"));
    let output = run(&["check", ini.path()]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn check_of_a_missing_file_fails() {
    let output = run(&["check", "/nonexistent/pgbouncer.ini"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nonexistent/pgbouncer.ini"));
}

#[test]
fn a_file_that_cannot_be_used_is_fatal() {
    let ini = Ini::new("unusable", "[databases]\n[pgbouncer]\nfrob = abc\n");
    for file in ["/nonexistent/pgbouncer.ini", ini.path()] {
        let output = run(&[file]);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(text.contains("ERROR ") && text.contains("FATAL cannot load config file"), "{text}");
        assert!(text.contains(file), "{text}");
        let quiet = run(&["-q", file]);
        assert_eq!(quiet.status.code(), Some(1));
        // What keeps it from starting is said nowhere else.
        let told = stderr(&quiet);
        assert!(told.contains("ERROR ") && told.contains("FATAL cannot load config file"), "{told}");
    }
}
