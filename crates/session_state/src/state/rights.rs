//! Settings that only a superuser may set, or a role that was granted it: those must be set again by the role that set them. And one that
//! not every server takes.

use super::State;

/// The size of local buffers, which a server takes only before something temporary is first used there.
//= pg18 runtime-config-resource#GUC-TEMP-BUFFERS
pub const TEMP_BUFFERS: &[u8] = b"temp_buffers";

/// Of PostgreSQL 13 to 18, in order.
//= pg18 view-pg-settings (context superuser)
#[rustfmt::skip]
const OF_SUPERUSERS: [&[u8]; 53] = [
    b"allow_in_place_tablespaces", b"allow_system_table_mods", b"backtrace_functions", b"commit_delay",
    b"compute_query_id", b"createrole_self_grant", b"deadlock_timeout", b"debug_discard_caches",
    b"dynamic_library_path", b"event_triggers", b"extension_control_path", b"ignore_checksum_failure",
    b"jit_dump_bitcode", b"lc_messages", b"lo_compat_privileges", b"log_duration", b"log_error_verbosity",
    b"log_executor_stats", b"log_lock_failures", b"log_lock_waits", b"log_min_duration_sample",
    b"log_min_duration_statement", b"log_min_error_statement", b"log_min_messages", b"log_parameter_max_length",
    b"log_parser_stats", b"log_planner_stats", b"log_replication_commands", b"log_statement",
    b"log_statement_sample_rate", b"log_statement_stats", b"log_temp_files", b"log_transaction_sample_rate",
    b"max_stack_depth", b"restrict_nonsystem_relation_kind", b"session_preload_libraries",
    b"session_replication_role", b"stats_fetch_consistency", b"temp_file_limit", b"track_activities",
    b"track_cost_delay_timing", b"track_counts", b"track_functions", b"track_io_timing", b"track_wal_io_timing",
    b"update_process_title", b"wal_compression", b"wal_consistency_checking", b"wal_init_zero", b"wal_recycle",
    b"wal_sender_timeout", b"wal_skip_threshold", b"zero_damaged_pages",
];

/// Of extensions: how their names begin.
const OF_EXTENSIONS: [&[u8]; 4] = [b"auto_explain.", b"pg_stat_statements.", b"plpgsql.variable_conflict", b"sepgsql."];

/// Whether setting it may need rights beyond those of any user.
pub(super) fn may_be_needed(name: &[u8]) -> bool {
    OF_SUPERUSERS.binary_search(&name).is_ok() || OF_EXTENSIONS.iter().any(|prefix| name.starts_with(prefix))
}

/// A state has a role, an authorization, or a setting that PostgreSQL may refuse to a login whose rights were taken away meanwhile.
pub fn needs_rights(state: &State) -> bool {
    !state.identity.is_login() || state.names().any(may_be_needed)
}

/// Whether the role, the authorization, or a setting that may need rights is another.
pub(crate) fn differ(one: &State, other: &State) -> bool {
    let guarded = |state: &'_ State| {
        let guarded = state.settings.iter().filter(|(name, _)| may_be_needed(name));
        guarded.map(|(name, setting)| (name.clone(), setting.clone())).collect::<Vec<_>>()
    };
    one.identity != other.identity || guarded(one) != guarded(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(OF_SUPERUSERS.is_sorted());
        assert!(may_be_needed(b"log_statement") && may_be_needed(b"auto_explain.log_analyze"));
        assert!(!may_be_needed(b"work_mem") && !may_be_needed(b"app.user_id"));
        assert!(!may_be_needed(b"pg_trgm.similarity_threshold") && !may_be_needed(b"plpgsql.extra_warnings"));
    }
}
