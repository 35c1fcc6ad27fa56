//! What a configuration means, in words: for `pgweir check`.
//!
//! Says who may log in, which pools can exist, how many connections PostgreSQL must allow at worst and which time
//! limits are on. Shows no secret. Does not repeat the warnings, which say what is not supported yet.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ::settings::Over;
use auth::Secret;
use connections::databases::{Address, Database, Host, LoadBalanceHosts, TargetSessionAttrs};
use machine::Settings;
use queueing::classes::{Class, Classes, Long, Overflow, Rate};
use settings::{AuthType, ObserveWhen, PoolMode, PoolSize, SslMode};

use crate::config::Config;
use crate::demand::{self, Demand};
use crate::problem::clean;
use ::settings::value::Value;

/// Longer lists of names are cut.
const NAMES_SHOWN_MAX: usize = 12;

/// A page of text, with a heading and indented lines for each topic.
#[must_use]
pub fn explain(config: &Config) -> String {
    let mut page = Page(String::new());
    clients(&mut page, config);
    users(&mut page, &config.pooling);
    databases(&mut page, &config.pooling);
    classes(&mut page, config);
    connections(&mut page, &config.pooling);
    times(&mut page, &config.pooling);
    watching(&mut page, &config.pooling);
    page.0
}

struct Page(String);

impl Page {
    fn heading(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    fn line(&mut self, line: fmt::Arguments) {
        // Names may hold what would speak to the terminal.
        let _ = writeln!(self.0, "  {}", clean(&line.to_string()));
    }
}

fn clients(page: &mut Page, config: &Config) {
    page.heading("Listening");
    let listening = &config.pooling.global.listening;
    let port = listening.listen_port;
    for address in &listening.listen_addr {
        match address.as_str() {
            "*" => page.line(format_args!("TCP port {port} on all addresses")),
            address => page.line(format_args!("TCP port {port} on {address}")),
        }
    }
    if let Some(dir) = &listening.unix_socket_dir {
        page.line(format_args!("Unix socket {dir}/.s.PGSQL.{port}"));
    }
    if listening.listen_addr.is_empty() && listening.unix_socket_dir.is_none() {
        page.line(format_args!("nowhere: listen_addr and unix_socket_dir are both empty"));
    }
    match config.pooling.global.tls.client_tls_sslmode {
        SslMode::Disable => {}
        SslMode::Allow | SslMode::Prefer => page.line(format_args!("TLS for whoever asks for it")),
        SslMode::Require => page.line(format_args!("TLS only, but for Unix sockets")),
        SslMode::VerifyCa | SslMode::VerifyFull => {
            page.line(format_args!("TLS only, and with a valid certificate, but for Unix sockets"));
        }
    }
    page.line(format_args!("{}", counted(u64::from(config.pooling.workers), "worker thread")));
    match config.pooling.global.pools.max_client_conn {
        0 => page.line(format_args!("as many clients as there are file descriptors")),
        limit => page.line(format_args!("{} at a time", counted(u64::from(limit), "client"))),
    }
}

fn watching(page: &mut Page, settings: &Settings) {
    let (console, observing) = (&settings.global.console, &settings.global.observing);
    page.heading("Watching");
    for address in &console.http_listen {
        let live = if console.http_page { ", and the live page" } else { "" };
        page.line(format_args!("metrics, /live and /ready by HTTP on {address}{live}"));
    }
    match (observing.observe_interval, observing.observe_when) {
        (None, _) => page.line(format_args!("PostgreSQL is not asked what its backends do: observe_interval is 0")),
        (Some(interval), when) => {
            let when = match when {
                ObserveWhen::Always => "always",
                ObserveWhen::Trouble => "while something is slow or somebody looks",
            };
            let every = seconds(interval);
            page.line(format_args!(
                "one connection to each PostgreSQL server asks every {every} what its backends do: {when}"
            ));
            let unasked: Vec<&str> = entries(settings)
                .filter(|database| observing.observe_user.is_none() && database.forced_user.is_none())
                .filter(|_| settings.only_user().is_none())
                .map(|database| database.name.as_str())
                .collect();
            if !unasked.is_empty() {
                page.line(format_args!("not where no user is known for that (observe_user): {}", some(&unasked)));
            }
        }
    }
    let chosen: Vec<&str> =
        entries(settings).filter(|database| database.chooses_host()).map(|database| database.name.as_str()).collect();
    let servers = &settings.global.servers;
    if let (Some(interval), false) = (servers.host_check_interval, chosen.is_empty()) {
        let user = servers.host_check_user.as_ref().map(|user| format!(", as user {user}")).unwrap_or_default();
        let every = seconds(interval);
        page.line(format_args!(
            "one connection to each host asks every {every} whether it is the primary{user}: {}",
            some(&chosen)
        ));
    }
}

fn entries(settings: &Settings) -> impl Iterator<Item = &Arc<Database>> {
    settings.databases.values().chain(&settings.fallback)
}

fn users(page: &mut Page, settings: &Settings) {
    page.heading("Who may log in");
    let proof = match settings.global.login.auth_type {
        AuthType::Any => "anybody, under any name, without a password",
        AuthType::Trust => "the users below, without a password",
        AuthType::Plain => "the users below, with a password that travels in clear text",
        AuthType::Md5 => "the users below, by md5, or by SCRAM-SHA-256 where the stored secret is for SCRAM",
        AuthType::Scram => "the users below, by SCRAM-SHA-256",
        AuthType::Cert => "the users below, each by a certificate in that name",
        AuthType::Peer => "the users below, each as the system user of that name on the Unix socket",
        AuthType::Hba => "the users below, as auth_hba_file says",
        AuthType::Ldap => {
            "whom the directory server of auth_ldap_options knows, by its password, which travels in clear text"
        }
        AuthType::OAuth => "whom a token of the provider in auth_oauth_options names",
        AuthType::Pam => "whom PAM's service pgbouncer knows, by a password, which travels in clear text",
    };
    page.line(format_args!("{proof}"));
    let (able, unable): (Vec<_>, Vec<_>) =
        settings.secrets.iter().partition(|(_, secret)| demand::may_log_in(settings, secret));
    let able: Vec<&str> = able.into_iter().map(|(name, _)| name.as_str()).collect();
    if settings.global.login.auth_type != AuthType::Any {
        page.line(format_args!("{}: {}", counted(able.len() as u64, "user"), some(&able)));
    }
    let login = &settings.global.login;
    if let (Some(user), true) = (&login.auth_user, login.auth_type != AuthType::Any) {
        let place = login.auth_dbname.as_deref().unwrap_or("the database that they name");
        page.line(format_args!("and whom auth_query finds: {user} runs it in {place}"));
    }
    for (name, secret) in unable.iter().take(NAMES_SHOWN_MAX) {
        page.line(format_args!("not {name}: {}", why_not(secret)));
    }
    let console = |names: &std::collections::BTreeSet<String>| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        some(&names)
    };
    if settings.global.login.auth_type == AuthType::Any {
        page.line(format_args!("console, all commands: anybody, since auth_type is any"));
        return;
    }
    page.line(format_args!("console, all commands: {}", console(&settings.global.console.admin_users)));
    page.line(format_args!("console, SHOW only: {}", console(&settings.global.console.stats_users)));
}

fn why_not(secret: &Secret) -> &'static str {
    match secret {
        Secret::Md5(_) => "an md5 hash cannot be checked by SCRAM",
        _ => "the password is empty",
    }
}

fn databases(page: &mut Page, settings: &Settings) {
    page.heading("Databases and pools");
    let all = settings.databases.values().chain(settings.fallback.iter());
    let mut is_empty = true;
    for database in all {
        is_empty = false;
        let name = if database.name == "*" { "any other name" } else { &database.name };
        page.line(format_args!("{name} → {}", destination(database)));
        page.line(format_args!("  {}", pool_words(settings, database)));
        if let Some(auth_type) = database.settings.auth_type {
            page.line(format_args!("  its clients log in by auth_type = {}", auth_type.as_str()));
        }
        if let Some(words) = forced_login(settings, database) {
            page.line(format_args!("  {words}"));
        }
    }
    if is_empty {
        page.line(format_args!("none: [databases] is empty"));
    }
    let words = match settings.global.tls.server_tls_sslmode {
        SslMode::Prefer => return,
        SslMode::Disable => "without TLS",
        SslMode::Allow => "with TLS only where PostgreSQL insists",
        SslMode::Require if settings.global.tls.server_tls_ca_file.is_empty() => {
            "with TLS, whatever PostgreSQL's certificate is"
        }
        SslMode::Require | SslMode::VerifyCa => {
            "with TLS, if a CA of server_tls_ca_file has signed PostgreSQL's certificate"
        }
        SslMode::VerifyFull => {
            "with TLS, if a CA of server_tls_ca_file has signed PostgreSQL's certificate and it names the host"
        }
    };
    page.line(format_args!("all of them {words}"));
}

fn destination(database: &Database) -> String {
    let hosts: Vec<String> = database.hosts.iter().map(address).collect();
    let mut words = hosts.join(", ");
    let is_several = database.hosts.len() > 1;
    words.push_str(match (database.target_session_attrs, database.load_balance_hosts) {
        (TargetSessionAttrs::Primary | TargetSessionAttrs::ReadWrite, _) if is_several => {
            ", the one that is the primary"
        }
        (TargetSessionAttrs::Primary | TargetSessionAttrs::ReadWrite, _) => " while it is the primary",
        (TargetSessionAttrs::Standby, _) if is_several => ", those that are standbys",
        (TargetSessionAttrs::Standby, _) => " while it is a standby",
        (TargetSessionAttrs::PreferStandby, _) if is_several => ", those that are standbys, else the primary",
        (TargetSessionAttrs::ReadOnly, _) => ", where sessions are read-only",
        (TargetSessionAttrs::PreferStandby | TargetSessionAttrs::Any, _) if !is_several => "",
        (_, LoadBalanceHosts::RoundRobin) => " in turn",
        (_, LoadBalanceHosts::Disable) => ", the next one when one fails",
    });
    if let Some(name) = &database.dbname {
        let _ = write!(words, ", database {name}");
    }
    match &database.forced_user {
        Some(user) => {
            let _ = write!(words, ", always as user {user}");
        }
        None => words.push_str(", as the client's user"),
    }
    words
}

fn pool_words(settings: &Settings, database: &Database) -> String {
    let mode = database.settings.pool_mode.unwrap_or(settings.global.pools.pool_mode).as_str();
    let pools = demand::pools(settings, database);
    let sizes = pools.iter().map(|(_, size)| *size);
    let mut words = format!("{mode} mode, {} of ", counted(pools.len() as u64, "pool"));
    match (sizes.clone().min(), sizes.max()) {
        (Some(least), Some(most)) if least == most => words.push_str(&counted(most, "connection")),
        (Some(least), Some(most)) => {
            let _ = write!(words, "{least} to {most} connections");
        }
        _ if demand::is_open(settings, database) => {}
        _ => return format!("{mode} mode, no pool: nobody can log in"),
    }
    let own = |name: &str| settings.users.get(name).and_then(|user| user.pool_size);
    let is_open = demand::is_open(settings, database);
    if is_open {
        let size = demand::size_for_further_user(settings, database);
        words = format!("{mode} mode, for each user a pool of {}", counted(size, "connection"));
    }
    let found = pools.iter().any(|(name, _)| demand::size_of(settings, database, own(name)) == PoolSize::Auto)
        || is_open && demand::size_of(settings, database, None) == PoolSize::Auto;
    if found {
        let _ = write!(words, " at most (auto{}: SHOW SIZING tells)", auto_words(settings, database));
    }
    let reserve = database.settings.reserve_pool_size.unwrap_or(settings.global.pools.reserve_pool_size);
    if reserve > 0 && settings.global.pools.reserve_pool_timeout.is_some() {
        let _ = write!(words, " (the reserve of {reserve} included)");
    }
    match database.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections) {
        0 => {}
        limit => {
            let _ = write!(words, ", {limit} together (max_db_connections)");
        }
    }
    let users = settings
        .users
        .iter()
        .filter(|(name, user)| user.pool_mode.is_some() && pools.iter().any(|(pool, _)| pool == name));
    for (name, user) in users {
        let mode = user.pool_mode.expect("only users with a mode are left").as_str();
        let _ = write!(words, "; {name} in {mode} mode");
    }
    words
}

/// What `auto` does here.
fn auto_words(settings: &Settings, database: &Database) -> String {
    let (least, most) = (settings.global.pools.auto_pool_size_min, settings.global.pools.auto_pool_size_max);
    match database.settings.pool_mode.unwrap_or(settings.global.pools.pool_mode) {
        PoolMode::Session => {
            ", which is auto_pool_size_max in session mode, where each client has a server of its own".to_owned()
        }
        _ => format!(", found between {} and {most} by what gives the most throughput", least.min(most)),
    }
}

/// A verifier proves a client to us but not us to a server.
fn forced_login(settings: &Settings, database: &Database) -> Option<String> {
    let user = database.forced_user.as_ref()?;
    let secret = database.password.as_ref().or(settings.secrets.get(user));
    match secret {
        Some(Secret::Scram(_)) => Some(format!(
            "the secret of {user} is a SCRAM verifier, with which nobody can log in at PostgreSQL: it needs the password"
        )),
        None => Some(format!("no password for {user}: PostgreSQL must let it in without one")),
        Some(_) => None,
    }
}

/// Nothing, if there is only one class and the file does not name classes.
fn classes(page: &mut Page, config: &Config) {
    let classes = &*config.pooling.classes;
    if classes.all == Classes::default().all {
        return;
    }
    page.heading("Classes of clients");
    for class in &classes.all {
        page.line(format_args!("{}: {}", class.name, claims(class, classes)));
    }
    let file =
        config.rows.iter().find(|row| row.key == "class_file").and_then(|row| row.value.as_deref()).unwrap_or("");
    match classes.rules.len() as u64 {
        0 => page.line(format_args!("no rules: everybody is in default")),
        rules => page.line(format_args!("{} in {file}; whom none fits is in default", counted(rules, "rule"))),
    }
}

fn claims(class: &Class, classes: &Classes) -> String {
    let mut words = format!("weight {}", class.weight);
    let mut add = |more: String| {
        let _ = write!(words, ", {more}");
    };
    if class.priority > 0 {
        add(format!("priority {}", class.priority));
    }
    if class.min > 0 {
        add(format!("{} of a pool before everybody else", counted(class.min.into(), "server")));
    }
    if let Some(max) = class.max {
        add(format!("at most {} of a pool", counted(max.into(), "server")));
    }
    if let Some(max) = class.max_waiting {
        let who = match class.overflow {
            Overflow::RejectNewest => "whoever comes",
            Overflow::DropOldest => "whoever has waited longest",
        };
        add(format!("{max} may wait in a pool (then {who} is refused)"));
    }
    if let Some(Long { class, after }) = class.long {
        let name = &classes.class(class).name;
        add(format!("transactions that are known to take {} s are in {name}", after.as_secs_f64()));
    }
    if let Some(database) = &class.database {
        add(format!("its clients use {database}"));
    }
    let limits = &class.limits;
    let rates = [(limits.transactions, "transactions"), (limits.queries, "queries"), (limits.logins, "logins")];
    for (rate, what) in rates {
        if let Some(Rate { per_second, burst }) = rate {
            add(format!("{per_second} {what} a second ({burst} at once)"));
        }
    }
    if let Some(active) = limits.active {
        add(format!("{} at a time", counted(active.into(), "transaction")));
    }
    if rates.iter().any(|(rate, _)| rate.is_some()) || limits.active.is_some() {
        add(match limits.over {
            Over::Delay => "more has to wait".to_owned(),
            Over::Reject => "more is refused".to_owned(),
        });
    }
    words
}

fn connections(page: &mut Page, settings: &Settings) {
    page.heading(
        "Connections that PostgreSQL must allow at worst (its max_connections, without those it keeps for itself)",
    );
    let demands = demand::worst(settings);
    for Demand { address: at, connections, databases, each_further_name, each_further_user } in &demands {
        let names: Vec<&str> = databases.iter().map(String::as_str).collect();
        let is_chosen = entries(settings).filter(|database| database.chooses_host()).any(|one| one.hosts.contains(at));
        let is_probed = is_chosen && settings.global.servers.host_check_interval.is_some();
        let at = address(at);
        let mut words = match each_further_name {
            None => format!("{at}: {connections} ({})", some(&names)),
            Some(more) if names.is_empty() => format!("{at}: {more} for each database name that clients use"),
            Some(more) => {
                format!(
                    "{at}: {connections} ({}), and {more} for each further database name that clients use",
                    some(&names)
                )
            }
        };
        if let Some(more) = each_further_user {
            let _ = write!(
                words,
                ", and {more} for each user who is not in auth_file (max_db_connections would limit them)"
            );
        }
        if settings.global.observing.observe_interval.is_some() {
            words.push_str(", and 1 that asks what its backends do");
        }
        if is_probed {
            words.push_str(", and 1 that asks whether it is the primary");
        }
        page.line(format_args!("{words}"));
    }
    if demands.is_empty() {
        page.line(format_args!("none"));
    }
}

fn times(page: &mut Page, settings: &Settings) {
    page.heading("Time limits that are on");
    let (waiting, servers) = (&settings.global.waiting, &settings.global.servers);
    let limits = [
        ("query_wait_timeout", waiting.query_wait_timeout, "a client that waits longer for a server is closed"),
        (
            "failover_wait",
            Some(servers.failover_wait),
            "a client that waits longer gets an error while no host can be used",
        ),
        ("query_wait_notify", waiting.query_wait_notify, "a client that waits longer gets a NOTICE"),
        (
            "query_timeout",
            waiting.query_timeout,
            "a query that runs longer is cancelled (classic, session mode: its client is closed)",
        ),
        (
            "query_cancel_timeout",
            waiting.query_timeout.and(waiting.query_cancel_timeout),
            "a server whose query does not end when it is cancelled is closed",
        ),
        ("transaction_timeout", waiting.transaction_timeout, "a client whose transaction lasts longer is closed"),
        (
            "idle_transaction_timeout",
            waiting.idle_transaction_timeout,
            "a client that idles longer in a transaction is closed",
        ),
        ("client_idle_timeout", waiting.client_idle_timeout, "a client that is silent for longer is closed"),
        ("client_login_timeout", waiting.client_login_timeout, "a client that takes longer to log in is closed"),
        ("cancel_wait_timeout", waiting.cancel_wait_timeout, "a cancel request that waits longer is dropped"),
        (
            "server_connect_timeout",
            servers.server_connect_timeout,
            "a server that takes longer to let us in is given up",
        ),
        (
            "host_timeout",
            servers.host_timeout.filter(|_| servers.host_check_interval.is_some()),
            "a host that does not answer for longer is left, and who waits for its answers is told",
        ),
        ("server_idle_timeout", servers.server_idle_timeout, "a server that nobody uses for longer is closed"),
        ("server_lifetime", Some(servers.server_lifetime), "a server that is older is closed once it is free"),
    ];
    for (name, time, words) in limits {
        if let Some(time) = time.filter(|time| !time.is_zero()) {
            page.line(format_args!("{name} {}: {words}", seconds(time)));
        }
    }
    if servers.server_lifetime.is_zero() {
        page.line(format_args!("every server is closed after its first use: server_lifetime is 0"));
    }
    if servers.server_max_uses > 0 {
        page.line(format_args!(
            "a server that was given to clients {} times is closed: server_max_uses",
            servers.server_max_uses
        ));
    }
    let waits_for_ever = waiting.query_wait_timeout.is_none();
    if waits_for_ever {
        page.line(format_args!("clients may wait for a server for ever: query_wait_timeout is 0"));
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", Value::Time(time).show())
}

fn address(address: &Address) -> String {
    match &address.host {
        Host::Unix(dir) => format!("{dir}/.s.PGSQL.{}", address.port),
        Host::Ip(ip) => std::net::SocketAddr::new(*ip, address.port).to_string(),
        Host::Name(name) => format!("{name}:{}", address.port),
    }
}

fn counted(number: u64, noun: &str) -> String {
    match number {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

fn some(names: &[&str]) -> String {
    match names.len() {
        0 => "nobody".to_owned(),
        len if len > NAMES_SHOWN_MAX => {
            let shown = names[..NAMES_SHOWN_MAX].join(", ");
            format!("{shown} and {} more", len - NAMES_SHOWN_MAX)
        }
        _ => names.join(", "),
    }
}
