//! Decisions are found: each docs/adr/NNNN-*.md stands in docs/adr/README.md, and what stands there exists.

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDER: &str = "docs/adr/";
const LIST: &str = "docs/adr/README.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let list = tree.text(LIST).unwrap_or_default();
    let decisions: Vec<&str> = tree.paths().filter_map(|path| path.strip_prefix(FOLDER).filter(is_decision)).collect();
    let unlisted = decisions.iter().filter(|name| !list.contains(&format!("({name})")));
    let mut found: Vec<Finding> = unlisted
        .map(|name| {
            Finding::new(&format!("{FOLDER}{name}"), 1, "not listed", "docs/adr/README.md lists every decision")
        })
        .collect();
    for (line, text) in (1..).zip(list.lines()) {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(is_decision);
        let gone = targets.filter(|target| !decisions.contains(target));
        let rule = "docs/adr/README.md lists what is there";
        found.extend(gone.map(|target| Finding::new(LIST, line, format!("no decision `{target}`"), rule)));
    }
    found
}

/// `0007-a-name.md`.
fn is_decision(name: &&str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits == 4 && name[digits..].starts_with('-') && name.ends_with(".md") && !name.contains('/')
}
