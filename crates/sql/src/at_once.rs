//! Statements that PostgreSQL commits at once, with all that ran before them in the same batch: those that may not run in a transaction
//! block. What fails behind them in the batch undoes nothing of it.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-PIPELINING

use crate::head::Head;
use crate::kind::{Discarded, Kind};
use crate::statements::Statement;
use crate::text::Text;

impl Statement<'_> {
    /// Whether PostgreSQL commits at once if this succeeds. The statement is one of `text`.
    pub fn commits_at_once(&self, text: &Text<'_>) -> bool {
        match self.kind {
            Kind::Discard(Discarded::All) | Kind::CommitPrepared | Kind::RollbackPrepared => true,
            Kind::Plain => is_alone(&Head::new(text, self.range().start, self.range().end)),
            _ => false,
        }
    }
}

fn is_alone(first: &Head<'_, '_>) -> bool {
    let mut object = first.next();
    match first.word() {
        b"vacuum" => true,
        b"create" | b"drop" if object.at_any(&["database", "tablespace"]) => true,
        b"create" | b"drop" => {
            object.take("unique");
            object.take("index") && object.at("concurrently")
        }
        b"alter" => {
            object.at("system") || object.at("database") && has_word(&object, "tablespace") || detaches(&object)
        }
        b"reindex" => {
            let is_concurrent = has_word(&object, "concurrently");
            is_concurrent || object.skip_parentheses().is_some() && object.at_any(&["database", "system", "schema"])
        }
        // Without a table: all of them, one after the other.
        b"cluster" => {
            let are_options_over = object.skip_parentheses().is_some();
            object.take("verbose");
            are_options_over && object.done()
        }
        _ => false,
    }
}

/// ALTER TABLE … DETACH PARTITION … CONCURRENTLY. //= pg18 sql-altertable
fn detaches(object: &Head<'_, '_>) -> bool {
    object.at("table") && has_word(object, "detach") && has_word(object, "concurrently")
}

fn has_word(from: &Head<'_, '_>, word: &str) -> bool {
    let mut ahead = from.clone();
    while !ahead.done() && !ahead.at(word) {
        ahead.advance();
    }
    !ahead.done()
}

#[cfg(test)]
mod tests {
    use crate::text::{Rules, Text};

    #[test]
    fn a_table_of_statements() {
        let commits = |text: &str| {
            let text = Text::new(text.as_bytes(), Rules::default());
            text.statements().last().is_some_and(|statement| statement.commits_at_once(&text))
        };
        for text in [
            "discard all",
            "vacuum",
            "VACUUM (analyze) t",
            "create database d",
            "drop database if exists d",
            "alter database d set tablespace t",
            "alter system set work_mem = '1MB'",
            "create tablespace t location '/x'",
            "create unique index concurrently i on t (a)",
            "drop index concurrently i",
            "reindex (verbose) table concurrently t",
            "reindex index concurrently i",
            "reindex database d",
            "reindex (verbose) schema s",
            "cluster",
            "cluster verbose",
            "commit prepared 'x'",
            "rollback prepared 'x'",
            "alter table t detach partition p concurrently",
        ] {
            assert!(commits(text), "{text}");
        }
        for text in [
            "discard plans",
            "discard temp",
            "select 1",
            "commit",
            "create index i on t (a)",
            "drop index i",
            "reindex table t",
            "reindex index i",
            "cluster t",
            "cluster verbose t using i",
            "alter database d set work_mem = '1MB'",
            "alter type e add value 'x'",
            "refresh materialized view concurrently m",
            "analyze",
            "alter table t detach partition p",
            "create table database (tablespace int)",
        ] {
            assert!(!commits(text), "{text}");
        }
    }
}
