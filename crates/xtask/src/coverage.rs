//! docs/protocol-coverage.md: what the code cites of PostgreSQL's protocol chapter, of PgBouncer's manual and of RFCs.
//!
//! Made from the citations; `xtask tidy` compares it with the tree, `UPDATE=1 cargo run -p xtask -- cite` writes it. Of the protocol chapter it knows what
//! there is, so it shows what nobody cites too. That a section is cited says where to look, not that all of it is obeyed.

use crate::cite::{Citation, Manual, citations};
use crate::finding::Finding;
use crate::tree::Tree;

pub(crate) const PATH: &str = "docs/protocol-coverage.md";

/// Sections of the chapter about flow and authentication, in its order. The other pages of the chapter (replication) are
/// not a pooler's.
const SECTIONS: [&str; 20] = [
    "protocol-overview#PROTOCOL-MESSAGE-CONCEPTS",
    "protocol-overview#PROTOCOL-QUERY-CONCEPTS",
    "protocol-overview#PROTOCOL-FORMAT-CODES",
    "protocol-flow",
    "protocol-flow#PROTOCOL-FLOW-START-UP",
    "protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY",
    "protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT",
    "protocol-flow#PROTOCOL-FLOW-EXT-QUERY",
    "protocol-flow#PROTOCOL-FLOW-PIPELINING",
    "protocol-flow#PROTOCOL-FLOW-FUNCTION-CALL",
    "protocol-flow#PROTOCOL-COPY",
    "protocol-flow#PROTOCOL-ASYNC",
    "protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS",
    "protocol-flow#PROTOCOL-FLOW-TERMINATION",
    "protocol-flow#PROTOCOL-FLOW-SSL",
    "protocol-flow#PROTOCOL-FLOW-GSSAPI",
    "sasl-authentication",
    "sasl-authentication#SASL-SCRAM-SHA-256",
    "protocol-message-types",
    "protocol-error-fields",
];
/// Messages of the page protocol-message-formats, in its order.
const MESSAGES: [&str; 52] = [
    "AuthenticationOk",
    "AuthenticationKerberosV5",
    "AuthenticationCleartextPassword",
    "AuthenticationMD5Password",
    "AuthenticationGSS",
    "AuthenticationGSSContinue",
    "AuthenticationSSPI",
    "AuthenticationSASL",
    "AuthenticationSASLContinue",
    "AuthenticationSASLFinal",
    "BackendKeyData",
    "Bind",
    "BindComplete",
    "CancelRequest",
    "Close",
    "CloseComplete",
    "CommandComplete",
    "CopyData",
    "CopyDone",
    "CopyFail",
    "CopyInResponse",
    "CopyOutResponse",
    "CopyBothResponse",
    "DataRow",
    "Describe",
    "EmptyQueryResponse",
    "ErrorResponse",
    "Execute",
    "Flush",
    "FunctionCall",
    "FunctionCallResponse",
    "GSSENCRequest",
    "GSSResponse",
    "NegotiateProtocolVersion",
    "NoData",
    "NoticeResponse",
    "NotificationResponse",
    "ParameterDescription",
    "ParameterStatus",
    "Parse",
    "ParseComplete",
    "PasswordMessage",
    "PortalSuspended",
    "Query",
    "ReadyForQuery",
    "RowDescription",
    "SASLInitialResponse",
    "SASLResponse",
    "SSLRequest",
    "StartupMessage",
    "Sync",
    "Terminate",
];

const HEAD: &str = "<!-- Made by `UPDATE=1 cargo run -p xtask -- cite`; edit the citations in the code instead. -->
# What the code cites

A comment `//= pg18 …`, `//= pgbouncer …` or `//= rfc…` stands where the code obeys that section of that manual. This page
says where to look, not that the section is obeyed in full. A section that is not cited has a dash.
";

pub(crate) fn page(tree: &Tree) -> String {
    let all = citations(tree);
    let of = |manual: Manual| all.iter().filter(move |citation| citation.manual == manual);
    let messages: Vec<(String, String)> =
        MESSAGES.iter().map(|name| (format!("{FORMATS}#{}", name.to_uppercase()), (*name).to_owned())).collect();
    let sections: Vec<(String, String)> =
        SECTIONS.iter().map(|name| ((*name).to_owned(), shown(name).to_owned())).collect();
    let known = |section: &str| messages.iter().chain(&sections).any(|(key, _)| key == section);

    let mut page = String::from(HEAD);
    page += &table("PostgreSQL 18: how the protocol flows", &sections, &all);
    page += &table("PostgreSQL 18: messages", &messages, &all);
    let elsewhere = of(Manual::Postgres).filter(|citation| !known(&citation.section));
    page += &table("PostgreSQL 18: elsewhere", &rows(elsewhere), &all);
    page += &table("PgBouncer's manual", &rows(of(Manual::PgBouncer)), &all);
    page += &table("RFCs", &rows(of(Manual::Rfc)), &all);
    page
}

const FORMATS: &str = "protocol-message-formats";

/// A section by its own name where it has one, else by its page's.
/// Where the written page is not the one that the tree makes; a tree without citations (of a test) has none to compare.
pub(crate) fn check(tree: &Tree) -> Option<Finding> {
    if citations(tree).is_empty() {
        return None;
    }
    let (made, written) = (page(tree), tree.text(PATH).unwrap_or_default());
    let line = made.lines().zip(written.lines()).take_while(|(made, written)| made == written).count() + 1;
    (made != written).then(|| {
        Finding::new(
            PATH,
            line,
            "the page is old",
            "it lists what the code cites: run `UPDATE=1 cargo run -p xtask -- cite`",
        )
    })
}

fn shown(section: &str) -> &str {
    section.split_once('#').map_or(section, |(_, name)| name)
}

/// A row for each section that is cited.
fn rows<'a>(cited: impl Iterator<Item = &'a Citation>) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = cited.map(|it| (it.section.clone(), it.section.clone())).collect();
    rows.dedup();
    rows
}

fn table(title: &str, rows: &[(String, String)], all: &[Citation]) -> String {
    let mut text = format!("\n## {title}\n\n| section | code | tests |\n|---|---|---|\n");
    for (section, name) in rows {
        let same: Vec<&Citation> = all.iter().filter(|citation| citation.section == *section).collect();
        let (code, tests) = (files(&same, false), files(&same, true));
        text += &format!("| {name} | {code} | {tests} |\n");
    }
    text
}

/// Each file once, without line numbers: those move with every edit.
fn files(citations: &[&Citation], is_test: bool) -> String {
    let mut paths: Vec<&str> = citations.iter().filter(|it| it.is_test == is_test).map(|it| it.path.as_str()).collect();
    paths.dedup();
    if paths.is_empty() {
        return "–".to_owned();
    }
    let links = paths.iter().map(|path| format!("[{}](../{path})", path.trim_start_matches("crates/")));
    links.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cited_message_names_its_file_and_an_uncited_one_has_dashes() {
        let cited = "//= pg18 protocol-message-formats#DataRow\n//= pg18 libpq-pgpass\n";
        let tree = Tree::of(&[("crates/wire/src/row.rs", cited), ("crates/wire/tests/row.rs", "//= rfc1#section-1\n")]);
        let page = page(&tree);
        for row in [
            "| DataRow | [wire/src/row.rs](../crates/wire/src/row.rs) | – |",
            "| Describe | – | – |",
            "| PROTOCOL-COPY | – | – |",
            "| libpq-pgpass | [wire/src/row.rs](../crates/wire/src/row.rs) | – |",
            "| rfc1#section-1 | – | [wire/tests/row.rs](../crates/wire/tests/row.rs) |",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }

    #[test]
    fn a_page_that_differs_is_found_at_its_line() {
        let cited = "//= pg18 protocol-message-formats#DataRow\n";
        let written = page(&Tree::of(&[("crates/wire/src/row.rs", cited)]));
        let same = Tree::of(&[("crates/wire/src/row.rs", cited), (PATH, &written)]);
        assert_eq!(check(&same), None);
        let moved = Tree::of(&[("crates/wire/src/line.rs", cited), (PATH, &written)]);
        let line =
            written.lines().position(|line| line.starts_with("| DataRow")).expect("the page has each message") + 1;
        assert_eq!(check(&moved).map(|finding| finding.line), Some(line));
        let short = Tree::of(&[("crates/wire/src/row.rs", cited), (PATH, "")]);
        assert!(check(&short).is_some());
    }
}
