//! What is known before a catalogue is read: the server's own functions, its keywords, and what extensions' functions do
//! that are written in C and cannot be read.

use crate::pins;
use crate::side_effects::SideEffects;
use sql::{Marks, Rules, Summary, Text};

/// Functions of the server's own that run a text, or the views that a text names. Clients' texts are looked through for
/// these too; the rest of what matters there is marked by `sql` itself.
pub(super) const RUN_TEXT: [&str; 11] = [
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "schema_to_xml",
    "schema_to_xml_and_xmlschema",
    "database_to_xml",
    "database_to_xml_and_xmlschema",
    "ts_stat",
    "ts_rewrite",
];

/// To update it is to SET. //= pg18 view-pg-settings
pub(super) const UPDATABLE: &str = "pg_settings";

/// A text without any of these fires no trigger, generates no column and checks no constraint.
pub(super) const WRITES: [&str; 12] = [
    "insert", "update", "delete", "merge", "truncate", "copy", "refresh", "alter", "create", "reindex", "cluster",
    "vacuum",
];

/// A text without any of these evaluates no default.
pub(super) const FILLS: [&str; 6] = ["insert", "copy", "merge", "default", "alter", "create"];

/// A text without any of these fires no event trigger, but SELECT INTO, which `sql` marks as RELATIONS.
//= pg18 event-trigger-matrix
pub(super) const DEFINES: [&str; 12] = [
    "create", "alter", "drop", "comment", "grant", "revoke", "security", "refresh", "reindex", "import", "reassign",
    "cluster",
];

const fn only_clean(name: &'static str) -> (&'static str, &'static [(&'static str, SideEffects)]) {
    (name, &[])
}

/// Extensions whose C functions keep nothing in the session, but for those listed by the beginnings of their names.
/// From their sources' sight: a setting changed, a static variable, which DISCARD ALL leaves as it is, a text that is run.
const VETTED: [(&str, &[(&str, SideEffects)]); 55] = [
    only_clean("address_standardizer_data_us"),
    only_clean("adminpack"),
    only_clean("amcheck"),
    ("autoinc", &[("autoinc", SideEffects::SEQUENCE)]),
    only_clean("bloom"),
    only_clean("btree_gin"),
    only_clean("btree_gist"),
    only_clean("citext"),
    only_clean("cube"),
    ("dblink", &[("", SideEffects::DBLINK)]),
    only_clean("dict_int"),
    only_clean("dict_xsyn"),
    only_clean("earthdistance"),
    only_clean("file_fdw"),
    only_clean("fuzzystrmatch"),
    only_clean("hstore"),
    only_clean("insert_username"),
    only_clean("intagg"),
    only_clean("intarray"),
    ("isn", &[("isn_weak", SideEffects::LOAD)]),
    only_clean("lo"),
    only_clean("ltree"),
    only_clean("moddatetime"),
    only_clean("old_snapshot"),
    only_clean("pageinspect"),
    only_clean("pg_buffercache"),
    only_clean("pg_cron"),
    only_clean("pg_freespacemap"),
    only_clean("pg_prewarm"),
    only_clean("pg_stat_statements"),
    only_clean("pg_surgery"),
    ("pg_trgm", &[("set_limit", SideEffects::SETTINGS)]),
    ("pg_variables", &[("pgv_", SideEffects::LOAD)]),
    only_clean("pg_visibility"),
    only_clean("pg_walinspect"),
    only_clean("pgaudit"),
    only_clean("pgcrypto"),
    only_clean("pgrowlocks"),
    only_clean("pgstattuple"),
    only_clean("plpgsql"),
    only_clean("postgis"),
    only_clean("postgis_raster"),
    only_clean("postgis_sfcgal"),
    only_clean("postgis_topology"),
    only_clean("postgres_fdw"),
    only_clean("refint"),
    only_clean("seg"),
    only_clean("sslinfo"),
    ("tablefunc", &[("crosstab", SideEffects::DYNAMIC), ("connectby", SideEffects::DYNAMIC)]),
    only_clean("tcn"),
    only_clean("tsm_system_rows"),
    only_clean("tsm_system_time"),
    only_clean("unaccent"),
    only_clean("uuid-ossp"),
    only_clean("vector"),
];

/// An extension that is vetted, but for its functions that run a text.
const XML2: &str = "xml2";

/// The side effects of a C function, by its name and the extension it belongs to.
pub(super) fn of_c(name: &[u8], extension: Option<&[u8]>) -> SideEffects {
    let Some(extension) = extension else { return SideEffects::UNKNOWN };
    if extension == XML2.as_bytes() {
        return if name == b"xpath_table" { SideEffects::DYNAMIC } else { SideEffects::NONE };
    }
    let Some((_, exceptions)) = VETTED.iter().find(|(vetted, _)| vetted.as_bytes() == extension) else {
        return SideEffects::UNKNOWN;
    };
    let exception = exceptions.iter().find(|(start, _)| name.starts_with(start.as_bytes()));
    exception.map_or(SideEffects::NONE, |(_, side_effects)| *side_effects) | of_written(name)
}

/// The side effects of another name for one of the server's own functions, by the function's symbol, which often is its name and a
/// little more: `set_config_by_name`, `pg_advisory_lock_int8`.
pub(super) fn of_symbol(symbol: &[u8]) -> SideEffects {
    const PARTS: [(&str, SideEffects); 14] = [
        ("set_config", SideEffects::SETTINGS),
        ("advisory", SideEffects::ADVISORY),
        ("nextval", SideEffects::SEQUENCE),
        ("setval", SideEffects::SEQUENCE),
        ("currval", SideEffects::CURRVAL),
        ("lastval", SideEffects::CURRVAL),
        ("setseed", SideEffects::SEED),
        ("backend_pid", SideEffects::BACKEND_PID),
        ("_to_xml", SideEffects::DYNAMIC),
        ("ts_stat", SideEffects::DYNAMIC),
        ("tsquery_rewrite", SideEffects::DYNAMIC),
        ("replication_slot", SideEffects::SLOT),
        ("replication_origin", SideEffects::ORIGIN),
        ("backup", SideEffects::BACKUP),
    ];
    let holds = |part: &str| symbol.windows(part.len()).any(|window| window == part.as_bytes());
    let found = PARTS
        .iter()
        .filter(|(part, _)| holds(part))
        .fold(SideEffects::NONE, |all, (_, side_effects)| all | *side_effects);
    let found = found | of_written(symbol);
    if found.any(SideEffects::SETTINGS) { found | SideEffects::DYNAMIC_SETTINGS } else { found }
}

/// Statements that write. None of the server's own functions, and none in C of an extension that was checked, has such a name because it
/// writes: hstore's operator `-` runs a function that is called `delete`.
const STATEMENTS: [&[u8]; 11] = [
    b"alter",
    b"copy",
    b"create",
    b"delete",
    b"drop",
    b"insert",
    b"merge",
    b"refresh",
    b"share",
    b"truncate",
    b"update",
];

/// Whether one of the server's own functions writes, by its name.
fn of_written(name: &[u8]) -> SideEffects {
    if STATEMENTS.contains(&name) {
        return SideEffects::NONE;
    }
    of_writing(&Summary::of(&Text::new(name, Rules::default())))
}

/// Whether a text writes, as its words tell.
pub(super) fn of_writing(summary: &Summary) -> SideEffects {
    if summary.may_write() { SideEffects::WRITES } else { SideEffects::NONE }
}

/// The side effects of one of the server's own functions or views, by its name: as `sql` marks it in a text.
pub(super) fn of_name(name: &[u8]) -> SideEffects {
    let is_plain = name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_');
    if !is_plain {
        return SideEffects::NONE;
    }
    let summary = Summary::of(&Text::new(name, Rules::default()));
    let side_effects = of_marks(summary.marks()) | of_written(name);
    // Which setting, a name alone does not tell.
    if side_effects.any(SideEffects::SETTINGS) { side_effects | SideEffects::DYNAMIC_SETTINGS } else { side_effects }
}

/// What the words of a text tell that stands in a body. What they tell of whole statements is left out: a body's
/// statements are divided otherwise.
pub(super) fn of_marks(marks: Marks) -> SideEffects {
    // Of these no text says that it pins.
    const OTHERS: [(Marks, SideEffects); 7] = [
        (Marks::SET_CONFIG, SideEffects::SETTINGS),
        (Marks::CURRVAL, SideEffects::CURRVAL),
        (Marks::NEXTVAL, SideEffects::SEQUENCE),
        (Marks::BACKEND_PID, SideEffects::BACKEND_PID),
        (Marks::CHANNELS, SideEffects::STATE_READ),
        (Marks::STATE_READ, SideEffects::STATE_READ),
        (Marks::NOTIFY, SideEffects::NOTIFIES),
    ];
    let others = OTHERS.iter().filter(|(mark, _)| marks.any(*mark));
    others.fold(pins::of_words(marks), |all, (_, side_effects)| all | *side_effects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_functions_are_known_by_their_extension() {
        let of = |name: &str, extension| of_c(name.as_bytes(), extension).without(SideEffects::WRITES);
        assert_eq!(of_c(b"delete", Some(b"hstore")), SideEffects::NONE);
        assert_eq!(of_c(b"pg_truncate_visibility_map", Some(b"pg_visibility")), SideEffects::WRITES);
        assert_eq!(of("digest", Some(b"pgcrypto")), SideEffects::NONE);
        assert_eq!(of("similarity", Some(b"pg_trgm")), SideEffects::NONE);
        assert_eq!(of("set_limit", Some(b"pg_trgm")), SideEffects::SETTINGS);
        assert_eq!(of("crosstab4", Some(b"tablefunc")), SideEffects::DYNAMIC);
        assert_eq!(of("dblink_exec", Some(b"dblink")), SideEffects::DBLINK);
        assert_eq!(of("xpath_table", Some(b"xml2")), SideEffects::DYNAMIC);
        assert_eq!(of("xpath_bool", Some(b"xml2")), SideEffects::NONE);
        assert_eq!(of("isn_weak", Some(b"isn")), SideEffects::LOAD);
        assert_eq!(of("pgv_set", Some(b"pg_variables")), SideEffects::LOAD);
        assert_eq!(of("set_it", Some(b"nobody_knows_it")), SideEffects::UNKNOWN);
        assert_eq!(of("mine", None), SideEffects::UNKNOWN);
    }

    #[test]
    fn symbols_of_the_servers_own_functions() {
        assert_eq!(of_symbol(b"int4eq"), SideEffects::NONE);
        assert_eq!(of_symbol(b"set_config_by_name"), SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS);
        assert_eq!(of_symbol(b"pg_try_advisory_lock_int4"), SideEffects::ADVISORY);
        assert_eq!(of_symbol(b"nextval_oid"), SideEffects::SEQUENCE);
    }

    #[test]
    fn names_of_the_servers_own() {
        assert_eq!(of_name(b"set_config"), SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS);
        assert_eq!(of_name(b"nextval"), SideEffects::SEQUENCE | SideEffects::WRITES);
        assert_eq!(of_name(b"pg_advisory_unlock_all"), SideEffects::ADVISORY);
        assert_eq!(of_name(b"pg_advisory_xact_lock"), SideEffects::NONE);
        assert_eq!(of_name(b"pg_cursors"), SideEffects::STATE_READ);
        assert_eq!(of_name(b"now"), SideEffects::NONE);
        assert_eq!(of_name(b"lo_create"), SideEffects::WRITES);
        assert_eq!(of_name(b"delete"), SideEffects::NONE, "a function of the server's own has no such name");
        assert_eq!(of_name(b"not a 'name"), SideEffects::NONE);
    }
}
