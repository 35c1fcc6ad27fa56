//! Functions of a file: where, how long, how deep; and how many assertions.
//!
//! Nesting counts the blocks of `if`, `else`, `match`, `for`, `while`, `loop` and closures that lie in each other; the arms
//! of a match lie in it, not deeper. A function within a function counts in both.

use crate::lexer::{Kind, Token};
use crate::source::{Source, matching};

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: usize,
    /// From the line with `fn` to the closing brace.
    pub(crate) lines: usize,
    pub(crate) nesting: usize,
    /// Of the deepest block.
    pub(crate) nesting_line: usize,
}

pub(crate) fn functions<'a>(source: &Source<'a>) -> Vec<Function<'a>> {
    (0..source.code.len()).filter_map(|at| function(&source.code, at)).collect()
}

fn function<'a>(code: &[Token<'a>], at: usize) -> Option<Function<'a>> {
    let name = code.get(at + 1)?;
    if code[at].text != "fn" || name.kind != Kind::Word {
        return None;
    }
    let mut open = at + 2;
    while code.get(open)?.text != "{" {
        match code[open].text {
            ";" => return None,
            "(" | "[" => open = matching(code, open)? + 1,
            _ => open += 1,
        }
    }
    let close = matching(code, open)?;
    let body = &code[open + 1..close];
    let (nesting, nesting_line) = nesting(body);
    Some(Function {
        name: name.text,
        line: code[at].line,
        lines: code[close].line - code[at].line + 1,
        nesting,
        nesting_line,
    })
}

/// A `struct name { … }`.
#[derive(Debug)]
pub(crate) struct Struct<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: usize,
    /// The colons that stand directly in its braces.
    pub(crate) fields: usize,
}

pub(crate) fn structs<'a>(source: &Source<'a>) -> Vec<Struct<'a>> {
    (0..source.code.len()).filter_map(|at| a_struct(&source.code, at)).collect()
}

fn a_struct<'a>(code: &[Token<'a>], at: usize) -> Option<Struct<'a>> {
    let name = code.get(at + 1)?;
    if code[at].text != "struct" || name.kind != Kind::Word {
        return None;
    }
    let body = at + code[at..].iter().position(|token| ["{", ";", "("].contains(&token.text))?;
    (code[body].text == "{").then_some(())?;
    let close = matching(code, body)?;
    let (mut fields, mut here) = (0, body + 1);
    while here < close {
        let token = &code[here];
        fields += usize::from(token.kind == Kind::Mark && token.text == ":");
        let opens = ["(", "[", "{"].contains(&token.text);
        here = if opens { matching(code, here)? + 1 } else { here + 1 };
    }
    Some(Struct { name: name.text, line: code[at].line, fields })
}

/// `assert!`, `debug_assert_eq!`, … and `unreachable!`; and `expect`, which asserts that there is a value.
pub(crate) fn asserts(code: &[Token<'_>]) -> usize {
    code.windows(2).filter(|pair| asserting(pair[0].text, pair[1].text)).count()
}

fn asserting(word: &str, after: &str) -> bool {
    match after {
        "!" => word.trim_start_matches("debug_").starts_with("assert") || word == "unreachable",
        "(" => word == "expect",
        _ => false,
    }
}

/// A keyword whose block has not begun yet.
struct Pending {
    /// Open parentheses where it stands: its block begins at the same depth.
    depth: usize,
    /// Between `let` and `=`, or `for` and `in`: a brace belongs to a pattern.
    in_pattern: bool,
}

#[derive(Default)]
struct Depths {
    pending: Vec<Pending>,
    /// For each open brace whether it counts.
    blocks: Vec<bool>,
    parentheses: usize,
    deepest: (usize, usize),
}

fn nesting(body: &[Token<'_>]) -> (usize, usize) {
    let mut depths = Depths::default();
    for (at, token) in body.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| body[before].text);
        let after = body.get(at + 1).map_or("", |after| after.text);
        depths.take(token, before, after);
    }
    depths.deepest
}

impl Depths {
    fn take(&mut self, token: &Token<'_>, before: &str, after: &str) {
        match token.text {
            "(" | "[" => self.parentheses += 1,
            ")" | "]" => self.close_parenthesis(),
            "{" => self.open_block(token.line, before),
            "}" => drop(self.blocks.pop()),
            "else" if after == "if" => {}
            "for" if after == "<" => {}
            "for" => self.pending.push(Pending { depth: self.parentheses, in_pattern: true }),
            "if" | "else" | "match" | "while" | "loop" => {
                self.pending.push(Pending { depth: self.parentheses, in_pattern: false });
            }
            "let" => self.pattern(true),
            "=" | "in" => self.pattern(false),
            "=>" => self.end_guard(),
            _ => {}
        }
    }

    fn here(&mut self) -> Option<&mut Pending> {
        let depth = self.parentheses;
        self.pending.last_mut().filter(|pending| pending.depth == depth)
    }

    fn pattern(&mut self, in_pattern: bool) {
        if let Some(pending) = self.here() {
            pending.in_pattern = in_pattern;
        }
    }

    /// `matches!(x, A if y)`: the guard ends with the parenthesis, without a block.
    fn close_parenthesis(&mut self) {
        self.parentheses = self.parentheses.saturating_sub(1);
        let depth = self.parentheses;
        self.pending.retain(|pending| pending.depth <= depth);
    }

    /// `A if y => …`: so does the guard of an arm.
    fn end_guard(&mut self) {
        if self.here().is_some() {
            self.pending.pop();
        }
    }

    fn open_block(&mut self, line: usize, before: &str) {
        let is_own = self.here().is_some_and(|pending| !pending.in_pattern);
        if is_own {
            self.pending.pop();
        }
        let is_closure = before == "|" || before == "||";
        self.blocks.push(is_own || is_closure);
        let depth = self.blocks.iter().filter(|counts| **counts).count();
        if depth > self.deepest.0 {
            self.deepest = (depth, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(body: &str) -> usize {
        let text = format!("//! Test.\nfn f() {{\n{body}\n}}\n");
        let source = Source::new("x.rs", &text);
        functions(&source)[0].nesting
    }

    #[test]
    fn blocks_count_and_other_braces_do_not() {
        let cases = [
            ("a();", 0),
            ("let x = S { a: 1 };", 0),
            ("{ { a() } }", 0),
            ("if a { b() }", 1),
            ("if a { b() } else if c { d() } else { e() }", 1),
            ("if a { if b { c() } }", 2),
            ("if let S { a } = b { c() }", 1),
            ("if let S { a } = b && let T { c } = d { while e { f() } }", 2),
            ("for S { a } in b { c() }", 1),
            ("match a { S { b } => { c() } _ => {} }", 1),
            ("match a { b if c => { if d { e() } } _ => {} }", 2),
            ("if matches!(a, b if c) { d() }", 1),
            ("let Some(a) = b else { return };", 1),
            ("a.map(|b| { if c { d() } });", 2),
            ("if a.any(|b| { b }) { c() }", 1),
            ("loop { match a { b => for c in d { while e { if f { g() } } } } }", 5),
            ("let f: &dyn for<'a> Fn(&'a u8) = &g; { h() }", 0),
        ];
        for (body, nesting) in cases {
            assert_eq!(depth(body), nesting, "{body}");
        }
    }

    #[test]
    fn a_function_is_counted_from_fn_to_brace_and_a_signature_not_at_all() {
        let source = Source::new("x.rs", "trait T { fn a(); }\n/// Doc.\nfn b(x: [u8; 2]) {\n    assert!(x);\n}\n");
        let found = functions(&source);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name, found[0].line, found[0].lines), ("b", 3, 3));
        assert_eq!(asserts(&source.code), 1);
    }
}
