//! Citations: where a comment says which section of which manual the code obeys.
//!
//! Written `//=` and then `pg18 PAGE#SECTION`, `pgbouncer FILE.md#section` or `rfcNNNN#section-N`, alone or in a doc
//! comment's sentence; prose may follow. Promises one spelling of a section. Does not read the manuals.

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;

const MARK: &str = "//= ";
const FORMATS: &str = "protocol-message-formats";
const FORMATS_PREFIX: &str = "PROTOCOL-MESSAGE-FORMATS-";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Manual {
    Postgres,
    PgBouncer,
    Rfc,
}

/// Ordered by section, then by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Citation {
    pub(crate) manual: Manual,
    /// Of PostgreSQL's manual `page` or `page#SECTION`, a message by its name in capitals; of others as written.
    pub(crate) section: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) is_test: bool,
}

/// All that can be read, in order.
pub(crate) fn citations(tree: &Tree) -> Vec<Citation> {
    let mut found: Vec<Citation> = tree.sources().iter().flat_map(|source| of_a_source(source).0).collect();
    found.sort();
    found
}

/// Citations that nobody could follow.
pub(crate) fn unreadable(source: &Source<'_>) -> Vec<Finding> {
    of_a_source(source).1
}

/// One line a section: who cites it.
pub(crate) fn list(citations: &[Citation]) -> String {
    let mut text = String::new();
    for same in citations.chunk_by(|a, b| (a.manual, &a.section) == (b.manual, &b.section)) {
        let places: Vec<String> = same.iter().map(|it| format!("{}:{}", it.path, it.line)).collect();
        let manual = match same[0].manual {
            Manual::Postgres => "pg18 ",
            Manual::PgBouncer => "pgbouncer ",
            Manual::Rfc => "",
        };
        text += &format!("{manual}{}\n    {}\n", same[0].section, places.join("\n    "));
    }
    text
}

fn of_a_source(source: &Source<'_>) -> (Vec<Citation>, Vec<Finding>) {
    let (mut found, mut bad) = (Vec::new(), Vec::new());
    for comment in &source.comments {
        for (at, _) in comment.text.match_indices(MARK) {
            let cited = &comment.text[at + MARK.len()..];
            let line = comment.line + comment.text[..at].matches('\n').count();
            match parse(cited) {
                Some((manual, section)) => {
                    let (path, is_test) = (source.path.to_owned(), source.is_test_line(line));
                    found.push(Citation { manual, section, path, line, is_test });
                }
                None => bad.push(Finding::new(
                    source.path,
                    line,
                    format!("citation `{}`", cited.lines().next().unwrap_or_default()),
                    "a citation is `pg18 PAGE#SECTION`, `pgbouncer FILE.md#section` or `rfcNNNN#section-N`",
                )),
            }
        }
    }
    (found, bad)
}

fn parse(cited: &str) -> Option<(Manual, String)> {
    let mut words = cited.split(|c: char| c.is_whitespace() || c == '`' || c == ',');
    let manual = words.next()?;
    if manual.strip_prefix("rfc").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Some((Manual::Rfc, end(manual).to_owned()));
    }
    let section = end(words.next()?);
    match manual {
        "pg18" if section.starts_with(|c: char| c.is_ascii_lowercase()) => {
            Some((Manual::Postgres, one_spelling(section)))
        }
        "pgbouncer" if section.contains(".md") => Some((Manual::PgBouncer, section.to_owned())),
        _ => None,
    }
}

/// Without the punctuation of the sentence around it.
fn end(section: &str) -> &str {
    section.trim_end_matches(['.', ':', ';', ')', '…', '#'])
}

fn one_spelling(section: &str) -> String {
    let Some((page, anchor)) = section.split_once('#') else { return section.to_owned() };
    let anchor = anchor.to_uppercase();
    let anchor = anchor.strip_prefix(FORMATS_PREFIX).filter(|_| page == FORMATS).unwrap_or(&anchor);
    format!("{page}#{anchor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_read_wherever_comments_put_them() {
        let text = "//! Rows (`//= pgbouncer usage.md#show-pools`).\n//! //= pg18 protocol-flow\n\
                    //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-DATAROW\n\
                    //= pg18 protocol-message-formats#DataRow (and its columns): many.\n//= rfc5802#section-5.1\n\
                    fn f() { \"//= pg18 no-citation\" }\n#[cfg(test)]\nmod tests {\n    //= rfc4013#section-2.\n}\n";
        let tree = Tree::of(&[("a.rs", text)]);
        let found: Vec<_> =
            citations(&tree).into_iter().map(|it| (it.manual, it.section, it.line, it.is_test)).collect();
        let of = |manual, section: &str, line, is_test| (manual, section.to_owned(), line, is_test);
        let expected = [
            of(Manual::Postgres, "protocol-flow", 2, false),
            of(Manual::Postgres, "protocol-message-formats#DATAROW", 3, false),
            of(Manual::Postgres, "protocol-message-formats#DATAROW", 4, false),
            of(Manual::PgBouncer, "usage.md#show-pools", 1, false),
            of(Manual::Rfc, "rfc4013#section-2", 9, true),
            of(Manual::Rfc, "rfc5802#section-5.1", 5, false),
        ];
        assert_eq!(found, expected);
        assert!(unreadable(&Source::new("a.rs", text)).is_empty());
    }

    #[test]
    fn a_citation_nobody_can_follow_is_a_finding() {
        for bad in ["postgres protocol-flow", "pg18", "pgbouncer show-pools", "pg18 #X", "rfc"] {
            let text = format!("//= {bad}\n");
            assert_eq!(unreadable(&Source::new("a.rs", &text)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn the_list_names_every_place_of_a_section_once() {
        let tree = Tree::of(&[("a.rs", "//= pg18 x#y\n"), ("b.rs", "\n//= pg18 x#Y\n")]);
        assert_eq!(list(&citations(&tree)), "pg18 x#Y\n    a.rs:1\n    b.rs:2\n");
    }
}
