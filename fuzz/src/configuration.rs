//! What a user writes: ini files with what they include, and URLs.
//!
//! Asserts that a file that is refused is refused with an error that names a line that is there; that messages have one
//! line; that the settings of a file that is accepted mean the same when they are written as SHOW CONFIG shows them, set
//! again, or loaded again; that no message about a URL repeats its password.

use std::io;

use config::problem::PROBLEMS_MAX;
use config::{Config, Problem, Severity, Upstream};
use settings::PoolSize;

use crate::tape::Tape;

/// Ends one file and begins the next, in the order of [`FILES`].
const NEXT_FILE: u8 = 0x1e;
const FILES: [&str; 4] = ["weir.ini", "users.txt", "other.ini", "classes.conf"];

/// A password that occurs nowhere else.
const PASSWORD: &str = "kzXq9.wMv7";

/// All that needs libraries of the system: nothing is refused for the lack of them.
const BUILT: config::Built = config::Built { pam: true, gssapi: true };

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    match tape.byte() % 2 {
        0 => files(tape.rest()),
        _ => url(&mut tape),
    }
}

fn files(bytes: &[u8]) {
    let texts: Vec<&[u8]> = bytes.splitn(FILES.len(), |byte| *byte == NEXT_FILE).collect();
    let read = |name: &str| match FILES.iter().position(|file| *file == name) {
        Some(file) => Ok(texts.get(file).map_or(Vec::new(), |text| text.to_vec())),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    match config::load_with(FILES[0], 2, BUILT, &read) {
        Ok(config) => {
            assert!(config.warnings.iter().all(|problem| problem.severity == Severity::Warning));
            check_problems(&config.warnings, &texts);
            let page = config::explain(&config);
            assert!(page.len() > 1 && !page.contains(|c: char| c.is_control() && c != '\n'), "{page:?}");
            means_the_same(&config, &read, bytes.len());
        }
        Err(problems) => {
            assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "refused without a reason");
            check_problems(&problems, &texts);
        }
    }
}

fn check_problems(problems: &[Problem], texts: &[&[u8]]) {
    assert!(problems.len() <= 10 * PROBLEMS_MAX, "{} problems", problems.len());
    for problem in problems {
        let words = problem.to_string();
        assert!(!words.contains(['\n', '\0', '\x1b']), "{words:?}");
        assert!(!problem.found.is_empty() && !problem.expected.is_empty(), "{words}");
        let Some(file) = FILES.iter().position(|file| *file == problem.file) else {
            assert!(problem.file.is_empty() && problem.line == 0, "a file that was not read: {words}");
            continue;
        };
        let lines = texts.get(file).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count()) + 1;
        assert!(problem.line as usize <= lines, "line {} of {lines}: {words}", problem.line);
        assert!(words.starts_with(FILES[file]), "{words}");
    }
}

/// What one sees is what one has: read once more, set one by one, or written down.
fn means_the_same(config: &Config, read: &config::ini::Read<'_>, chosen: usize) {
    let again = config.reload_with(read).expect("it was read before");
    assert_eq!((&again.pooling, &again.rows), (&config.pooling, &config.rows), "a reload of the same file");
    let mut text = String::from("[pgbouncer]\n");
    // One a run: each makes the configuration anew.
    let row = &config.rows[chosen % config.rows.len()];
    // NULL cannot be set, nor written down.
    if let Some(value) = &row.value {
        let set = config.set(row.key, value).expect("a value that is shown can be set");
        assert_eq!(set.rows, config.rows, "SET {} to what it is", row.key);
    }
    // The rules of class_file are about classes, which are no setting.
    let rows = || config.rows.iter().filter(|row| row.key != "class_file");
    for row in rows() {
        text.extend(row.value.iter().map(|value| format!("{} = {value}\n", row.key)));
    }
    let written = config::load_with(FILES[0], 2, BUILT, &|_: &str| Ok(text.clone().into_bytes()));
    let written = written.unwrap_or_else(|problems| panic!("what is shown is refused: {problems:?}"));
    let differ =
        rows().zip(written.rows.iter().filter(|row| row.key != "class_file")).find(|(shown, read)| shown != read);
    assert_eq!(differ, None, "what is shown is read again as it was");
}

/// `postgres://USER:password@REST`, beside an environment and a password file.
fn url(tape: &mut Tape<'_>) {
    let listen = ["127.0.0.1:6432", "*", "[::1]", "localhost"][usize::from(tape.byte()) % 4];
    let user = tape.counted();
    let passfile = String::from_utf8_lossy(tape.counted()).into_owned();
    let Ok(rest) = std::str::from_utf8(tape.rest()) else { return };
    // Else the password would not stand where one is looked for.
    let user: String = user.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(|byte| char::from(*byte)).collect();
    let env = |name: &str| (name == "PGPORT").then(|| "5433".to_owned());
    let upstream = Upstream {
        env: &env,
        assignments: &[],
        passfile: Some(&passfile),
        listen: Some(listen),
        pool_size: Some(PoolSize::Auto),
        cores: 2,
        built: BUILT,
    };
    let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    for url in [format!("postgres://{user}:{PASSWORD}@{rest}"), rest.to_owned()] {
        match config::from_urls(&[url], &upstream, &no_file) {
            Ok(config) => {
                let page = config::explain(&config);
                assert!(!page.is_empty() && !page.contains(PASSWORD), "{page}");
                assert!(config.warnings.iter().all(|problem| !problem.to_string().contains(PASSWORD)));
                assert_eq!(config.pooling.databases.len(), 1);
                let database = config.pooling.databases.values().next().expect("there is one");
                assert!(!database.hosts.is_empty());
            }
            Err(problems) => {
                assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{problems:?}");
                for words in problems.iter().map(ToString::to_string) {
                    assert!(!words.contains('\n') && !words.contains(PASSWORD), "{words}");
                }
            }
        }
    }
}
