//! One Rust file as the rules see it: code, comments, which lines are tests, what is excused.
//!
//! Promises to know tests by `tests` folders, `#[cfg(test)]` items and `#[test]` functions; `#[cfg(test)] mod x;` marks
//! the file it names, wherever that is read. Does not expand macros.

use crate::lexer::{Kind, Token, tokens};
use std::ops::RangeInclusive;

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    pub(crate) code: Vec<Token<'a>>,
    pub(crate) comments: Vec<Token<'a>>,
    /// The whole file is a test.
    pub(crate) is_test: bool,
    /// Paths, without `.rs`, of modules that this file declares for tests only.
    pub(crate) test_modules: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(path: &'a str, text: &'a str) -> Source<'a> {
        let (comments, code) = tokens(text).into_iter().partition(|token| token.kind == Kind::Comment);
        let is_test = path.split('/').any(|part| part == "tests" || part == "benches");
        let mut source =
            Source { path, text, code, comments, is_test, test_modules: Vec::new(), test_lines: Vec::new() };
        source.find_tests();
        source
    }

    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Whether `code[at..]` reads as `words`.
    pub(crate) fn reads(&self, at: usize, words: &[&str]) -> bool {
        let here = self.code.get(at..at + words.len());
        here.is_some_and(|tokens| tokens.iter().zip(words).all(|(token, word)| token.text == *word))
    }

    /// Whether a comment on `line`, or in the comments and attributes right above it, says why a rule is broken.
    pub(crate) fn is_excused(&self, line: usize) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let above = lines[..line.saturating_sub(1).min(lines.len())].iter().rev();
        let attached = above.take_while(|text| ["//", "#["].iter().any(|open| text.trim_start().starts_with(open)));
        let first = line - attached.count();
        self.has_reason(first..=line)
    }

    /// Whether the comments that open the file say why it breaks a rule.
    pub(crate) fn is_excused_as_a_whole(&self) -> bool {
        let head = self.code.first().map_or(self.lines(), |token| token.line - 1);
        self.has_reason(1..=head)
    }

    fn has_reason(&self, lines: RangeInclusive<usize>) -> bool {
        self.comments.iter().filter(|comment| lines.contains(&comment.line)).any(|comment| {
            let reason = comment.text.trim_start_matches(['/', '!', ' ']).strip_prefix("tidy:");
            reason.is_some_and(|reason| reason.split_whitespace().count() >= 2)
        })
    }

    fn find_tests(&mut self) {
        for at in 0..self.code.len() {
            if let Some(after) = self.test_attribute(at) {
                self.mark_item(at, after);
            }
        }
    }

    /// Where the attribute that starts at `at` ends, if it makes its item a test.
    fn test_attribute(&self, at: usize) -> Option<usize> {
        if !self.reads(at, &["#", "["]) {
            return None;
        }
        let end = matching(&self.code, at + 1)?;
        let inside = &self.code[at + 2..end];
        let has = |word| inside.iter().any(|token| token.text == word);
        let is_test = inside.len() == 1 && has("test") || has("cfg") && has("test") && !has("not");
        is_test.then_some(end + 1)
    }

    fn mark_item(&mut self, start: usize, after: usize) {
        let Some((last, path)) = self.item(after) else { return };
        self.test_lines.push(self.code[start].line..=self.code[last].line);
        self.test_modules.extend(path);
    }

    /// Last token of the item after its attributes, and the module's path where it is `mod name;`.
    fn item(&self, mut at: usize) -> Option<(usize, Option<String>)> {
        let mut path = None;
        while self.reads(at, &["#", "["]) {
            let end = matching(&self.code, at + 1)?;
            if self.reads(at + 2, &["path", "="]) {
                path = self.code.get(at + 4).map(|token| token.text.trim_matches('"').trim_end_matches(".rs"));
            }
            at = end + 1;
        }
        let mut end = at;
        while !["{", ";"].contains(&self.code.get(end)?.text) {
            // Parameters and array types may hold a semicolon of their own.
            let opens = ["(", "["].contains(&self.code[end].text);
            end = if opens { matching(&self.code, end)? + 1 } else { end + 1 };
        }
        if self.code[end].text == "{" {
            return Some((matching(&self.code, end)?, None));
        }
        let is_module = end >= 2 && self.code[end - 2].text == "mod";
        Some((end, is_module.then(|| self.module(self.code[end - 1].text, path))))
    }

    /// Where `mod name;` in this file looks for its file, without `.rs`.
    fn module(&self, name: &str, path: Option<&str>) -> String {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        match (path, file) {
            (Some(path), _) => format!("{folder}/{path}"),
            (None, "mod.rs" | "lib.rs" | "main.rs") => format!("{folder}/{name}"),
            (None, _) => format!("{}/{name}", self.path.trim_end_matches(".rs")),
        }
    }
}

/// Index of the mark that closes the one at `open`.
pub(crate) fn matching(code: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}
