//! Whether a statement only reads: then it may be cancelled at any moment, and nothing is lost if its answer does not come.
//!
//! Promises: of what is not told to only read, nothing is known. What the functions, views and operators do inside that a
//! statement names is left to a catalogue, but for PostgreSQL's own functions.

use crate::head::Head;

/// Whether a statement that begins so may only read.
pub(crate) fn may_read(head: &Head<'_, '_>) -> bool {
    const FIRST: [&str; 17] = [
        "select",
        "values",
        "table",
        "with",
        "show",
        "explain",
        "set",
        "reset",
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "deallocate",
    ];
    head.at_any(&FIRST) || head.word().is_empty() && head.at_byte(b'(')
}

/// Whether a word in a statement tells that it may write, or lock rows: a keyword, or a function of PostgreSQL's own. A table or a
/// column may have such a name: then too much is found.
//= pg18 sql-select#SQL-FOR-UPDATE-SHARE
//= pg18 functions-admin
pub(crate) fn may_write(folded: &[u8]) -> bool {
    match folded {
        b"insert" | b"update" | b"delete" | b"merge" | b"truncate" | b"copy" | b"create" | b"alter" | b"drop"
        | b"refresh" | b"share" => true,
        b"nextval" | b"setval" | b"lowrite" => true,
        b"txid_current" | b"heap_force_kill" | b"heap_force_freeze" => true,
        b"brin_summarize_new_values" | b"brin_summarize_range" | b"brin_desummarize_range" => true,
        b"gin_clean_pending_list" => true,
        // These run a query that they are given as text.
        b"query_to_xml" | b"query_to_xml_and_xmlschema" | b"cursor_to_xml" | b"ts_stat" | b"ts_rewrite" => true,
        _ if folded.starts_with(b"lo_") => true,
        _ if folded.starts_with(b"dblink") => true,
        _ if folded.starts_with(b"pg_") => is_writing_system_function(folded),
        _ => false,
    }
}

fn is_writing_system_function(folded: &[u8]) -> bool {
    matches!(
        folded,
        b"pg_notify"
            | b"pg_terminate_backend"
            | b"pg_cancel_backend"
            | b"pg_reload_conf"
            | b"pg_rotate_logfile"
            | b"pg_wal_replay_pause"
            | b"pg_wal_replay_resume"
            | b"pg_logical_emit_message"
            | b"pg_current_xact_id"
            | b"pg_create_restore_point"
            | b"pg_switch_wal"
            | b"pg_import_system_collations"
            | b"pg_promote"
            | b"pg_truncate_visibility_map"
            | b"pg_restore_relation_stats"
            | b"pg_restore_attribute_stats"
            | b"pg_clear_relation_stats"
            | b"pg_clear_attribute_stats"
    ) || folded.starts_with(b"pg_stat_reset")
        || folded.starts_with(b"pg_replication_")
        || folded.starts_with(b"pg_backup_")
        || folded.starts_with(b"pg_logical_slot_")
        || folded.ends_with(b"_replication_slot")
}

#[cfg(test)]
mod tests {
    use crate::memo::Summary;
    use crate::text::{Rules, Text};

    #[test]
    fn what_only_reads() {
        let reads = |text: &str| Summary::of(&Text::new(text.as_bytes(), Rules::default())).only_reads();
        for text in [
            "",
            "select 1",
            "  /* x */ SELECT count(*), max(a) FROM t JOIN v USING (id) WHERE b = 'insert into t'",
            "with w as (select 1) select * from w",
            "values (1)",
            "table t",
            "(select 1) union all (select 2)",
            "show work_mem",
            "explain analyze select * from t",
            "select pg_sleep(1), \"deleted\" from t",
            "begin; select 1; commit",
            "set work_mem = '1MB'; select 1",
        ] {
            assert!(reads(text), "{text}");
        }
        for text in [
            "insert into t values (1)",
            "with w as (delete from t returning *) select * from w",
            "WITH w AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM w",
            "select * from t for update",
            "select * from t for key share",
            "select * into u from t",
            "explain analyze delete from t",
            "select nextval('s')",
            "select \"nextval\"('s')",
            "select pg_catalog.lo_create(0)",
            "select pg_notify('c', 'x')",
            "select 1; truncate t",
            "analyze t",
            "call p()",
            "do $$ begin end $$",
            "execute p",
            "vacuum",
            "lock table t",
            "copy t to stdout",
            "commit prepared 'x'",
            "prepare transaction 'x'",
            "listen c",
            "select 'a",
            "nonsense",
        ] {
            assert!(!reads(text), "{text}");
        }
    }
}
