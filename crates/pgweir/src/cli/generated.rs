//! The man page pgweir(1) and the completions of shells are in the tree as they would be made from the command line's description. `UPDATE=1`
//! writes them.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use roff::{Roff, bold, roman};

use super::Line;

fn compare(name: &str, made: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("deploy/ can be written to");
        fs::write(&path, made).expect("deploy/ can be written to");
        return;
    }
    let kept = fs::read(&path).unwrap_or_default();
    assert!(kept == made, "deploy/{name} is out of date: run UPDATE=1 cargo test -p pgweir");
}

#[test]
fn completions_are_up_to_date() {
    for (shell, name) in [(Shell::Bash, "pgweir.bash"), (Shell::Zsh, "_pgweir"), (Shell::Fish, "pgweir.fish")] {
        let mut made = Vec::new();
        generate(shell, &mut Line::command(), "pgweir", &mut made);
        compare(&format!("completion/{name}"), &made);
    }
}

/// One page for all commands: each is a section with its options and examples.
#[test]
fn the_man_page_is_up_to_date() {
    // No date: the page changes when the command line does.
    let man = clap_mangen::Man::new(Line::command())
        .title("PGWEIR")
        .section("1")
        .source(concat!("pgweir ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page).expect("memory takes it");
    let mut write = |roff: &Roff| page.extend(roff.to_roff().into_bytes());
    let mut head = Roff::new();
    head.control("SH", ["NAME"]).text([roman("pgweir, pgweir-bench - connection pooler and queue for PostgreSQL")]);
    head.control("SH", ["SYNOPSIS"]).text([bold("pgweir"), roman(" [OPTION]... CONFIG_FILE")]);
    head.control("br", []).text([bold("pgweir"), roman(" COMMAND [OPTION]...")]);
    head.control("SH", ["DESCRIPTION"]).text([roman(
        "pgweir accepts many clients and lets them share few connections to PostgreSQL. CONFIG_FILE is a pgbouncer.ini, read as PgBouncer would \
         read it. Its own settings are in ",
    ), bold("pgweir.ini"), roman("(5).")]);
    head.control("PP", []).text([
        roman("The commands dev and bench are of the program "),
        bold("pgweir-bench"),
        roman(", which pgweir starts in its place. It has to be installed beside pgweir, in the same version."),
    ]);
    write(&head);
    man.render_options_section(&mut page).expect("memory takes it");
    for command in Line::command().get_subcommands() {
        let mut section = Roff::new();
        section.control("SH", [format!("PGWEIR {}", command.get_name().to_uppercase()).as_str()]);
        section.text([roman(command.get_about().map(ToString::to_string).unwrap_or_default()), roman(".")]);
        page.extend(section.to_roff().into_bytes());
        let man = clap_mangen::Man::new(command.clone().disable_help_flag(true));
        let mut options = Vec::new();
        man.render_options_section(&mut options).expect("memory takes it");
        page.extend(String::from_utf8(options).expect("text").replace(".SH OPTIONS", ".SS Options").into_bytes());
        if let Some(after) = command.get_after_help() {
            let mut words = Roff::new();
            words.control("SS", ["Notes"]).control("nf", []).text([roman(after.to_string())]).control("fi", []);
            page.extend(words.to_roff().into_bytes());
        }
    }
    let mut tail = Roff::new();
    tail.control("SH", ["SIGNALS"]);
    for (name, words) in SIGNALS {
        tail.control("TP", []).text([bold(name)]).text([roman(words)]);
    }
    tail.control("SH", ["EXIT STATUS"]).text([roman(
        "0 after a shutdown that was asked for; 1 if the command line, the configuration or the start was wrong. What is wrong is said on stderr.",
    )]);
    tail.control("SH", ["FILES"]).control("TP", []).text([bold("/etc/pgweir/pgweir.ini")]);
    tail.text([roman("What the service serves, and "), bold("pgweir run"), roman(" if it is told nothing else.")]);
    tail.control("SH", ["SEE ALSO"]).text([bold("pgweir.ini"), roman("(5), "), bold("psql"), roman("(1)")]);
    page.extend(tail.to_roff().into_bytes());
    compare("man/pgweir.1", &page);
}

const SIGNALS: [(&str, &str); 6] = [
    ("SIGHUP", "read the configuration again, as RELOAD"),
    ("SIGTERM", "take no new clients and end when the last one has left, as SHUTDOWN WAIT_FOR_CLIENTS"),
    ("SIGINT", "end when transactions have ended, as SHUTDOWN WAIT_FOR_SERVERS"),
    ("SIGQUIT", "end at once, as SHUTDOWN"),
    ("SIGUSR1", "let clients wait and close servers, as PAUSE"),
    ("SIGUSR2", "go on, as RESUME"),
];
