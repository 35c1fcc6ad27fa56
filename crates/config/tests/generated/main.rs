//! The files that are made from the tables are in the tree as they would be made. `UPDATE=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

mod chart;
mod man_page;

/// A file by its path from the repository's root.
fn in_tree(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn compare(path: &str, made: &str) {
    if std::env::var_os("UPDATE").is_some() {
        let file = in_tree(path);
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the tree can be written to");
        fs::write(file, made).expect("the tree can be written to");
        return;
    }
    let kept = fs::read_to_string(in_tree(path)).unwrap_or_default();
    assert!(kept == made, "{path} is out of date: run UPDATE=1 cargo test -p config");
}

#[test]
fn the_manual_page_is_up_to_date() {
    compare("docs/settings.md", &config::manual::settings_md());
}

#[test]
fn the_sample_is_up_to_date_and_means_the_defaults() {
    let sample = config::manual::sample_ini();
    compare("docs/pgweir.ini", &sample);
    let read = |name: &str| match name {
        "sample" => Ok(sample.clone().into_bytes()),
        "empty" => Ok(b"[pgbouncer]".to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let from_sample = config::load_with("sample", 4, config::Built::default(), &read).expect("the sample can be read");
    let from_empty =
        config::load_with("empty", 4, config::Built::default(), &read).expect("an empty section can be read");
    assert_eq!(unnamed(&from_sample), unnamed(&from_empty));
    assert_eq!(said(&from_sample), said(&from_empty));

    // And so it stays when every line that holds a setting is switched on.
    let setting = |line: &&str| line.starts_with(';') && !line.starts_with(";;");
    let start = sample.find("[pgbouncer]").expect("the sample has that section");
    let lines = sample[start..].lines().filter(setting).map(|line| &line[1..]);
    let all = format!("[pgbouncer]\n{}", lines.collect::<Vec<_>>().join("\n"));
    let read = |_: &str| Ok(all.clone().into_bytes());
    let switched_on =
        config::load_with("all", 4, config::Built::default(), &read).expect("every default can be written");
    assert_eq!(unnamed(&switched_on), unnamed(&from_empty));
    assert_eq!(said(&switched_on), said(&from_empty));
}

/// What a file says, whatever its name.
fn unnamed(config: &config::Config) -> machine::Settings {
    let mut settings = config.pooling.clone();
    settings.global.listening.conffile.clear();
    settings
}

/// What a file is warned of, wherever it stands: an empty one lacks users and databases.
fn said(config: &config::Config) -> BTreeSet<&str> {
    config.warnings.iter().map(|warning| &*warning.found).collect()
}

#[test]
fn the_sample_of_a_class_file_is_up_to_date_and_sound() {
    let rules = config::manual::sample_classes();
    compare("docs/classes.conf", rules);
    // With the classes of the sample file switched on.
    let sample = config::manual::sample_ini();
    let section = sample.split("\n[classes]\n").nth(1).and_then(|rest| rest.split("\n[").next());
    let section = section.expect("the sample has that section").replace("\n;", "\n");
    let classes: Vec<&str> = section.lines().filter(|line| !line.starts_with(';')).collect();
    let ini =
        format!("[databases]\n* =\ndirect =\n[classes]\n{}\n[pgbouncer]\nclass_file = rules\n", classes.join("\n"));
    let read = |name: &str| match name {
        "ini" => Ok(ini.clone().into_bytes()),
        "rules" => Ok(rules.as_bytes().to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let config = config::load_with("ini", 4, config::Built::default(), &read).expect("the samples fit each other");
    assert_eq!(config.pooling.classes.all.len(), 4);
    assert_eq!(config.pooling.classes.rules.len(), 5);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    let is_expected = |warning: &String| warning.contains("not supported yet") || warning.contains("no user who can");
    assert!(warnings.iter().all(is_expected), "{warnings:?}");
}
