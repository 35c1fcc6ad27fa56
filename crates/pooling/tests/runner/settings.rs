//! The lines at a transcript's head that say how the pooler is set up: `pool default_pool_size=1 pool_mode=transaction`.
//!
//! Names and values are those of the configuration file: times are seconds, 0 switches off, flags are 0 or 1. There are
//! besides: `auto_pool_size_start` and `reads_catalogue`, which no file sets; a port behind each host of a list; and the
//! rules of classes, see `classes.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use pooling::Settings;
use pooling::settings::{
    Address, AuthType, Database, Fidelity, Host, LoadBalanceHosts, PoolMode, PoolSize, UserSettings,
};
use queueing::classes::{Class, ClassId, Classes, Over, Pattern, Rate, Rule};

use super::classes::Described;
use super::words::Words;

/// What every transcript starts from: PgBouncer's defaults (and so `pool_fidelity=classic`: the statements of most are
/// made up), one database `db`, three users who need no password.
pub(crate) fn initial() -> Settings {
    let mut settings = Settings {
        auth_type: AuthType::Trust,
        pool_fidelity: Fidelity::Classic,
        reads_catalogue: false,
        ..Settings::default()
    };
    settings.databases.insert("db".to_owned(), Arc::new(database("db")));
    for user in ["u", "v", "w"] {
        settings.secrets.insert(user.to_owned(), Secret::parse("secret"));
    }
    // The default takes a noticeable time by design.
    settings.scram_iterations = 2;
    settings
}

fn database(name: &str) -> Database {
    Database::new(name, vec![address("127.0.0.1:5432").expect("it is one")])
}

fn address(text: &str) -> Result<Address, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "5432"));
    let port = number(port)?;
    let host = match host.parse::<IpAddr>() {
        Ok(ip) => Host::Ip(ip),
        Err(_) if host.starts_with('/') => Host::Unix(host.to_owned()),
        Err(_) => Host::Name(host.to_owned()),
    };
    Ok(Address { host, port })
}

/// Reads one line of settings. False: it is none.
pub(crate) fn apply(settings: &mut Settings, mut words: Words<'_>) -> Result<bool, String> {
    if words.eat("pool") || words.eat("settings") {
        for_each_pair(words, |key, value| set(settings, key, value))?;
    } else if words.eat("database") {
        let name = words.bare("the database's name")?;
        let known = if name == "*" { settings.fallback.as_ref() } else { settings.databases.get(name) };
        let mut entry = known.map_or_else(|| database(name), |known| Database::clone(known));
        for_each_pair(words, |key, value| set_database(&mut entry, key, value))?;
        if name == "*" {
            settings.fallback = Some(Arc::new(entry));
        } else {
            settings.databases.insert(name.to_owned(), Arc::new(entry));
        }
    } else if words.eat("class") {
        let mut class = Described::new(settings, words.bare("the class's name")?);
        for_each_pair(words, |key, value| class.set(key, value))?;
        class.add_to(settings)?;
    } else if words.eat("no classes") {
        settings.classes = Arc::default();
    } else if words.eat("limits") {
        let name = words.bare("the class's name")?;
        let mut classes = Classes::clone(&settings.classes);
        for_each_pair(words, |key, value| set_class(&mut classes, name, key, value))?;
        settings.classes = Arc::new(classes);
    } else if words.eat("no database") {
        settings.databases.remove(words.bare("the database's name")?);
    } else if words.eat("user") {
        let entry = settings.users.entry(words.bare("the user's name")?.to_owned()).or_default();
        for_each_pair(words, |key, value| set_user(entry, key, value))?;
    } else if words.eat("secret") {
        let user = words.bare("the user's name")?;
        settings.secrets.insert(user.to_owned(), Secret::parse(&words.string("the secret")?));
    } else if words.eat("no secret") {
        settings.secrets.remove(words.bare("the user's name")?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn for_each_pair(mut words: Words<'_>, mut set: impl FnMut(&str, &str) -> Result<(), String>) -> Result<(), String> {
    while let Some(word) = words.any() {
        let text = String::from_utf8_lossy(&word.text);
        let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is no key=value"))?;
        set(key, value)?;
    }
    Ok(())
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("'{value}' is no number"))
}

/// How long a verb takes: `5s`, `20ms`, `3us`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = number(digits)?;
    Ok(match &text[digits.len()..] {
        "us" => Duration::from_micros(count),
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        other => return Err(format!("'{other}' is no unit of time: us, ms or s")),
    })
}

/// Seconds, with a fraction if wanted.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_secs_f64)
}

/// Seconds; 0 switches it off.
fn timeout(text: &str) -> Result<Option<Duration>, String> {
    Ok(Some(seconds(text)?).filter(|time| !time.is_zero()))
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("'{other}' is neither 0 nor 1")),
    }
}

fn fidelity(value: &str) -> Result<Fidelity, String> {
    let all = [Fidelity::Transparent, Fidelity::Strict, Fidelity::Classic];
    let found = all.into_iter().find(|fidelity| fidelity.as_str() == value);
    found.ok_or_else(|| format!("'{value}' is no fidelity"))
}

fn size(text: &str) -> Result<PoolSize, String> {
    if text == "auto" { Ok(PoolSize::Auto) } else { number(text).map(PoolSize::Fixed) }
}

fn mode(text: &str) -> Result<PoolMode, String> {
    match text {
        "session" => Ok(PoolMode::Session),
        "transaction" => Ok(PoolMode::Transaction),
        "statement" => Ok(PoolMode::Statement),
        other => Err(format!("'{other}' is no pool mode")),
    }
}

fn names(text: &str) -> impl Iterator<Item = String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned)
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    if set_timeout(settings, key, value)? {
        return Ok(());
    }
    match key {
        "default_pool_size" => settings.default_pool_size = size(value)?,
        "auto_pool_size_min" => settings.auto_pool_size_min = number(value)?,
        "auto_pool_size_max" => settings.auto_pool_size_max = number(value)?,
        "auto_pool_size_start" => settings.auto_pool_size_start = number(value)?,
        "pool_mode" => settings.pool_mode = mode(value)?,
        "pool_fidelity" => settings.pool_fidelity = fidelity(value)?,
        "min_pool_size" => settings.min_pool_size = number(value)?,
        "reserve_pool_size" => settings.reserve_pool_size = number(value)?,
        "max_pinned" => settings.max_pinned = number(value)?,
        "max_client_conn" => settings.max_client_conn = number(value)?,
        "max_db_connections" => settings.max_db_connections = number(value)?,
        "max_user_connections" => settings.max_user_connections = number(value)?,
        "max_server_connections" => settings.max_server_connections = number(value)?,
        "max_db_client_connections" => settings.max_db_client_connections = number(value)?,
        "max_user_client_connections" => settings.max_user_client_connections = number(value)?,
        "max_prepared_statements" => settings.max_prepared_statements = number(value)?,
        "fingerprint_max_active" => settings.statements.max_active = number(value)?,
        "fingerprint_over" if value == "reject" => settings.statements.over = Over::Reject,
        "workers" => settings.workers = number(value)?,
        "auth_type" => settings.auth_type = auth_type(value)?,
        "admin_users" => settings.admin_users = names(value).collect(),
        "stats_users" => settings.stats_users = names(value).collect(),
        "server_check_query" => settings.server_check_query = check_query(value),
        "server_reset_query" => settings.server_reset_query = value.to_owned(),
        "server_reset_query_always" => settings.server_reset_query_always = flag(value)?,
        "reads_catalogue" => settings.reads_catalogue = flag(value)?,
        "chaos_rotate" => settings.chaos.rotate = flag(value)?,
        "chaos_poison" => settings.chaos.poison = flag(value)?,
        "chaos_check" => settings.chaos.check = flag(value)?,
        "chaos_close" => settings.chaos.close = flag(value)?,
        "chaos_seed" => settings.chaos.seed = number(value)?,
        "server_fast_close" => settings.server_fast_close = flag(value)?,
        "server_round_robin" => settings.server_round_robin = flag(value)?,
        "ignore_startup_parameters" => settings.ignore_startup_parameters = names(value).collect(),
        "track_extra_parameters" => settings.track_extra_parameters = names(value).collect(),
        "application_name_add_host" => settings.application_name_add_host = flag(value)?,
        "login_notify_message" => settings.login_notify_message = value.to_owned(),
        "scram_iterations" => settings.scram_iterations = number(value)?,
        other => return Err(format!("'{other}' is no setting")),
    }
    Ok(())
}

fn set_timeout(settings: &mut Settings, key: &str, value: &str) -> Result<bool, String> {
    let place = match key {
        "reserve_pool_timeout" => &mut settings.reserve_pool_timeout,
        "query_wait_timeout" => &mut settings.query_wait_timeout,
        "query_wait_notify" => &mut settings.query_wait_notify,
        "query_timeout" => &mut settings.query_timeout,
        "query_cancel_timeout" => &mut settings.query_cancel_timeout,
        "idle_transaction_timeout" => &mut settings.idle_transaction_timeout,
        "transaction_timeout" => &mut settings.transaction_timeout,
        "client_idle_timeout" => &mut settings.client_idle_timeout,
        "client_login_timeout" => &mut settings.client_login_timeout,
        "server_connect_timeout" => &mut settings.server_connect_timeout,
        "server_idle_timeout" => &mut settings.server_idle_timeout,
        "cancel_wait_timeout" => &mut settings.cancel_wait_timeout,
        "autodb_idle_timeout" => &mut settings.autodb_idle_timeout,
        // 0 is a value here: used once, then closed.
        "server_lifetime" => {
            settings.server_lifetime = Some(seconds(value)?);
            return Ok(true);
        }
        "server_login_retry" => {
            settings.server_login_retry = seconds(value)?;
            return Ok(true);
        }
        "server_check_delay" => {
            settings.server_check_delay = seconds(value)?;
            return Ok(true);
        }
        _ => return Ok(false),
    };
    *place = timeout(value)?;
    Ok(true)
}

/// Nothing: no check. `<empty>`: the empty query.
fn check_query(value: &str) -> Option<String> {
    match value {
        "" => None,
        "<empty>" => Some(String::new()),
        query => Some(query.to_owned()),
    }
}

fn auth_type(value: &str) -> Result<AuthType, String> {
    Ok(match value {
        "trust" => AuthType::Trust,
        "any" => AuthType::Any,
        "plain" => AuthType::Plain,
        "md5" => AuthType::Md5,
        "scram-sha-256" => AuthType::Scram,
        other => return Err(format!("'{other}' is no auth_type")),
    })
}

fn set_database(entry: &mut Database, key: &str, value: &str) -> Result<(), String> {
    match key {
        "host" => entry.hosts = value.split(',').map(address).collect::<Result<_, _>>()?,
        "port" => {
            let port = number(value)?;
            entry.hosts.iter_mut().for_each(|address| address.port = port);
        }
        "load_balance_hosts" if value == "disable" => entry.load_balance_hosts = LoadBalanceHosts::Disable,
        "dbname" => entry.dbname = Some(value.to_owned()),
        "user" => entry.forced_user = Some(value.to_owned()),
        "password" => entry.password = Some(Secret::parse(value)),
        "pool_size" => entry.pool_size = Some(size(value)?),
        "min_pool_size" => entry.min_pool_size = Some(number(value)?),
        "reserve_pool_size" => entry.reserve_pool_size = Some(number(value)?),
        "pool_mode" => entry.pool_mode = Some(mode(value)?),
        "stable_backend_pid" => entry.stable_backend_pid = Some(flag(value)?),
        "max_db_connections" => entry.max_db_connections = Some(number(value)?),
        "max_db_client_connections" => entry.max_db_client_connections = Some(number(value)?),
        "server_lifetime" => entry.server_lifetime = Some(Some(seconds(value)?)),
        "query_wait_timeout" => entry.query_wait_timeout = Some(timeout(value)?),
        "connect_query" => entry.connect_query = Some(value.to_owned()),
        "client_encoding" | "datestyle" | "timezone" => entry.startup.push((key.to_owned(), value.to_owned())),
        other => return Err(format!("'{other}' is no setting of a database")),
    }
    Ok(())
}

/// `applications` and `users` make the rules.
fn set_class(classes: &mut Classes, name: &str, key: &str, value: &str) -> Result<(), String> {
    let known = classes.all.iter().position(|class| &*class.name == name);
    let place = known.unwrap_or_else(|| {
        classes.all.push(Class::new(name));
        classes.all.len() - 1
    });
    let limits = &mut classes.all[place].limits;
    match key {
        "tps" => limits.transactions = rate(value)?,
        "qps" => limits.queries = rate(value)?,
        "logins" => limits.logins = rate(value)?,
        "tps_burst" => burst(&mut limits.transactions, value)?,
        "qps_burst" => burst(&mut limits.queries, value)?,
        "logins_burst" => burst(&mut limits.logins, value)?,
        "max_active" => limits.active = Some(number(value)?).filter(|most| *most > 0),
        "over" if value == "reject" => limits.over = Over::Reject,
        "over" if value == "delay" => limits.over = Over::Delay,
        "applications" | "users" => {
            for name in names(value) {
                let of = |wanted: &str| match key == wanted {
                    true => vec![Pattern::Exactly(name.clone().into_bytes().into())],
                    false => vec![Pattern::All],
                };
                classes.rules.push(Rule {
                    databases: vec![Pattern::All],
                    users: of("users"),
                    applications: of("applications"),
                    tags: Vec::new(),
                    class: ClassId(place as u8),
                });
            }
        }
        other => return Err(format!("'{other}' is no setting of a class")),
    }
    Ok(())
}

/// Events a second, and as many at once; 0: no limit.
fn rate(value: &str) -> Result<Option<Rate>, String> {
    let per_second = number(value)?;
    Ok((per_second > 0).then_some(Rate { per_second, burst: per_second }))
}

fn burst(rate: &mut Option<Rate>, value: &str) -> Result<(), String> {
    rate.as_mut().ok_or("the rate comes before its burst")?.burst = number(value)?;
    Ok(())
}

fn set_user(entry: &mut UserSettings, key: &str, value: &str) -> Result<(), String> {
    match key {
        "pool_mode" => entry.pool_mode = Some(mode(value)?),
        "stable_backend_pid" => entry.stable_backend_pid = Some(flag(value)?),
        "pool_size" => entry.pool_size = Some(size(value)?),
        "reserve_pool_size" => entry.reserve_pool_size = Some(number(value)?),
        "max_user_connections" => entry.max_user_connections = Some(number(value)?),
        "max_user_client_connections" => entry.max_user_client_connections = Some(number(value)?),
        "query_timeout" => entry.query_timeout = Some(timeout(value)?),
        "query_wait_timeout" => entry.query_wait_timeout = Some(timeout(value)?),
        "idle_transaction_timeout" => entry.idle_transaction_timeout = Some(timeout(value)?),
        "transaction_timeout" => entry.transaction_timeout = Some(timeout(value)?),
        "client_idle_timeout" => entry.client_idle_timeout = Some(timeout(value)?),
        other => return Err(format!("'{other}' is no setting of a user")),
    }
    Ok(())
}
