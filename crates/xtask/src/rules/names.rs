//! Names that say nothing: of modules, files, types and functions; not words in prose or variables.

use crate::finding::Finding;
use crate::source::Source;

/// Nowhere in a name, as one of its words; a plural is the same word.
const WORDS: [&str; 6] = ["util", "helper", "manager", "handler", "misc", "utility"];
/// Not alone: `CopyData` is PostgreSQL's name, `Data` is nobody's. Functions may have them (`log::info`).
const ALONE: [&str; 3] = ["data", "info", "context"];
const RULE: &str = "names are the glossary's nouns; this word says nothing";

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut found = file(source);
    for pair in source.code.windows(2) {
        let (kind, name) = (pair[0].text, pair[1].text);
        let is_type = ["mod", "struct", "enum", "trait", "type", "union"].contains(&kind);
        if (is_type || kind == "fn") && is_banned(name, is_type) {
            found.push(Finding::new(source.path, pair[1].line, format!("{kind} `{name}`"), RULE));
        }
    }
    found
}

fn file(source: &Source<'_>) -> Vec<Finding> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    let banned = parts.filter(|part| is_banned(part, true));
    banned.map(|part| Finding::new(source.path, 1, format!("file or folder `{part}`"), RULE)).collect()
}

fn is_banned(name: &str, alone: bool) -> bool {
    let words = words(name);
    let is_one = |list: &[&str], word: &String| {
        list.contains(&word.as_str()) || word.strip_suffix('s').is_some_and(|word| list.contains(&word))
    };
    words.iter().any(|word| is_one(&WORDS, word)) || alone && words.len() == 1 && is_one(&ALONE, &words[0])
}

/// `read_HTTPData` is read, http, data.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && letters[at - 1].is_lowercase();
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if !letter.is_alphanumeric() || letter.is_uppercase() && (after_small || before_small) {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            let word = words.last_mut().expect("there is one from the start");
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
