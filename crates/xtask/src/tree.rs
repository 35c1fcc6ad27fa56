//! The tree that the rules are about: every file that git tracks or would add, and its text.
//!
//! Promises paths relative to the root, with `/`, in order. A file that is not UTF-8 has a path and no text. Does not look
//! at history, and not at ignored files: what is built is nobody's style.

use crate::source::Source;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Asks git in `root`; errors say which command or file failed.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let list = String::from_utf8(output.stdout).map_err(|_| "git ls-files: a path is not UTF-8".to_owned())?;
        let mut tree = Tree::default();
        for path in list.split_terminator('\0') {
            // Deleted in the working tree and not yet in the index: gone for us.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            tree.files.insert(path.to_owned(), String::from_utf8(bytes).ok());
        }
        Ok(tree)
    }

    /// A tree of a few lines, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect() }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether `path` is a file, or a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|file| below(file, path))
    }

    /// Every Rust file, read as tokens, each knowing which of its lines are tests.
    pub(crate) fn sources(&self) -> Vec<Source<'_>> {
        let rust = self.texts().filter(|(path, _)| path.ends_with(".rs"));
        let mut sources: Vec<Source<'_>> = rust.map(|(path, text)| Source::new(path, text)).collect();
        let modules: Vec<String> = sources.iter().flat_map(|source| source.test_modules.clone()).collect();
        for source in &mut sources {
            source.is_test |= modules.iter().any(|module| {
                let inside = source.path.strip_prefix(module.as_str());
                inside.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
        }
        sources
    }
}

/// Whether `file` lies in the folder `folder`.
pub(crate) fn below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The crate a path belongs to: `crates/wire/src/lib.rs` is `wire`'s.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}
