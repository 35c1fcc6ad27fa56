//! Files and what comes of them as text: `tests/cases/*.txt`. `UPDATE=1` writes what comes out into the files; read the
//! difference before you keep it.
//!
//! A case is `==== title`, the file, after `@@ name` another file that it names, after `??` a connection a line
//! (`database user address`, then `tls`, `gss` or `replication`; of pg_ident.conf `map system-user user`), and after `----`
//! what comes of it: for each connection the line that decides, or all that is wrong. Cases of pg_ident.conf are in `ident*.txt`.

#![allow(clippy::disallowed_methods, reason = "a test reads its cases")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use hba::{Connection, Encryption, Interface, Maps, Mistake, Options, Rules, read_maps, read_rules};

const MAIN: &str = "etc/main.conf";

#[test]
fn cases() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(dir).expect("the cases are beside this file");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "only {} files of cases", paths.len());
    let mut failures = String::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("cases are text");
        let is_ident = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ident"));
        let made = run(&text, is_ident);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, made).expect("the cases can be written to");
        } else if made != text {
            let differs = made.lines().zip(text.lines()).find(|(made, kept)| made != kept);
            let _ = writeln!(failures, "{}: {differs:?}", path.display());
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The file as it should be.
fn run(text: &str, is_ident: bool) -> String {
    let mut parts = text.split("==== ");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for case in parts {
        let (title, body) = case.split_once('\n').expect("a title is a line");
        let input = body.split_once("----\n").map_or(body, |(input, _)| input);
        let input = format!("{}\n", input.trim_end_matches('\n'));
        let _ = write!(made, "==== {title}\n{input}----\n{}\n", answer(&input, is_ident));
    }
    format!("{}\n", made.trim_end())
}

fn answer(input: &str, is_ident: bool) -> String {
    let (input, questions) = input.split_once("??\n").unwrap_or((input, ""));
    let mut parts = input.split("@@ ");
    let mut files = BTreeMap::from([(MAIN.to_owned(), unescaped(parts.next().unwrap_or_default()))]);
    for part in parts {
        let (name, text) = part.split_once('\n').expect("a file's name is a line");
        files.insert(name.to_owned(), unescaped(text));
    }
    let read = |name: &str| files.get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
    let answers = match is_ident {
        true => read_maps(MAIN, &read).map(|maps| maps_answers(&maps, questions)),
        false => read_rules(MAIN, &interfaces(), &read).map(|rules| rules_answers(&rules, questions)),
    };
    answers.unwrap_or_else(|mistakes| mistakes.iter().map(|mistake: &Mistake| format!("{mistake}\n")).collect())
}

fn interfaces() -> Vec<Interface> {
    let of = |address: &str, mask: &str| Interface {
        address: address.parse().expect("an address"),
        mask: mask.parse().expect("a mask"),
    };
    vec![of("127.0.0.1", "255.0.0.0"), of("10.1.2.3", "255.255.255.0"), of("fd00::3", "ffff:ffff:ffff:ffff::")]
}

fn rules_answers(rules: &Rules, questions: &str) -> String {
    let mut output = String::new();
    for question in questions.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = question.split_whitespace().collect();
        let [database, user, address, rest @ ..] = words.as_slice() else { panic!("not a connection: {question}") };
        let connection = Connection {
            database,
            user,
            address: (*address != "local").then(|| address.parse().expect("an address, or local")),
            encryption: match rest {
                ["tls"] => Encryption::Tls,
                ["gss"] => Encryption::Gss,
                _ => Encryption::None,
            },
            is_replication: rest == ["replication"],
        };
        let verdict = rules.first(&connection).map(|rule| {
            format!("{}, line {} of {}{}", rule.method.as_str(), rule.line, rule.file, different(&rule.options))
        });
        let _ = writeln!(output, "{question}: {}", verdict.as_deref().unwrap_or("no line"));
    }
    if questions.is_empty() {
        let _ = writeln!(output, "{} lines", rules.as_slice().len());
    }
    output
}

/// The options that are not the default's.
fn different(options: &Options) -> String {
    let (shown, default) = (format!("{options:#?}"), format!("{:#?}", Options::default()));
    let lines = shown.lines().filter(|line| !default.lines().any(|same| same == *line));
    let words: String = lines.map(str::trim).collect();
    if words.is_empty() { words } else { format!(": {}", words.trim_end_matches(',')) }
}

fn maps_answers(maps: &Maps, questions: &str) -> String {
    let mut output = String::new();
    for question in questions.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = question.split_whitespace().collect();
        let [map, system, user] = words.as_slice() else { panic!("not a question: {question}") };
        let map = (*map != "-").then_some(*map);
        let verdict = if maps.allow(map, system, user) { "allowed" } else { "refused" };
        let _ = writeln!(output, "{question}: {verdict}");
    }
    if questions.is_empty() {
        let _ = writeln!(output, "{} lines", maps.len());
    }
    output
}

/// `\xff` for bytes that are no text, `\r` for a carriage return at the end of a line.
fn unescaped(text: &str) -> Vec<u8> {
    let text = text.replace("\\r\n", "\r\n");
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits after \\x"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}
