//! What the documentation shows on a terminal is what happens on one: every `console` block of the pages, against PostgreSQL.
//!
//! A line behind `$` is a command of the shell; the lines below are found in this order in what it prints, numbers and the width
//! of columns aside; `…` stands for any text. The shell has `POOLED`, `CONSOLE` and `DIRECT`, the three addresses.

use std::path::Path;
use std::process::Command;

use outer::examples::{self, Block, Kind};
use outer::{Stage, Wishes};

/// Numbers, widths and rules of tables aside.
fn normal(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '.' if out.ends_with('#') => {}
            '-' if out.ends_with('-') => {}
            c if c.is_whitespace() && (out.is_empty() || out.ends_with([' ', '|'])) => {}
            c if c.is_whitespace() => out.push(' '),
            '|' => {
                out.truncate(out.trim_end().len());
                out.push('|');
            }
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

fn is_rule(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| matches!(c, '-' | '+' | '…' | ' '))
}

/// Whether a line is as it is shown.
fn is_shown(line: &str, shown: &str) -> bool {
    let (line, mut parts) = (normal(line), shown.split('…').map(normal).collect::<Vec<_>>());
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return line == last;
    }
    let mut rest = match line.strip_prefix(parts.remove(0).as_str()) {
        Some(rest) => rest,
        None => return false,
    };
    for part in parts {
        match rest.split_once(part.as_str()) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// Commands, each with what is shown of its output.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) if !line.is_empty() && !is_rule(line) => shown.push(line.to_owned()),
            (None, Some(_)) => {}
            (None, None) => panic!("{}: it begins with no command", block.place),
        }
    }
    commands
}

/// Commands that are left in the background have their time from the one behind them, which may be too short on a busy machine: so
/// many tries.
const TRIES: usize = 3;

/// The commands of one block, in a shell that waits for what is left in the background at its end. The error says what differs.
fn run(block: &Block, stage: &Stage) -> Result<(), String> {
    let settings = &block.settings;
    // One shell for all: what one line leaves in the background the next one meets.
    const BORDER: &str = "\u{1e}next";
    let commands = commands(block);
    let is_given =
        |command: &str| command.contains('…') && ["POOLED=", "CONSOLE="].iter().any(|it| command.starts_with(it));
    let lines = commands.iter().map(|(command, _)| if is_given(command) { ":" } else { command.as_str() });
    let script: String = lines.map(|command| format!("{command}\necho '{BORDER}'\n")).collect();
    let path = std::env::join_paths(
        stage
            .binaries
            .program("psql")
            .iter()
            .filter_map(|psql| psql.parent().map(Path::to_owned))
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{script}wait")])
        .env("PATH", path.expect("directories without a colon"))
        .env("POOLED", stage.url())
        .env("CONSOLE", stage.url_of("pgbouncer"))
        .env("DIRECT", stage.cluster.url("postgres"))
        .env("PSQLRC", "/dev/null")
        .output()
        .expect("bash is here");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{} {settings:?}\n{printed}", block.place);
    for ((command, shown), printed) in commands.iter().zip(printed.split(BORDER)) {
        let mut lines = printed.lines();
        for expected in shown {
            if !lines.any(|line| is_shown(line, expected)) {
                return Err(format!("{}: $ {command}\nshows\n{expected}\nand prints\n{printed}", block.place));
            }
        }
    }
    Ok(())
}

#[test]
fn what_the_pages_show_is_what_happens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = examples::all(&root).expect("every block says how it is run");
    let mut ran = 0;
    // A page's blocks go on in front of the same PostgreSQL until one asks for settings.
    let mut stage: Option<(&str, Stage)> = None;
    for block in blocks.iter().filter(|block| block.kind == Kind::Console) {
        let settings = &block.settings;
        let page = block.place.split(':').next().expect("there is always a first part");
        if !settings.is_empty() || stage.as_ref().is_none_or(|(of, _)| *of != page) {
            drop(stage.take());
            // They are as many as the pages have.
            let leaked = settings.iter().map(|(name, value)| (&*name.clone().leak(), value.clone())).collect();
            let wishes = Wishes { auth: "scram-sha-256", settings: leaked, ..Wishes::default() };
            stage = Some((page, Stage::set(&wishes)));
        }
        let (_, stage) = stage.as_ref().expect("set above");
        let mut tries = (0..TRIES).map(|_| run(block, stage));
        let outcome = tries.find(Result::is_ok).unwrap_or_else(|| run(block, stage));
        outcome.unwrap_or_else(|differs| panic!("{differs}"));
        ran += 1;
    }
    assert!(ran >= 6, "{ran} blocks");
}

#[test]
fn a_line_is_compared_but_for_numbers_and_widths() {
    assert!(is_shown(
        "tps = 8103.5 (without initial connection time)",
        "tps = 23019.279294 (without initial connection time)"
    ));
    assert!(is_shown(" postgres |  postgres |   0 |", " postgres  | postgres  |         7 |"));
    assert!(is_shown(" a | 1 | x | y | 9", " a | 2 | … | 7"));
    assert!(is_shown("DETAIL:  place=1 of 1 expected_wait_ms=17", "DETAIL:  place=3 of 4…"));
    assert!(!is_shown("ERROR:  other", "ERROR:  canceling statement"));
    assert!(!is_shown(" a | 1 | x", " a | 2 | … | b"));
}
