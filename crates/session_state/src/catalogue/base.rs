//! What is known before a catalogue is read: the server's own functions, its keywords, and what extensions' functions do
//! that are written in C and cannot be read.

use super::hidden::Hidden;
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

const fn only_clean(name: &'static str) -> (&'static str, &'static [(&'static str, Hidden)]) {
    (name, &[])
}

/// Extensions whose C functions keep nothing in the session, but for those listed by the beginnings of their names.
/// From their sources' sight: a setting changed, a static variable, a text that is run.
const VETTED: [(&str, &[(&str, Hidden)]); 54] = [
    only_clean("address_standardizer_data_us"),
    only_clean("adminpack"),
    only_clean("amcheck"),
    ("autoinc", &[("autoinc", Hidden::SEQUENCE)]),
    only_clean("bloom"),
    only_clean("btree_gin"),
    only_clean("btree_gist"),
    only_clean("citext"),
    only_clean("cube"),
    ("dblink", &[("", Hidden::DBLINK)]),
    only_clean("dict_int"),
    only_clean("dict_xsyn"),
    only_clean("earthdistance"),
    only_clean("file_fdw"),
    only_clean("fuzzystrmatch"),
    only_clean("hstore"),
    only_clean("insert_username"),
    only_clean("intagg"),
    only_clean("intarray"),
    ("isn", &[("isn_weak", Hidden::UNKNOWN)]),
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
    ("pg_trgm", &[("set_limit", Hidden::SETTINGS)]),
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
    ("tablefunc", &[("crosstab", Hidden::DYNAMIC), ("connectby", Hidden::DYNAMIC)]),
    only_clean("tcn"),
    only_clean("tsm_system_rows"),
    only_clean("tsm_system_time"),
    only_clean("unaccent"),
    only_clean("uuid-ossp"),
    only_clean("vector"),
];

/// An extension that is vetted, but for its functions that run a text.
const XML2: &str = "xml2";

/// What a C function hides, by its name and the extension it belongs to.
pub(super) fn of_c(name: &[u8], extension: Option<&[u8]>) -> Hidden {
    let Some(extension) = extension else { return Hidden::UNKNOWN };
    if extension == XML2.as_bytes() {
        return if name == b"xpath_table" { Hidden::DYNAMIC } else { Hidden::NONE };
    }
    let Some((_, exceptions)) = VETTED.iter().find(|(vetted, _)| vetted.as_bytes() == extension) else {
        return Hidden::UNKNOWN;
    };
    let exception = exceptions.iter().find(|(start, _)| name.starts_with(start.as_bytes()));
    exception.map_or(Hidden::NONE, |(_, hidden)| *hidden)
}

/// What another name for one of the server's own functions hides, by the function's symbol, which often is its name and a
/// little more: `set_config_by_name`, `pg_advisory_lock_int8`.
pub(super) fn of_symbol(symbol: &[u8]) -> Hidden {
    const PARTS: [(&str, Hidden); 14] = [
        ("set_config", Hidden::SETTINGS),
        ("advisory", Hidden::ADVISORY),
        ("nextval", Hidden::SEQUENCE),
        ("setval", Hidden::SEQUENCE),
        ("currval", Hidden::CURRVAL),
        ("lastval", Hidden::CURRVAL),
        ("setseed", Hidden::SEED),
        ("backend_pid", Hidden::BACKEND_PID),
        ("_to_xml", Hidden::DYNAMIC),
        ("ts_stat", Hidden::DYNAMIC),
        ("tsquery_rewrite", Hidden::DYNAMIC),
        ("replication_slot", Hidden::SLOT),
        ("replication_origin", Hidden::ORIGIN),
        ("backup", Hidden::BACKUP),
    ];
    let holds = |part: &str| symbol.windows(part.len()).any(|window| window == part.as_bytes());
    let found = PARTS.iter().filter(|(part, _)| holds(part)).fold(Hidden::NONE, |all, (_, hidden)| all | *hidden);
    if found.any(Hidden::SETTINGS) { found | Hidden::DYNAMIC_SETTINGS } else { found }
}

/// What one of the server's own functions or views hides, by its name: as `sql` marks it in a text.
pub(super) fn of_name(name: &[u8]) -> Hidden {
    let is_plain = name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_');
    if !is_plain {
        return Hidden::NONE;
    }
    let hidden = of_marks(Summary::of(&Text::new(name, Rules::default())).marks());
    // Which setting, a name alone does not tell.
    if hidden.any(Hidden::SETTINGS) { hidden | Hidden::DYNAMIC_SETTINGS } else { hidden }
}

/// What the words of a text tell that stands in a body. What they tell of whole statements is left out: a body's
/// statements are divided otherwise.
pub(super) fn of_marks(marks: Marks) -> Hidden {
    const PAIRS: [(Marks, Hidden); 13] = [
        (Marks::SET_CONFIG, Hidden::SETTINGS),
        (Marks::ADVISORY, Hidden::ADVISORY),
        (Marks::CURRVAL, Hidden::CURRVAL),
        (Marks::NEXTVAL, Hidden::SEQUENCE),
        (Marks::BACKEND_PID, Hidden::BACKEND_PID),
        (Marks::SEED, Hidden::SEED),
        (Marks::CHANNELS, Hidden::STATE_READ),
        (Marks::STATE_READ, Hidden::STATE_READ),
        (Marks::BACKUP, Hidden::BACKUP),
        (Marks::SLOT, Hidden::SLOT),
        (Marks::ORIGIN, Hidden::ORIGIN),
        (Marks::DBLINK, Hidden::DBLINK),
        (Marks::TEMPORARY, Hidden::TEMPORARY),
    ];
    PAIRS.iter().filter(|(mark, _)| marks.any(*mark)).fold(Hidden::NONE, |all, (_, hidden)| all | *hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_functions_are_known_by_their_extension() {
        let of = |name: &str, extension| of_c(name.as_bytes(), extension);
        assert_eq!(of("digest", Some(b"pgcrypto")), Hidden::NONE);
        assert_eq!(of("similarity", Some(b"pg_trgm")), Hidden::NONE);
        assert_eq!(of("set_limit", Some(b"pg_trgm")), Hidden::SETTINGS);
        assert_eq!(of("crosstab4", Some(b"tablefunc")), Hidden::DYNAMIC);
        assert_eq!(of("dblink_exec", Some(b"dblink")), Hidden::DBLINK);
        assert_eq!(of("xpath_table", Some(b"xml2")), Hidden::DYNAMIC);
        assert_eq!(of("xpath_bool", Some(b"xml2")), Hidden::NONE);
        assert_eq!(of("isn_weak", Some(b"isn")), Hidden::UNKNOWN);
        assert_eq!(of("pgv_set", Some(b"pg_variables")), Hidden::UNKNOWN);
        assert_eq!(of("mine", None), Hidden::UNKNOWN);
    }

    #[test]
    fn symbols_of_the_servers_own_functions() {
        assert_eq!(of_symbol(b"int4eq"), Hidden::NONE);
        assert_eq!(of_symbol(b"set_config_by_name"), Hidden::SETTINGS | Hidden::DYNAMIC_SETTINGS);
        assert_eq!(of_symbol(b"pg_try_advisory_lock_int4"), Hidden::ADVISORY);
        assert_eq!(of_symbol(b"nextval_oid"), Hidden::SEQUENCE);
    }

    #[test]
    fn names_of_the_servers_own() {
        assert_eq!(of_name(b"set_config"), Hidden::SETTINGS | Hidden::DYNAMIC_SETTINGS);
        assert_eq!(of_name(b"nextval"), Hidden::SEQUENCE);
        assert_eq!(of_name(b"pg_advisory_unlock_all"), Hidden::ADVISORY);
        assert_eq!(of_name(b"pg_advisory_xact_lock"), Hidden::NONE);
        assert_eq!(of_name(b"pg_cursors"), Hidden::STATE_READ);
        assert_eq!(of_name(b"now"), Hidden::NONE);
        assert_eq!(of_name(b"not a 'name"), Hidden::NONE);
    }
}
