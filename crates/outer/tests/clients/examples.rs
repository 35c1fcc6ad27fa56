//! What the documentation shows on a terminal is what happens on one: every `console` block of the pages, against PostgreSQL.
//!
//! A line behind `$` is a command of the shell; the lines below are found in this order in what it prints, numbers and the width
//! of columns aside; `…` stands for any text. The shell has `POOLED`, `CONSOLE` and `DIRECT`, the three addresses.

use std::path::Path;
use std::process::Command;

use outer::examples::{self, Block, Kind};
use outer::shown::{commands, is_shown};
use outer::{Stage, Wishes};

/// On a page, a `pg_sleep` in the background lasts as long as a reader needs, and the shell's `sleep` gives it time to begin. Here `sleep`
/// waits until PostgreSQL runs a `pg_sleep`, which is cancelled after the commands, or once a client has waited behind it for 3 s.
const BACKGROUND: &str = r#"
asleep="state = 'active' and pid <> pg_backend_pid() and query like 'select pg_sleep%'"
sleep() { until [ "$(psql "$DIRECT" -Atc "select count(*) > 0 from pg_stat_activity where $asleep")" = t ]; do command sleep 0.05; done; }
wake() { psql "$DIRECT" -qAto /dev/null -c "select pg_cancel_backend(pid) from pg_stat_activity where $asleep"; }
until psql "$CONSOLE" -Atc 'show pools' | awk -F '|' '$14 >= 3 { waits = 1 } END { exit !waits }'; do command sleep 0.2; done && wake &
watcher=$!
"#;

/// Runs after the commands.
const AWAKE: &str = "kill $watcher\nwake\n";

/// Runs the commands of one block in a shell, which waits at its end for what runs in the background. The error says what differs.
fn run(block: &Block, stage: &Stage) -> Result<(), String> {
    let settings = &block.settings;
    // One shell for all: what one line leaves in the background the next one meets.
    const BORDER: &str = "\u{1e}next";
    let commands = commands(block);
    let is_given =
        |command: &str| command.contains('…') && ["POOLED=", "CONSOLE="].iter().any(|it| command.starts_with(it));
    let lines = commands.iter().map(|(command, _)| if is_given(command) { ":" } else { command.as_str() });
    let script: String = lines.map(|command| format!("{command}\necho '{BORDER}'\n")).collect();
    let script = if commands.iter().any(|(command, _)| command.contains(" & sleep ")) {
        format!("{BACKGROUND}{}{AWAKE}", endless(&script))
    } else {
        script
    };
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

/// The script with longer sleeps of PostgreSQL's.
fn endless(script: &str) -> String {
    let parts = script.split("pg_sleep(").enumerate();
    let parts = parts.map(|(number, part)| match part.split_once(')') {
        Some((_, rest)) if number > 0 => format!("3600){rest}"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("pg_sleep(")
}

#[test]
fn what_the_pages_show_is_what_happens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = examples::all(&root).expect("every block says how it is run");
    let mut ran = 0;
    // A page's blocks go on in front of the same PostgreSQL until one asks for settings.
    let mut stage: Option<(&str, Stage)> = None;
    for block in blocks.iter().filter(|block| block.kind == Kind::Console && block.setting("recipe").is_none()) {
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
        run(block, stage).unwrap_or_else(|differs| panic!("{differs}"));
        ran += 1;
    }
    assert!(ran >= 6, "{ran} blocks");
}
