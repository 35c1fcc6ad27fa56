//! The parser's situations as text: `tests/cases/*.txt`. `UPDATE=1` writes what comes out into the files; read the
//! difference before you keep it.
//!
//! A case is `==== title`, the file, `----`, and what comes of it: the settings that differ from the defaults and the
//! warnings, or all that is wrong. `@@ name` begins another file that the first one names. After `==== each [section]:
//! title` every line is a file of its own in that section, and what comes of it stands below it. After `==== whole
//! file: title` the lack of users or databases is reported too. After `==== explain: title` (`import`) the answer is what `pgweir
//! check` says. A title that ends in `(all built)` is read by a program with all that needs libraries of the system.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use config::{Built, Config, Problem};
use machine::Settings;
use queueing::classes::{Class, Classes, Pattern, TagPattern};
use settings::Global;

const MAIN: &str = "weir.ini";
const ALL: Built = Built { pam: true, gssapi: true };

#[test]
fn cases() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the cases are beside this file")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 5, "only {} files of cases", paths.len());
    let mut failures = String::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("cases are text");
        let (made, wrong) = run(&text);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, made).expect("the cases can be written to");
        } else if let Some(wrong) = wrong {
            let _ = writeln!(failures, "{}: {wrong}", path.display());
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The file as it should be, and the first case that is not.
fn run(text: &str) -> (String, Option<String>) {
    let mut made = String::new();
    let mut wrong = None;
    let start = text.find("==== ").expect("a file has a case");
    made.push_str(&text[..start]);
    for case in text[start..].split_inclusive("\n").collect::<String>().split("==== ").skip(1) {
        let (title, body) = case.split_once('\n').expect("a title is a line");
        let (input, kept) = body.split_once("----\n").unwrap_or((body.trim_end(), ""));
        let input = format!("{}\n", input.trim_end_matches('\n'));
        let output = answer(title, &input);
        if kept.trim_end() != output.trim_end() && wrong.is_none() {
            wrong = Some(format!("{title}\n--- kept\n{kept}\n--- came out\n{output}"));
        }
        let _ = write!(made, "==== {title}\n{input}----\n{output}\n");
    }
    let made = format!("{}\n", made.trim_end());
    (made, wrong)
}

fn answer(title: &str, input: &str) -> String {
    if let Some(section) = title.strip_prefix("each [").and_then(|rest| rest.split(']').next()) {
        let mut output = String::new();
        for line in input.lines().filter(|line| !line.is_empty()) {
            let file = match section {
                "pgbouncer" => format!("[pgbouncer]\n{line}\n"),
                _ => format!("[pgbouncer]\n[{section}]\n{line}\n"),
            };
            let _ = writeln!(output, "{line}");
            for answer in show(&load(&file), false).lines() {
                let _ = writeln!(output, "    {answer}");
            }
        }
        return output;
    }
    let built = if title.ends_with("(all built)") { ALL } else { Built::default() };
    match load_by(built, input) {
        Ok(config) if title.starts_with("explain") => config::explain(&config),
        Ok(config) if title.starts_with("import") => config::import(&config),
        result => show(&result, title.starts_with("whole file")),
    }
}

/// Without the methods of login that need libraries of the system.
fn load(input: &str) -> Result<Config, Vec<Problem>> {
    load_by(Built::default(), input)
}

fn load_by(built: Built, input: &str) -> Result<Config, Vec<Problem>> {
    let mut files = BTreeMap::new();
    let mut parts = input.split("@@ ");
    files.insert(MAIN, parts.next().expect("split gives at least one part"));
    for part in parts {
        let (name, text) = part.split_once('\n').expect("a file's name is a line");
        files.insert(name, text);
    }
    let read = |name: &str| match files.get(name) {
        Some(text) => Ok(unescaped(text)),
        None => Err(io::Error::from_raw_os_error(2)),
    };
    config::load_with(MAIN, 1, built, &read)
}

/// `\xff` for bytes that are no text, so that a case can hold them.
fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits after \\x"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// What every part of a file lacks that is no whole one.
const LACKS: [&str; 2] = ["no entry", "no user who can log in"];

fn show(result: &Result<Config, Vec<Problem>>, is_whole: bool) -> String {
    let mut output = String::new();
    let problems = match result {
        Ok(config) => {
            let default = load("[pgbouncer]").expect("an empty section can be read");
            let apart = |settings: Settings| Settings {
                classes: Arc::default(),
                hba: Arc::default(),
                ident: Arc::default(),
                global: Global::default(),
                peers: BTreeMap::new(),
                ..settings
            };
            let (rules, maps) = (config.pooling.hba.as_slice().len(), config.pooling.ident.len());
            if (rules, maps) != (0, 0) {
                let _ = writeln!(output, "{rules} lines of rules, {maps} lines of maps");
            }
            different(&apart(config.pooling.clone()), &apart(default.pooling.clone()), &mut output);
            global(&config.pooling.global, &default.pooling.global, &mut output);
            classes(&config.pooling.classes, &mut output);
            for (id, peer) in config.pooling.others() {
                let _ = writeln!(output, "peer {}: {:?}, pool_size {}", id.0, peer.address, peer.pool_size);
            }
            &config.warnings
        }
        Err(problems) => problems,
    };
    for problem in problems.iter().filter(|problem| is_whole || !LACKS.contains(&problem.found.as_str())) {
        let _ = writeln!(output, "{}: {problem}", problem.severity.as_str());
    }
    if output.is_empty() { "all defaults\n".to_owned() } else { output }
}

/// The settings of `[pgbouncer]` that work.
fn global(global: &Global, default: &Global, output: &mut String) {
    different(&global.login, &default.login, output);
    different(&global.pools, &default.pools, output);
    different(&global.servers, &default.servers, output);
    different(&global.waiting, &default.waiting, output);
    different(&global.classes, &default.classes, output);
    different(&global.startup, &default.startup, output);
    different(&global.tests, &default.tests, output);
    different(&global.listening, &default.listening, output);
    different(&global.network, &default.network, output);
    different(&global.patroni, &default.patroni, output);
    different(&global.log, &default.log, output);
    different(&global.console, &default.console, output);
}

/// Each class with what differs from the defaults, each rule as class_file would have it.
fn classes(classes: &Classes, output: &mut String) {
    if classes.ageing != Classes::default().ageing {
        let _ = writeln!(output, "class_ageing: {:?}", classes.ageing);
    }
    for (index, class) in classes.all.iter().enumerate().filter(|(_, class)| **class != Class::new("default")) {
        let mut fields = String::new();
        different(class, &Class::new(&class.name), &mut fields);
        let fields = if fields.is_empty() { "all defaults".to_owned() } else { fields.trim_end().replace('\n', ", ") };
        let _ = writeln!(output, "class {index} {}: {fields}", class.name);
    }
    for rule in &classes.rules {
        let [databases, users, applications] =
            [&rule.databases, &rule.users, &rule.applications].map(|list| joined(list.iter().map(pattern)));
        let tag = |tag: &TagPattern| format!("{}:{}", String::from_utf8_lossy(&tag.key), pattern(&tag.value));
        let tags = if rule.tags.is_empty() { "all".to_owned() } else { joined(rule.tags.iter().map(tag)) };
        let name = &classes.class(rule.class).name;
        let _ = writeln!(output, "rule: {databases} {users} {applications} {tags} → {name}");
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

/// Names always in quotes.
fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::All => "all".to_owned(),
        Pattern::Exactly(name) => format!("{:?}", String::from_utf8_lossy(name)),
        Pattern::BeginsWith(name) => format!("{:?}*", String::from_utf8_lossy(name)),
    }
}

/// The fields of a struct whose value differs, one a line, without what is not set.
fn different(value: &impl Debug, default: &impl Debug, output: &mut String) {
    let defaults = fields(default);
    for field in fields(value) {
        if !defaults.contains(&field) {
            let _ = writeln!(output, "{field}");
        }
    }
}

fn fields(value: &impl Debug) -> Vec<String> {
    let text = format!("{value:#?}");
    let mut fields: Vec<String> = Vec::new();
    for line in text.strip_suffix('}').unwrap_or(&text).lines().skip(1) {
        let is_field = line.starts_with("    ") && line[4..].starts_with(|c: char| c.is_ascii_alphabetic());
        let line = line.trim();
        if is_field {
            fields.push(line.to_owned());
        } else if let Some(field) = fields.last_mut()
            && !line.ends_with(": None,")
            && line != "automatic: false,"
        {
            join(field, line);
        }
    }
    fields.into_iter().map(|field| field.trim_end_matches(',').to_owned()).collect()
}

/// What `{:#?}` spreads over lines, back on one.
fn join(field: &mut String, line: &str) {
    if line.starts_with([')', '}', ']']) {
        let end = field.trim_end_matches(',').len();
        field.truncate(end);
    } else if !field.ends_with(['(', '[']) {
        field.push(' ');
    }
    field.push_str(line);
}

#[test]
fn every_setting_and_parameter_has_a_case() {
    // The files are being written just now.
    if std::env::var_os("UPDATE").is_some() {
        return;
    }
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect("the cases are beside this file");
    let values = read("values.txt");
    for setting in settings::TABLE {
        let lines = values.matches(&format!("\n{} = ", setting.name)).count();
        let with_mistake = values.contains(&format!("{}: found", setting.name));
        // Every line is there twice: as it is given, and above what comes of it.
        assert!(lines >= 2, "{} has no case", setting.name);
        assert!(with_mistake || setting.kind.takes_empty(), "{} has no case of a mistake", setting.name);
    }
    let parameters = [
        ("databases.txt", config::databases::parameters()),
        ("users.txt", config::users::parameters()),
        ("users.txt", config::users::PEER_PARAMETERS.to_vec()),
        ("classes.txt", config::classes::PARAMETERS.to_vec()),
    ];
    for (file, parameters) in parameters {
        let text = read(file);
        for parameter in parameters {
            assert!(text.contains(&format!("{}=", parameter.name)), "{} has no case", parameter.name);
        }
    }
}
