//! Imports go down the picture: the layer table, held against every Cargo.toml.
//!
//! Dev-dependencies may differ, a test looks from anywhere. A new internal dependency is a change of the architecture:
//! it needs a decision in docs/adr/ and a word here.

use crate::finding::Finding;
use crate::manifest::{Dependency, For, dependencies};
use crate::tree::{Tree, crate_of};

/// A crate, and which of ours it imports: no fewer, no more.
const LAYERS: &[(&str, &[&str])] = &[
    ("monitor", &["names"]),
    ("page", &["units", "machine", "activity", "monitor"]),
    ("units", &[]),
    ("wire", &[]),
    ("auth", &[]),
    ("sql", &[]),
    ("settings", &[]),
    ("hba", &[]),
    ("observe", &[]),
    ("doctor", &["observe"]),
    ("stacks", &[]),
    ("top", &[]),
    ("report", &[]),
    ("session_state", &["units", "wire", "sql"]),
    ("queueing", &["units", "settings", "wire", "sql"]),
    ("connections", &["units", "settings", "session_state", "wire", "auth"]),
    ("machine", &["units", "settings", "hba", "session_state", "queueing", "connections", "wire", "sql", "auth"]),
    ("activity", &["units", "observe", "queueing", "connections", "machine", "sql"]),
    ("archive", &["machine", "activity"]),
    ("link", &["units", "settings", "session_state", "queueing", "connections", "machine", "wire", "sql", "auth"]),
    ("door", &["units", "settings", "hba", "session_state", "queueing", "connections", "machine", "wire", "auth"]),
    ("coordinator", &["units", "settings", "queueing", "connections", "machine", "sql"]),
    (
        "worker",
        &["units", "settings", "session_state", "queueing", "connections", "machine", "link", "wire", "sql", "auth"],
    ),
    ("pooling", &["door", "coordinator", "worker"]),
    ("tls", &[]),
    ("names", &[]),
    ("engine", &["units", "queueing", "connections", "machine", "pooling", "wire", "auth", "tls", "names"]),
    ("handover", &["machine", "engine"]),
    ("http_client", &["names"]),
    ("patroni", &["http_client"]),
    ("authorities", &["units", "machine", "auth", "hba", "http_client", "names", "tls"]),
    ("control", &["units", "settings", "session_state", "queueing", "connections", "machine", "activity", "wire"]),
    ("config", &["queueing", "connections", "machine", "auth", "settings", "hba"]),
    ("client", &["names"]),
    ("demo", &["client"]),
    ("ask", &["auth", "client", "settings", "tls"]),
    ("prober", &["units", "connections", "machine", "ask"]),
    ("measure", &["ask", "client"]),
    ("trials", &["ask", "client", "demo", "measure"]),
    ("programs", &["ask", "auth", "config", "connections", "settings"]),
    ("pgweir-bench", &["config", "demo", "programs", "settings", "trials"]),
    (
        "pgweir",
        &[
            "units",
            "auth",
            "hba",
            "settings",
            "connections",
            "machine",
            "sql",
            "observe",
            "sql",
            "activity",
            "archive",
            "report",
            "authorities",
            "http_client",
            "patroni",
            "tls",
            "names",
            "prober",
            "engine",
            "handover",
            "control",
            "config",
            "programs",
            "ask",
            "monitor",
            "page",
            "stacks",
            "doctor",
            "top",
        ],
    ),
    (
        "sim",
        &[
            "units",
            "settings",
            "queueing",
            "session_state",
            "connections",
            "machine",
            "control",
            "pooling",
            "wire",
            "auth",
        ],
    ),
    ("bench", &["client", "demo", "measure"]),
    ("failover", &["client", "demo", "measure"]),
    ("outer", &["client", "demo", "measure"]),
    ("regress", &["demo", "outer"]),
    (
        "fuzz",
        &[
            "activity",
            "units",
            "settings",
            "hba",
            "session_state",
            "queueing",
            "connections",
            "machine",
            "pooling",
            "config",
            "sim",
            "wire",
            "auth",
            "sql",
        ],
    ),
    ("xtask", &[]),
];
/// Below the line: no I/O, clock, threads or globals. Their clippy.toml bans each with its reason.
pub(crate) const PURE: [&str; 16] = [
    "doctor",
    "units",
    "wire",
    "auth",
    "sql",
    "settings",
    "hba",
    "session_state",
    "queueing",
    "connections",
    "machine",
    "link",
    "door",
    "coordinator",
    "worker",
    "pooling",
];
/// Of these, what the decisions consist of: all but the leaves.
pub(crate) const CORE: [&str; 10] = [
    "units",
    "session_state",
    "queueing",
    "connections",
    "machine",
    "link",
    "door",
    "coordinator",
    "worker",
    "pooling",
];
const REASONS: &str = "docs/adr/0006-dependencies.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.texts().filter(|(path, _)| *path == "Cargo.toml" || path.ends_with("/Cargo.toml"));
    let mut found: Vec<Finding> = Vec::new();
    let ours: Vec<&str> = tree.paths().filter_map(manifest_of).collect();
    let mut used = Vec::new();
    for (path, text) in manifests {
        let wanted = dependencies(text);
        found.extend(manifest_of(path).map(|name| of_a_crate(name, path, text, &wanted, &ours)).unwrap_or_default());
        found.extend(without_reason(tree, path, &wanted, &ours));
        used.extend(wanted.iter().map(|dependency| dependency.name));
    }
    found.extend(without_use(tree, &used));
    found.extend(without_bans(tree));
    found
}

fn manifest_of(path: &str) -> Option<&str> {
    if path == "fuzz/Cargo.toml" {
        return Some("fuzz");
    }
    crate_of(path).filter(|name| path == format!("crates/{name}/Cargo.toml"))
}

fn of_a_crate(name: &str, path: &str, text: &str, wanted: &[Dependency<'_>], ours: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    if !text.contains("[lints]\nworkspace = true") {
        found.push(Finding::new(path, 1, "no `[lints] workspace = true`", "the workspace's lints hold in every crate"));
    }
    let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        found.push(Finding::new(
            path,
            1,
            format!("`{name}` is no layer"),
            "a new crate needs an ADR and a layer in xtask",
        ));
        return found;
    };
    let imports = || wanted.iter().filter(|wanted| wanted.whose == For::Program && ours.contains(&wanted.name));
    for import in imports().filter(|import| !below.contains(&import.name)) {
        let what = format!("`{name}` imports `{}`", import.name);
        found.push(Finding::new(path, import.line, what, "imports go down the layers of ARCHITECTURE.md only"));
    }
    let is_unused = |allowed: &&&str| ours.contains(*allowed) && !imports().any(|import| import.name == **allowed);
    found.extend(below.iter().filter(is_unused).map(|allowed| {
        let what = format!("`{name}` may import `{allowed}`, and does not");
        Finding::new(path, 1, what, "the layers in xtask allow what Cargo.toml files use, and no more")
    }));
    found
}

/// Names in the table's first column, each with its line.
fn reasons(tree: &Tree) -> Vec<(&str, usize)> {
    let rows = (1..).zip(tree.text(REASONS).unwrap_or_default().lines()).skip_while(|(_, row)| !row.starts_with("|--"));
    let cells = rows.skip(1).filter_map(|(line, row)| Some((row.strip_prefix('|')?.split('|').next()?, line)));
    cells
        .flat_map(|(cell, line)| cell.split([',', '/', ' ']).map(move |name| (name.trim_matches('`'), line)))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

fn without_reason(tree: &Tree, path: &str, wanted: &[Dependency<'_>], ours: &[&str]) -> Vec<Finding> {
    let reasons = reasons(tree);
    let foreign = wanted.iter().filter(|wanted| !ours.contains(&wanted.name));
    let silent = foreign.filter(|wanted| !reasons.iter().any(|(name, _)| *name == wanted.name));
    let rule = "every dependency has its reason in docs/adr/0006-dependencies.md";
    silent.map(|wanted| Finding::new(path, wanted.line, format!("dependency `{}`", wanted.name), rule)).collect()
}

fn without_use(tree: &Tree, used: &[&str]) -> Vec<Finding> {
    let stale = reasons(tree).into_iter().filter(|(name, _)| !used.contains(name));
    let rule = "a dependency that no Cargo.toml has needs no reason";
    stale.map(|(name, line)| Finding::new(REASONS, line, format!("`{name}`"), rule)).collect()
}

fn without_bans(tree: &Tree) -> Vec<Finding> {
    let bare = PURE.iter().filter(|name| {
        tree.has(&format!("crates/{name}/Cargo.toml")) && !tree.has(&format!("crates/{name}/clippy.toml"))
    });
    let rule = "a pure crate bans clocks, sockets, threads and files, each with its reason";
    bare.map(|name| Finding::new(&format!("crates/{name}/Cargo.toml"), 1, "no clippy.toml beside it", rule)).collect()
}
