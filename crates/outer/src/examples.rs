//! The examples of the documentation: fenced blocks of a page, by the word behind their fence.
//!
//! ```text
//!   ini      a whole file, which `pgweir check` takes without a warning          crates/config/tests/examples.rs
//!   conf     the class_file of the ini block above it                           the same
//!   console  commands behind `$`, and what they print, run against PostgreSQL    crates/outer/tests/clients/examples.rs
//!   text     is not run; the line above it says why: <!-- not run: a drawing -->
//!   mermaid  is a drawing of the code, compared with it by a test beside that code
//! ```
//!
//! Behind `console` stand settings of the pooler that it is run with, as `query_timeout=1`. Blocks of any kind with `recipe=NAME` are
//! the steps of a recipe, which crates/outer/tests/clients/recipes.rs follows in order: `file=PATH` is a file to be written. A block without
//! one of these words, or one of text without a reason, is an error: nothing is passed over in silence.

use std::fs;
use std::path::{Path, PathBuf};

/// One fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// `README.md:42`, the line of the fence.
    pub place: String,
    pub kind: Kind,
    /// What stands behind the word.
    pub settings: Vec<(String, String)>,
    pub text: String,
}

impl Block {
    /// What stands behind the word under this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ini,
    Conf,
    Console,
    /// Not run, and it is said why.
    Text,
    /// Drawn from the code.
    Mermaid,
}

const REASON: &str = "<!-- not run: ";

/// The pages whose blocks are held to this: what a user reads.
///
/// # Errors
/// The tree cannot be read.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = vec![root.join("README.md")];
    for dir in ["docs", "docs/guide", "docs/start", "docs/recipes"] {
        let entries = fs::read_dir(root.join(dir)).map_err(|error| format!("{dir}: {error}"))?;
        pages.extend(
            entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "md")),
        );
    }
    pages.sort();
    Ok(pages)
}

/// The blocks of all pages, in order.
///
/// # Errors
/// A block that is not what it should be, by its place.
pub fn all(root: &Path) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    for page in pages(root)? {
        let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        blocks.extend(read(&name, &text)?);
    }
    Ok(blocks)
}

/// The blocks of one page.
///
/// # Errors
/// As [`all`].
pub fn read(name: &str, page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(words) = line.trim_start().strip_prefix("```") else {
            before = line;
            continue;
        };
        let place = format!("{name}:{}", at + 1);
        let mut words = words.split_whitespace();
        let kind = match words.next() {
            Some("ini") => Kind::Ini,
            Some("conf") => Kind::Conf,
            Some("console") => Kind::Console,
            Some("text") if gives_a_reason(before) || line.contains(" recipe=") => Kind::Text,
            Some("text") => {
                return Err(format!("{place}: the line above does not say why it is not run: {REASON}… -->"));
            }
            Some("mermaid") => Kind::Mermaid,
            word => return Err(format!("{place}: behind the fence stands {word:?}, none of the words that are known")),
        };
        let settings = words.map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
        let settings: Option<Vec<_>> = settings.collect();
        let settings = settings.ok_or_else(|| format!("{place}: behind the word stand settings, as name=value"))?;
        let mut text = String::new();
        loop {
            let (_, line) = lines.next().ok_or_else(|| format!("{place}: the block has no end"))?;
            if line.trim_start().starts_with("```") {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        blocks.push(Block { place, kind, settings, text });
        before = "";
    }
    Ok(blocks)
}

fn gives_a_reason(line: &str) -> bool {
    let reason = line.strip_prefix(REASON).and_then(|rest| rest.strip_suffix("-->"));
    reason.is_some_and(|reason| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_its_fence_says() {
        let page = "words\n```ini\n[pgbouncer]\n```\n<!-- not run: a drawing -->\n```text\n──►\n```\n```console query_timeout=1\n$ true\n```\n";
        let blocks = read("a.md", page).expect("a sound page");
        let seen: Vec<_> = blocks.iter().map(|block| (block.place.as_str(), block.kind, block.text.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("a.md:2", Kind::Ini, "[pgbouncer]\n"),
                ("a.md:6", Kind::Text, "──►\n"),
                ("a.md:9", Kind::Console, "$ true\n")
            ]
        );
        assert_eq!(blocks[2].settings, [("query_timeout".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn what_nobody_would_run_is_an_error() {
        for (page, words) in [
            ("```\n$ true\n```\n", "behind the fence stands None"),
            ("```rust\n```\n", "none of the words that are known"),
            ("```text\n```\n", "does not say why"),
            ("<!-- not run: -->\n```text\n```\n", "does not say why"),
            ("```ini\n[pgbouncer]\n", "has no end"),
            ("```console quick\n```\n", "as name=value"),
        ] {
            let error = read("a.md", page).expect_err(page);
            assert!(error.contains(words), "{error}");
        }
    }
}
