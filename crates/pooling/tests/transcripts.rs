//! Situations as text: every file under `tests/transcripts/` is played against one door, one coordinator and some
//! workers, and must come out as it stands there. `runner/verbs` says what may happen in one.
//!
//! * `UPDATE=1` writes what comes out into the files; read the difference before you keep it.
//! * `TRANSCRIPT=vanish` plays only files whose path contains the word, and shows what comes out.
//! * A file whose first line is `# open: …` is known to fail, and must: it shows a bug that is not repaired yet.

#![allow(clippy::disallowed_methods, reason = "the crate is pure, its tests read their files")]

mod runner;

use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use runner::transcript::Transcript;

#[test]
fn transcripts() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let only = std::env::var("TRANSCRIPT").ok();
    let update = std::env::var_os("UPDATE").is_some();
    let mut paths = Vec::new();
    find(&root, &mut paths);
    paths.sort();
    assert!(paths.len() >= 10, "only {} transcripts", paths.len());
    let (mut failures, mut open) = (String::new(), 0);
    let progress = watched();
    for path in paths {
        let name = path.strip_prefix(&root).expect("it was found there").display().to_string();
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        progress.send(name.clone()).expect("whoever watches lives as long as we do");
        match judge(&path, update, only.is_some()) {
            Ok(Verdict::Holds) => {}
            Ok(Verdict::Open) => open += 1,
            Err(why) => {
                let _ = writeln!(failures, "==== {name}\n{why}");
            }
        }
    }
    println!("{open} transcripts are open");
    assert!(failures.is_empty(), "\n{failures}");
}

/// A step that never ends would hang the test without a word: somebody else looks at the clock.
fn watched() -> Sender<String> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (sender, names) = channel::<String>();
    std::thread::spawn(move || {
        let mut last = String::new();
        loop {
            match names.recv_timeout(PATIENCE) {
                Ok(name) => last = name,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("{last} does not come to an end");
                    std::process::exit(101);
                }
            }
        }
    });
    sender
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the transcripts are beside this file") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            find(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "txt") {
            paths.push(path);
        }
    }
}

enum Verdict {
    Holds,
    Open,
}

fn judge(path: &Path, update: bool, show: bool) -> Result<Verdict, String> {
    let text = fs::read_to_string(path).expect("transcripts are text");
    let transcript = Transcript::read(&text)?;
    let played = guarded(|| runner::play(&transcript));
    if show {
        match &played {
            Ok(answers) => println!("{}", transcript.write(answers)),
            Err(why) => println!("{}: {why}", path.display()),
        }
    }
    let end = played.and_then(|answers| {
        let written = transcript.write(&answers);
        if update && !transcript.is_open() && written != text {
            fs::write(path, &written).expect("the transcript can be written to");
        } else if written != text {
            return Err(difference(&transcript, &answers));
        }
        guarded(|| runner::play_split(&transcript))
    });
    match (end, transcript.is_open()) {
        (Ok(()), false) => Ok(Verdict::Holds),
        (Ok(()), true) => Err("is marked open and holds: remove the mark".to_owned()),
        (Err(_), true) => Ok(Verdict::Open),
        (Err(why), false) => Err(why),
    }
}

/// A panic of the machines is a failure like any other.
fn guarded<T>(play: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

fn difference(transcript: &Transcript, answers: &[Vec<String>]) -> String {
    let differs = transcript.steps.iter().zip(answers).find(|(step, answer)| step.expected != **answer);
    let Some((step, answer)) = differs else { return "is not laid out as UPDATE=1 would write it".to_owned() };
    let (input, expected, found) = (&step.input, step.expected.join("\n"), answer.join("\n"));
    format!("{input}\n---- expected\n{expected}\n---- found\n{found}")
}
