//! Names that say nothing: of modules, files, types and functions; not words in prose or variables. The field's own words are no such names,
//! whatever their reputation: a handler of signals is a handler.

use crate::finding::Finding;
use crate::source::Source;

/// Nowhere in a name, as one of its words; a plural is the same word.
const WORDS: [&str; 4] = ["util", "helper", "misc", "utility"];
const RULE: &str = "names are the glossary's nouns, or the field's; this word says nothing";

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut found = file(source);
    for pair in source.code.windows(2) {
        let (kind, name) = (pair[0].text, pair[1].text);
        let declares = ["mod", "struct", "enum", "trait", "type", "union", "fn"].contains(&kind);
        if declares && is_banned(name) {
            found.push(Finding::new(source.path, pair[1].line, format!("{kind} `{name}`"), RULE));
        }
    }
    found
}

fn file(source: &Source<'_>) -> Vec<Finding> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    let banned = parts.filter(|part| is_banned(part));
    banned.map(|part| Finding::new(source.path, 1, format!("file or folder `{part}`"), RULE)).collect()
}

fn is_banned(name: &str) -> bool {
    let is_one = |word: &String| {
        WORDS.contains(&word.as_str()) || word.strip_suffix('s').is_some_and(|word| WORDS.contains(&word))
    };
    words(name).iter().any(is_one)
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
