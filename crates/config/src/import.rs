//! What becomes of a PgBouncer's file here, in words: for `pgweir import`.
//!
//! Each setting and entry that the file has is under one heading: as with PgBouncer, better by pgweir's defaults, different so that
//! somebody may notice, without effect here, or unknown to PgBouncer. Shows no secret. Does not say what is wrong with a file that cannot be
//! served: that is its errors.

use std::fmt::Write as _;
use std::sync::Arc;

use ::settings::value::Value;
use ::settings::{
    AuthType, DatabaseSettings, Effect, Fidelity, Key, Origin, PoolMode, PoolSize, Setting, SslMode, TABLE,
    UserSettings,
};
use connections::databases::{Database, TargetSessionAttrs};
use machine::Settings;

use crate::config::Config;
use crate::problem::clean;

/// What an item is compared with PgBouncer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Different,
    NoEffect,
    Unknown,
}

const HEADINGS: [(Verdict, &str); 5] = [
    (Verdict::Same, "As with PgBouncer"),
    (Verdict::Better, "Better than with PgBouncer, unless you say otherwise"),
    (Verdict::Different, "Different, so that a script may notice"),
    (Verdict::NoEffect, "Without effect"),
    (Verdict::Unknown, "Not for PgBouncer: it refuses a file that has"),
];

/// A page of text: a heading for each verdict, with a line an item.
#[must_use]
pub fn import(config: &Config) -> String {
    let mut page = String::from("pgweir can serve this file.\n");
    let mut items: Vec<(Verdict, String)> = Vec::new();
    items.extend(TABLE.iter().filter_map(|setting| of_setting(config, setting)));
    items.extend(entries(config));
    items.extend(ours(config).into_iter().map(|words| (Verdict::Unknown, words)));
    items.extend(better(config).into_iter().map(|words| (Verdict::Better, words)));
    items.extend(different(config).into_iter().map(|words| (Verdict::Different, words)));
    for (verdict, heading) in HEADINGS {
        let mut of_it = items.iter().filter(|(of, _)| *of == verdict).peekable();
        if of_it.peek().is_some() {
            let _ = writeln!(page, "\n{heading}");
        }
        for (_, words) in of_it {
            let _ = writeln!(page, "  {}", clean(words));
        }
    }
    page
}

/// A setting that the file sets to something else than PgBouncer would take without it.
fn of_setting(config: &Config, setting: &Setting) -> Option<(Verdict, String)> {
    let values = &config.values;
    let place = values.place(setting.key)?;
    let shown = config.rows.iter().find(|row| row.key == setting.name)?.value.clone().unwrap_or_default();
    let words = format!("{} = {shown}  ({}:{})", setting.name, place.file, place.line);
    if setting.origin == Origin::Ours {
        return Some((Verdict::Unknown, words));
    }
    let is_default = values.is_default(setting.key);
    let verdict = match setting.effect {
        // Versions of TLS are followed, or the file would be refused.
        _ if matches!(setting.key, Key::client_tls_protocols | Key::server_tls_protocols) => Verdict::Same,
        Effect::Partly if !is_default => Verdict::NoEffect,
        _ if is_default && setting.key != Key::listen_backlog => return None,
        _ => Verdict::Same,
    };
    Some((verdict, words))
}

fn entries(config: &Config) -> Vec<(Verdict, String)> {
    let settings = &config.pooling;
    let named = |name: &str| if name == "*" { "any other name".to_owned() } else { name.to_owned() };
    let databases: Vec<String> =
        settings.databases.values().chain(&settings.fallback).map(|entry| named(&entry.name)).collect();
    let users: Vec<String> = settings.users.keys().cloned().collect();
    let mut found = Vec::new();
    let peers: Vec<String> = settings.peers().map(|(id, _)| id.0.to_string()).collect();
    for (section, names) in [("[databases]", databases), ("[users]", users), ("[peers]", peers)] {
        if !names.is_empty() {
            found.push((Verdict::Same, format!("{section}: {}", names.join(", "))));
        }
    }
    let peers = config.warnings.iter().find(|problem| problem.key.as_deref() == Some("peers"));
    found.extend(peers.map(|problem| (Verdict::NoEffect, format!("[peers]: {}", problem.expected))));
    found
}

/// What PgBouncer does not know though it knows the setting, and what only pgweir has beside settings.
fn ours(config: &Config) -> Vec<String> {
    let settings = &config.pooling;
    let login = &settings.global.login;
    let mut found = Vec::new();
    if matches!(login.auth_type, AuthType::OAuth | AuthType::Peer) {
        found.push(format!("auth_type = {}", login.auth_type.as_str()));
    }
    if settings.global.pools.default_pool_size == PoolSize::Auto {
        found.push("default_pool_size = auto".to_owned());
    }
    for entry in settings.databases.values().chain(&settings.fallback) {
        let own = &entry.settings;
        let names = [
            ("auth_type", own.auth_type.is_some()),
            ("patroni_urls", entry.patroni_urls.is_some()),
            ("pool_size=auto", own.pool_size == Some(PoolSize::Auto)),
            ("server_idle_timeout", own.server_idle_timeout.is_some()),
            ("server_max_uses", own.server_max_uses.is_some()),
            ("target_session_attrs", entry.target_session_attrs != TargetSessionAttrs::Any),
        ];
        let set = names.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name);
        let set = set.chain(only_ours(DatabaseSettings::NAMES, |key| own.has(key)));
        found.extend(set.map(|name| format!("[databases] {}: {name}", entry.name)));
    }
    for (user, own) in &settings.users {
        let names = [
            ("pool_size=auto", own.pool_size == Some(PoolSize::Auto)),
            ("server_idle_timeout", own.server_idle_timeout.is_some()),
            ("server_max_uses", own.server_max_uses.is_some()),
        ];
        let set = names.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name);
        let set = set.chain(only_ours(UserSettings::NAMES, |key| own.has(key)));
        found.extend(set.map(|name| format!("[users] {user}: {name}")));
    }
    if settings.classes.all.len() > 1 {
        found.push("[classes]".to_owned());
    }
    found
}

/// The settings that are set, and that only pgweir has.
fn only_ours(names: &'static [(&'static str, Key)], has: impl Fn(Key) -> bool) -> impl Iterator<Item = &'static str> {
    let is_ours = |key: Key| TABLE.iter().any(|setting| setting.key == key && setting.origin == Origin::Ours);
    names.iter().filter(move |(_, key)| has(*key) && is_ours(*key)).map(|(name, _)| *name)
}

/// Whether some sessions share servers and are followed.
fn followed(settings: &Settings) -> bool {
    let global = (settings.global.pools.pool_mode, settings.global.pools.pool_fidelity);
    let is_followed = |mode: Option<PoolMode>, fidelity: Option<Fidelity>| {
        mode.unwrap_or(global.0) != PoolMode::Session && fidelity.unwrap_or(global.1) != Fidelity::Classic
    };
    let of_database = |entry: &Arc<Database>| is_followed(entry.settings.pool_mode, entry.settings.pool_fidelity);
    is_followed(None, None)
        || settings.databases.values().chain(&settings.fallback).any(of_database)
        || settings.users.values().any(|user| is_followed(user.pool_mode, user.pool_fidelity))
}

fn better(config: &Config) -> Vec<String> {
    let settings = &config.pooling;
    let global = &settings.global;
    let is_capped = |own: &dyn Fn(&Database) -> Option<u32>, whole: u32| {
        whole > 0 || settings.databases.values().chain(&settings.fallback).any(|entry| own(entry).unwrap_or(0) > 0)
    };
    let by_users = settings.users.values().any(|user| user.max_user_connections.unwrap_or(0) > 0);
    let shares = is_capped(&|entry| entry.settings.max_db_connections, global.pools.max_db_connections)
        || global.pools.max_user_connections > 0
        || by_users;
    let follows = followed(settings);
    let table = [
        (
            follows,
            "transaction and statement mode: sessions keep what they SET, PREPARE, lock and make temporary, LISTEN works (pool_fidelity = classic: as PgBouncer)".to_owned(),
        ),
        (
            follows && global.waiting.query_timeout.is_some(),
            "query_timeout: the query is cancelled and its client goes on, where PgBouncer closes it (pool_fidelity = classic)".to_owned(),
        ),
        (
            settings.workers > 1,
            format!("{} threads serve clients, where PgBouncer has one (workers = 1)", settings.workers),
        ),
        (
            config.values.is_default(Key::listen_backlog) && config.values.place(Key::listen_backlog).is_none(),
            "listen_backlog is 4096, where PgBouncer has 128: clients that come at once are not turned away".to_owned(),
        ),
        (
            global.login.max_login_concurrency > 0,
            "logins take turns, so that a storm of them costs others little (max_login_concurrency = 0)".to_owned(),
        ),
        (
            shares,
            "max_db_connections, max_user_connections: pools take turns, by the time that they hold servers".to_owned(),
        ),
        (
            global.login.auth_user.is_some() && global.login.auth_cache_ttl.is_some(),
            "auth_query: while its database cannot be reached, its last answer counts for auth_cache_ttl (auth_cache_ttl = 0)".to_owned(),
        ),
        (
            !global.login.auth_hba_file.is_empty(),
            "auth_hba_file: all of PostgreSQL's syntax that a pooler can know; a file with a mistake is an error and not half used".to_owned(),
        ),
        (
            global.tls.client_tls_sslmode != SslMode::Disable,
            "client_tls_*: files are read again when they change; SCRAM is bound to the certificate where clients can".to_owned(),
        ),
        (
            global.tls.server_tls_sslmode != SslMode::Disable,
            "server_tls_*: SCRAM is bound to PostgreSQL's certificate (server_channel_binding = disable)".to_owned(),
        ),
    ];
    table.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect()
}

fn different(config: &Config) -> Vec<String> {
    let settings = &config.pooling;
    let global = &settings.global;
    let own_query = config.values.get(Key::auth_query) != &Value::Text(::settings::AUTH_QUERY.to_owned());
    let table = [
        (
            true,
            "a refused login has PostgreSQL's text and SQLSTATE (28P01, 28000, 3D000, 53300), where PgBouncer has 08P01",
        ),
        (
            global.login.auth_failure_delay.is_some(),
            "who guesses passwords is answered ever later, up to 5 s (auth_failure_delay = 0)",
        ),
        (
            global.observing.observe_interval.is_some(),
            "while something is slow or somebody looks, one connection more to each PostgreSQL server asks what its backends do (observe_when, \
             observe_interval = 0)",
        ),
        (
            global.login.auth_user.is_some() && own_query,
            "auth_query is run with search_path = pg_catalog; names that it has without their schema are looked for in auth_user's search_path, \
             and used where no stranger may create objects",
        ),
        (
            !global.login.auth_hba_file.is_empty(),
            "auth_hba_file: a line of groups of roles (+name, samerole) or of host names is refused, as a pooler cannot know them",
        ),
        (
            global.tls.client_tls_sslmode != SslMode::Disable || global.tls.server_tls_sslmode != SslMode::Disable,
            "TLS below 1.2 and encrypted keys are refused",
        ),
        (
            true,
            "SHOW VERSION and the first line of -V have PgBouncer's version; pgweir's is in SHOW PGWEIR and in the second line",
        ),
        (true, "-R takes over from a running pgweir only, without a pause"),
    ];
    table.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned()).collect()
}
