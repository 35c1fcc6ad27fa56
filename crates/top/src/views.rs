//! The views: what each asks the console, and which columns it shows first.
//!
//! Columns that a newer pgweir has and no shape names come behind the others. Does not know how they are drawn.

/// A view, as keys `1` to `8` choose it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum View {
    Overview,
    Pools,
    Classes,
    Waits,
    Statements,
    Holders,
    Locks,
    Clients,
}

impl View {
    pub(crate) const ALL: [View; 8] = [
        View::Overview,
        View::Pools,
        View::Classes,
        View::Waits,
        View::Statements,
        View::Holders,
        View::Locks,
        View::Clients,
    ];

    /// As `--view` has it.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Pools => "pools",
            View::Classes => "classes",
            View::Waits => "waits",
            View::Statements => "statements",
            View::Holders => "holders",
            View::Locks => "locks",
            View::Clients => "clients",
        }
    }

    #[must_use]
    pub(crate) fn by_name(name: &str) -> Option<View> {
        View::ALL.into_iter().find(|view| view.name() == name)
    }

    /// The tables that a view can show, the first of them unless another is chosen. `tags`: those of which waits can be summed.
    #[must_use]
    pub(crate) fn tables(self, tags: &[String], span: &str) -> Vec<Shown> {
        let shown = |name: &str, shape: &'static Shape| Shown::new(name, format!("SHOW {}", shape.show), shape);
        let waits = |name: &str, by: &str| Shown::new(name, waits_of(by, span), &WAITS);
        match self {
            View::Overview => Vec::new(),
            View::Pools => {
                vec![
                    shown("pools", &POOLS),
                    shown("sizing", &SIZING),
                    shown("servers", &SERVERS),
                    shown("states", &STATES),
                    shown("hosts", &HOSTS),
                ]
            }
            View::Classes => vec![shown("classes", &CLASSES), shown("limits", &LIMITS)],
            View::Waits => {
                let fixed = [
                    ("event", "EVENT"),
                    ("statement", "STATEMENT"),
                    ("pool", "POOL"),
                    ("blocker", "BLOCKER"),
                    ("class", "CLASS"),
                    ("event class", "EVENT_CLASS"),
                ];
                let fixed = fixed.into_iter().map(|(name, by)| waits(name, by));
                let quoted = |tag: &String| format!("TAG '{}'", tag.replace('\'', "''"));
                fixed.chain(tags.iter().map(|tag| waits(&format!("tag {tag}"), &quoted(tag)))).collect()
            }
            View::Statements => vec![shown("statements", &QUERIES)],
            View::Holders => vec![shown("holders", &HOLDERS), shown("pins", &PINS)],
            View::Locks => vec![shown("tree", &LOCKS), shown("counts", &LOCK_COUNTS)],
            View::Clients => vec![shown("active", &ACTIVITY), shown("all", &CLIENTS)],
        }
    }

    /// What the overview asks.
    #[must_use]
    pub(crate) fn overview() -> Vec<String> {
        let waits = waits_of("EVENT", "LAST 60s");
        let mut all = vec![WHY, "SHOW HOSTS", "SHOW TOTALS", "SHOW POOLS", "SHOW HOLDERS", "SHOW LOCKS"];
        all.push(&waits);
        all.into_iter().map(str::to_owned).collect()
    }
}

/// `SHOW WAITS` by event, over a span of the last hour.
#[must_use]
pub(crate) fn waits_of(by: &str, span: &str) -> String {
    format!("SHOW WAITS BY {by} {span}")
}

/// Why clients wait.
pub(crate) const WHY: &str = "SHOW WHY";

/// The names of the tags by which waits can be summed.
pub(crate) const TAGS: &str = "SHOW CONFIG LIKE 'observe_tags'";

/// A table of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub name: String,
    pub sql: String,
    pub shape: &'static Shape,
}

impl Shown {
    fn new(name: &str, sql: String, shape: &'static Shape) -> Shown {
        Shown { name: name.to_owned(), sql, shape }
    }
}

/// How a table is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    pub show: &'static str,
    /// In this order; those behind need a wider terminal, or a key.
    pub columns: &'static [&'static str],
    /// The last, and as wide as there is room.
    pub wide: Option<&'static str>,
    /// What tells one row from the others.
    pub key: &'static [&'static str],
    /// The column with the greatest first; `None`: as the console has them.
    pub sort: Option<&'static str>,
}

const POOLS: Shape = Shape {
    show: "POOLS",
    columns: &[
        "database",
        "user",
        "cl_waiting",
        "maxwait",
        "cl_active",
        "sv_active",
        "sv_idle",
        "sv_login",
        "sv_used",
        "sv_tested",
        "pool_mode",
    ],
    wide: None,
    key: &["database", "user"],
    sort: Some("cl_waiting"),
};
const SIZING: Shape = Shape {
    show: "SIZING",
    columns: &["database", "user", "size", "settled", "floor", "ceiling", "waits", "changes"],
    wide: Some("why"),
    key: &["database", "user"],
    sort: None,
};
const SERVERS: Shape = Shape {
    show: "SERVERS",
    columns: &["database", "user", "state", "remote_pid", "addr", "port", "request_time", "connect_time", "tls"],
    wide: Some("application_name"),
    key: &["id"],
    sort: None,
};
const STATES: Shape = Shape {
    show: "STATES",
    columns: &["state", "count", "database", "user", "max_state_age", "max_transaction_age", "origin", "server"],
    wide: None,
    key: &["server", "database", "user", "origin", "state"],
    sort: Some("count"),
};
const HOSTS: Shape = Shape {
    show: "HOSTS",
    columns: &[
        "host",
        "port",
        "role",
        "up",
        "timeline",
        "epoch",
        "lag",
        "probed",
        "databases",
        "patroni",
        "no_primary",
        "disputed",
        "observed",
        "retry_in",
    ],
    wide: Some("why"),
    key: &["host", "port"],
    sort: None,
};
const CLASSES: Shape = Shape {
    show: "CLASSES",
    columns: &[
        "class",
        "cl_waiting",
        "sv_active",
        "share",
        "maxwait_seconds",
        "refused",
        "weight",
        "priority",
        "min",
        "max",
        "max_waiting",
        "wait_count",
        "wait_seconds",
        "starvation",
        "server_seconds",
    ],
    wide: None,
    key: &["class"],
    sort: None,
};
const LIMITS: Shape = Shape {
    show: "LIMITS",
    columns: &["class", "kind", "limit", "remaining", "waiting", "delayed", "rejected", "burst", "over", "fingerprint"],
    wide: None,
    key: &["class", "kind", "fingerprint"],
    sort: None,
};
const WAITS: Shape = Shape {
    show: "WAITS",
    columns: &["percent", "avg", "max", "samples", "seen", "looks"],
    wide: Some("name"),
    key: &["name"],
    sort: None,
};
const QUERIES: Shape = Shape {
    show: "QUERIES",
    columns: &[
        "total_run_time",
        "calls",
        "p95_run_time",
        "total_queue_time",
        "errors",
        "database",
        "user",
        "p50_run_time",
        "p99_run_time",
        "max_run_time",
        "max_queue_time",
        "rows",
        "bytes_sent",
        "fingerprint",
    ],
    wide: Some("statement"),
    key: &["database", "user", "fingerprint"],
    sort: Some("total_run_time"),
};
const HOLDERS: Shape = Shape {
    show: "HOLDERS",
    columns: &[
        "held",
        "reason",
        "waiting",
        "blocking",
        "database",
        "user",
        "application_name",
        "tags",
        "client_id",
        "client_addr",
        "idle",
        "keeps",
        "wait_event_type",
        "wait_event",
        "class",
        "pid",
        "server",
    ],
    wide: Some("query"),
    key: &["client_id", "server", "pid"],
    sort: None,
};
const PINS: Shape = Shape {
    show: "PINS",
    columns: &["pinned", "reasons", "database", "user", "application_name", "addr", "port", "server_pid", "id"],
    wide: Some("statement"),
    key: &["id"],
    sort: Some("pinned"),
};
const LOCKS: Shape = Shape {
    show: "LOCKS",
    columns: &[
        "tree",
        "blocking",
        "waits_for",
        "object",
        "waiting",
        "application_name",
        "note",
        "tags",
        "state",
        "transaction_age",
        "blocks_with",
        "blocks_on",
        "client_id",
        "database",
        "user",
        "class",
        "server",
    ],
    wide: Some("query"),
    // One that waits behind several stands below each.
    key: &["server", "pid", "blocked_by"],
    sort: None,
};
const LOCK_COUNTS: Shape = Shape {
    show: "LOCK_COUNTS",
    columns: &["mode", "held", "waiting", "fast_path", "age", "server"],
    wide: None,
    key: &["server", "mode"],
    sort: Some("held"),
};
const ACTIVITY: Shape = Shape {
    show: "ACTIVITY",
    columns: &[
        "client_id",
        "state",
        "wait_event_type",
        "wait_event",
        "query_age",
        "waiting",
        "memory",
        "cpu",
        "application_name",
        "database",
        "user",
        "tags",
        "client_addr",
        "transaction_age",
        "queued",
        "blocked_by",
        "blocking",
        "class",
        "keeps",
        "origin",
        "pid",
        "server",
    ],
    wide: Some("query"),
    key: &["client_id", "server", "pid"],
    sort: None,
};
const CLIENTS: Shape = Shape {
    show: "SESSIONS",
    columns: &["id", "state", "wait", "database", "user", "addr", "port", "class", "request_time", "connect_time"],
    wide: Some("application_name"),
    key: &["id"],
    sort: Some("wait"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_has_its_name_and_tables() {
        for view in View::ALL {
            assert_eq!(View::by_name(view.name()), Some(view));
            assert_eq!(view.tables(&[], "").is_empty(), view == View::Overview);
        }
        assert_eq!(View::by_name("other"), None);
    }

    #[test]
    fn a_tag_is_named_as_the_console_reads_it() {
        let tables = View::Waits.tables(&["con'troller".to_owned()], "LAST 300s");
        assert_eq!(tables[0].sql, "SHOW WAITS BY EVENT LAST 300s");
        assert_eq!(tables.last().expect("the tag's").sql, "SHOW WAITS BY TAG 'con''troller' LAST 300s");
    }
}
