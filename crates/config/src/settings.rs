//! The values of `[pgbouncer]`, and what each part of the program is told of them.
//!
//! Promises that every number fits where it goes, since the table's bounds say so, and that a time of 0 arrives as
//! "off" where it means that. Does not judge whether values make sense together: `support` and `explain` do.

use std::sync::Arc;
use std::time::Duration;

use pooling::settings::{AuthType, Chaos, Fidelity, PoolMode, PoolSize, Settings, StatementLimits};
use queueing::classes::{Classes, Over};

use crate::problem::Place;
use crate::table::{Key, TABLE};
use crate::value::{Value, names};

/// A hundred years, and no arithmetic overflows.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Sockets, log and identity of the process.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Empty: no TCP. `*` is every address.
    pub listen_addr: Vec<String>,
    /// For TCP and in the name of the Unix socket.
    pub listen_port: u16,
    /// `None`: no Unix socket. Starts with `@` for an abstract name.
    pub unix_socket_dir: Option<String>,
    pub unix_socket_mode: u32,
    /// Empty: left as it is.
    pub unix_socket_group: String,
    pub listen_backlog: u32,
    pub so_reuseport: bool,
    pub tcp_keepalive: bool,
    /// Seconds; 0: the kernel's default, as are the next two.
    pub tcp_keepidle: u32,
    /// Seconds.
    pub tcp_keepintvl: u32,
    pub tcp_keepcnt: u32,
    /// Milliseconds; 0: the kernel's default.
    pub tcp_user_timeout: u32,
    /// Bytes; 0: the kernel's default.
    pub tcp_socket_buffer: u32,
    pub logfile: Option<String>,
    pub pidfile: Option<String>,
    /// Whom to become after the start as root.
    pub user: Option<String>,
    pub syslog: bool,
    /// auth, authpriv, daemon, user, local0 to local7.
    pub syslog_facility: String,
    pub syslog_ident: String,
    pub verbose: u32,
    pub log_connections: bool,
    pub log_disconnections: bool,
    pub log_pooler_errors: bool,
    pub job_name: String,
}

/// What the console and the statistics need besides.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminSettings {
    /// Over how long averages are taken.
    pub stats_period: Duration,
    /// A line of totals every `stats_period`.
    pub log_stats: bool,
    /// How long SUSPEND waits.
    pub suspend_timeout: Duration,
    /// The file that was read; empty if there is none.
    pub conffile: String,
}

/// One value for each row of the table, with the place where it was set.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    values: Vec<Value>,
    places: Vec<Option<Place>>,
}

impl Default for Values {
    fn default() -> Values {
        Values {
            values: TABLE.iter().map(|setting| setting.default_value()).collect(),
            places: vec![None; TABLE.len()],
        }
    }
}

impl Values {
    pub fn set(&mut self, key: Key, value: Value, place: Option<Place>) {
        self.values[key as usize] = value;
        self.places[key as usize] = place;
    }

    /// What `[pgbouncer]` does when it begins: all but the settings whose default is NULL go back to it. Returns the
    /// names of those that lost a value.
    pub fn restart(&mut self) -> Vec<&'static str> {
        let mut lost = Vec::new();
        for setting in TABLE.iter().filter(|setting| setting.default.is_some()) {
            let value = setting.default_value();
            if self.get(setting.key) != &value {
                lost.push(setting.name);
            }
            self.set(setting.key, value, None);
        }
        lost
    }

    #[must_use]
    pub fn get(&self, key: Key) -> &Value {
        &self.values[key as usize]
    }

    /// Where the value comes from, if not from the table.
    #[must_use]
    pub fn place(&self, key: Key) -> Option<&Place> {
        self.places[key as usize].as_ref()
    }

    /// Whether it is PgBouncer's NULL: a setting without a default that nobody has set, not even to nothing. Numbers are never NULL.
    #[must_use]
    pub fn is_null(&self, key: Key) -> bool {
        let is_empty = matches!(self.get(key), Value::Text(text) if text.is_empty());
        is_empty && key.setting().default.is_none() && self.place(key).is_none()
    }

    #[must_use]
    pub fn is_default(&self, key: Key) -> bool {
        *self.get(key) == key.setting().default_value()
    }

    #[must_use]
    pub fn text(&self, key: Key) -> &str {
        match self.get(key) {
            Value::Text(text) => text,
            other => unreachable!("{} is text, not {other:?}", key.name()),
        }
    }

    #[must_use]
    pub fn choice(&self, key: Key) -> &'static str {
        match self.get(key) {
            Value::Choice(name) => name,
            other => unreachable!("{} is a choice, not {other:?}", key.name()),
        }
    }

    fn number(&self, key: Key) -> i64 {
        match self.get(key) {
            Value::Number(number) => *number,
            other => unreachable!("{} is a number, not {other:?}", key.name()),
        }
    }

    #[must_use]
    pub fn count(&self, key: Key) -> u32 {
        u32::try_from(self.number(key)).expect("the table bounds every number by 32 bits")
    }

    /// A number of servers, or `auto`.
    #[must_use]
    pub fn pool_size(&self, key: Key) -> PoolSize {
        match self.get(key) {
            Value::Choice(_) => PoolSize::Auto,
            _ => PoolSize::Fixed(self.count(key)),
        }
    }

    #[must_use]
    pub fn flag(&self, key: Key) -> bool {
        self.number(key) != 0
    }

    #[must_use]
    pub fn time(&self, key: Key) -> Duration {
        match self.get(key) {
            Value::Time(time) => *time,
            other => unreachable!("{} is a time, not {other:?}", key.name()),
        }
    }

    /// A time of which 0 means that it is switched off.
    #[must_use]
    pub fn limit(&self, key: Key) -> Option<Duration> {
        unless_zero(self.time(key))
    }

    #[must_use]
    pub fn path(&self, key: Key) -> Option<String> {
        let text = self.text(key);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// `None` for a time that is switched off by 0.
#[must_use]
pub fn unless_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// The settings of the decisions, without databases, users, secrets, classes and rules. `cores` is what `workers = 0` stands for.
#[must_use]
pub fn pooling(values: &Values, cores: u16) -> Settings {
    let list = |key| names(values.text(key)).into_iter().map(str::to_owned);
    let check_query = values.text(Key::server_check_query);
    let workers = match values.count(Key::workers) {
        0 => cores.max(1),
        chosen => u16::try_from(chosen).expect("the table bounds workers by 1024"),
    };
    Settings {
        auth_type: auth_type(values.choice(Key::auth_type)),
        admin_users: list(Key::admin_users).collect(),
        stats_users: list(Key::stats_users).collect(),
        pool_mode: pool_mode(values.choice(Key::pool_mode)),
        pool_fidelity: pool_fidelity(values.choice(Key::pool_fidelity)),
        max_pinned: values.count(Key::max_pinned),
        statements: statements(values),
        stable_backend_pid: values.flag(Key::stable_backend_pid),
        statement_memo_size: values.count(Key::statement_memo_size),
        default_pool_size: values.pool_size(Key::default_pool_size),
        auto_pool_size_min: values.count(Key::auto_pool_size_min),
        auto_pool_size_max: values.count(Key::auto_pool_size_max),
        // A guess, as good where PostgreSQL is here as it is anywhere.
        auto_pool_size_start: (2 * u32::from(cores)).clamp(4, 32),
        min_pool_size: values.count(Key::min_pool_size),
        reserve_pool_size: values.count(Key::reserve_pool_size),
        reserve_pool_timeout: values.limit(Key::reserve_pool_timeout),
        max_client_conn: values.count(Key::max_client_conn),
        max_db_connections: values.count(Key::max_db_connections),
        max_user_connections: values.count(Key::max_user_connections),
        max_server_connections: values.count(Key::max_server_connections),
        max_db_client_connections: values.count(Key::max_db_client_connections),
        max_user_client_connections: values.count(Key::max_user_client_connections),
        query_wait_timeout: values.limit(Key::query_wait_timeout),
        stats_period: whole_seconds(values, Key::stats_period),
        query_wait_notify: unless_zero(whole_seconds(values, Key::query_wait_notify)),
        query_timeout: values.limit(Key::query_timeout),
        query_cancel_timeout: values.limit(Key::query_cancel_timeout),
        idle_transaction_timeout: values.limit(Key::idle_transaction_timeout),
        transaction_timeout: values.limit(Key::transaction_timeout),
        client_idle_timeout: values.limit(Key::client_idle_timeout),
        client_login_timeout: values.limit(Key::client_login_timeout),
        server_connect_timeout: values.limit(Key::server_connect_timeout),
        server_idle_timeout: values.limit(Key::server_idle_timeout),
        // 0 is a value here: used once, then closed.
        server_lifetime: Some(values.time(Key::server_lifetime)),
        server_login_retry: values.time(Key::server_login_retry),
        cancel_wait_timeout: values.limit(Key::cancel_wait_timeout),
        autodb_idle_timeout: values.limit(Key::autodb_idle_timeout),
        server_check_delay: values.time(Key::server_check_delay),
        server_check_query: match check_query {
            "" => None,
            "<empty>" => Some(String::new()),
            query => Some(query.to_owned()),
        },
        server_reset_query: values.text(Key::server_reset_query).to_owned(),
        server_reset_query_always: values.flag(Key::server_reset_query_always),
        server_round_robin: values.flag(Key::server_round_robin),
        server_fast_close: values.flag(Key::server_fast_close),
        ignore_startup_parameters: list(Key::ignore_startup_parameters).map(|name| name.to_ascii_lowercase()).collect(),
        track_extra_parameters: list(Key::track_extra_parameters).collect(),
        max_prepared_statements: values.count(Key::max_prepared_statements),
        application_name_add_host: values.flag(Key::application_name_add_host),
        login_notify_message: values.text(Key::login_notify_message).to_owned(),
        scram_iterations: values.count(Key::scram_iterations),
        workers,
        classes: Arc::new(Classes { ageing: ageing(values), ..Classes::default() }),
        chaos: chaos(values),
        ..Settings::default()
    }
}

/// How long it takes to count as of one priority more. Never is longer than anybody waits.
#[must_use]
pub fn ageing(values: &Values) -> Duration {
    values.limit(Key::class_ageing).unwrap_or(NEVER)
}

fn chaos(values: &Values) -> Chaos {
    Chaos {
        rotate: values.flag(Key::chaos_rotate),
        close: values.flag(Key::chaos_close),
        poison: values.flag(Key::chaos_poison),
        check: values.flag(Key::chaos_check),
        seed: u64::from(values.count(Key::chaos_seed)),
    }
}

/// What the engine needs to listen and to log.
#[must_use]
pub fn process(values: &Values) -> Process {
    Process {
        listen_addr: names(values.text(Key::listen_addr)).into_iter().map(str::to_owned).collect(),
        listen_port: u16::try_from(values.count(Key::listen_port)).expect("the table bounds the port by 65535"),
        unix_socket_dir: values.path(Key::unix_socket_dir),
        unix_socket_mode: values.count(Key::unix_socket_mode),
        unix_socket_group: values.text(Key::unix_socket_group).to_owned(),
        listen_backlog: values.count(Key::listen_backlog),
        so_reuseport: values.flag(Key::so_reuseport),
        tcp_keepalive: values.flag(Key::tcp_keepalive),
        tcp_keepidle: values.count(Key::tcp_keepidle),
        tcp_keepintvl: values.count(Key::tcp_keepintvl),
        tcp_keepcnt: values.count(Key::tcp_keepcnt),
        tcp_user_timeout: values.count(Key::tcp_user_timeout),
        tcp_socket_buffer: values.count(Key::tcp_socket_buffer),
        logfile: values.path(Key::logfile),
        pidfile: values.path(Key::pidfile),
        user: values.path(Key::user),
        syslog: values.flag(Key::syslog),
        syslog_facility: values.text(Key::syslog_facility).to_owned(),
        syslog_ident: values.text(Key::syslog_ident).to_owned(),
        verbose: values.count(Key::verbose),
        log_connections: values.flag(Key::log_connections),
        log_disconnections: values.flag(Key::log_disconnections),
        log_pooler_errors: values.flag(Key::log_pooler_errors),
        job_name: values.text(Key::job_name).to_owned(),
    }
}

/// What the console needs.
#[must_use]
pub fn admin(values: &Values) -> AdminSettings {
    AdminSettings {
        stats_period: whole_seconds(values, Key::stats_period),
        log_stats: values.flag(Key::log_stats),
        suspend_timeout: values.time(Key::suspend_timeout),
        conffile: values.text(Key::conffile).to_owned(),
    }
}

fn whole_seconds(values: &Values, key: Key) -> Duration {
    Duration::from_secs(u64::from(values.count(key)))
}

fn pool_mode(value: &str) -> PoolMode {
    match value {
        "transaction" => PoolMode::Transaction,
        "statement" => PoolMode::Statement,
        _ => PoolMode::Session,
    }
}

fn statements(values: &Values) -> StatementLimits {
    StatementLimits {
        max_active: values.count(Key::fingerprint_max_active),
        named: crate::value::statements(values.text(Key::fingerprint_limits)).unwrap_or_default(),
        over: if values.choice(Key::fingerprint_over) == "reject" { Over::Reject } else { Over::Delay },
    }
}

/// What `support` refuses is answered with the strictest way that exists, should it ever come here.
fn pool_fidelity(value: &str) -> Fidelity {
    match value {
        "strict" => Fidelity::Strict,
        "classic" => Fidelity::Classic,
        _ => Fidelity::Transparent,
    }
}

fn auth_type(name: &str) -> AuthType {
    match name {
        "any" => AuthType::Any,
        "trust" => AuthType::Trust,
        "plain" => AuthType::Plain,
        "md5" => AuthType::Md5,
        _ => AuthType::Scram,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_the_defaults_of_the_decisions_come_out() {
        let mut settings = pooling(&Values::default(), 1);
        // Written down twice: here from the table, there as `Default`.
        settings.workers = 1;
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn workers_follow_the_cores_unless_told() {
        let mut values = Values::default();
        assert_eq!(pooling(&values, 8).workers, 8);
        assert_eq!(pooling(&values, 0).workers, 1);
        values.set(Key::workers, Value::Number(3), None);
        assert_eq!(pooling(&values, 8).workers, 3);
    }

    #[test]
    fn every_row_has_the_kind_that_its_reader_asks_for() {
        let values = Values::default();
        let process = process(&values);
        assert_eq!(process.listen_port, 6432);
        assert_eq!(process.unix_socket_mode, 0o777);
        assert_eq!(process.unix_socket_dir.as_deref(), Some("/tmp"));
        assert_eq!(admin(&values).stats_period, Duration::from_secs(60));
    }
}
