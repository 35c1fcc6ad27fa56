//! What a configuration says, in the words of those who are told: the engine's options, the control plane's rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use authorities::Office;
use config::{Built, Config, Problem};
use control::{Loaded, SettingRow};
use engine::{Authority, Facility, Keyring, LogOptions, Options, SyslogOptions, TcpOptions, UnixOptions};
use machine::{Inquiry, Verdict};
use rustix::process::{Resource, getrlimit};
use settings::Global;

use crate::cli::Flags;
use crate::files::{Files, Noted};
use crate::{daemon, observer, probing};

/// What files say, or all that is wrong with them; and the files.
pub(crate) type Reading = Noted<Result<Config, Vec<Problem>>>;

/// Processors that we may use: what `workers = 0` stands for.
pub(crate) fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(u16::MAX))
}

/// Reads a file, for serving it and for checking it, so that both say the same.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn load(file: &Path, cores: u16) -> Result<Config, Vec<Problem>> {
    config::load(file, cores, built()).map(with_descriptors)
}

/// What a file says without its mistakes, and all that is wrong with it.
pub(crate) fn load_without_mistakes(file: &Path, cores: u16) -> (Option<Config>, Vec<Problem>) {
    let (config, mut problems) = config::load_without_mistakes(file, cores, built());
    let config = config.map(with_descriptors);
    problems.extend(config.iter().flat_map(|config| config.warnings.clone()));
    (config, problems)
}

/// As [`load`], with the files that were read.
pub(crate) fn load_noted(file: &Path, cores: u16) -> Reading {
    let (config, files) = Files::noted(|read| config::load_with(&file.to_string_lossy(), cores, built(), read));
    (config.map(with_descriptors), files)
}

/// The second line of `pgweir --version`: what files may ask for, and what of the system the program uses.
pub(crate) fn features() -> String {
    let Built { pam, gssapi } = built();
    let with = |has: bool, name: &str| format!("{}{name}", if has { "" } else { "no " });
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    format!("features: {}, {}; {linked}", with(pam, "pam"), with(gssapi, "gssapi"))
}

/// What files may ask for.
pub(crate) fn built() -> Built {
    Built { pam: authorities::HAS_PAM, gssapi: authorities::HAS_GSSAPI }
}

/// Reads it again: what it says, or all that is wrong with it, and the files that were read.
pub(crate) fn reload(running: &Config) -> Reading {
    let (config, files) = Files::noted(|read| running.reload_with(read));
    (config.map(with_descriptors), files)
}

/// What the engine raises its limit to is what counts: the hard one.
pub(crate) fn with_descriptors(mut config: Config) -> Config {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    config.warnings.extend(config::descriptors(&config, limit));
    config
}

/// For the control plane.
pub(crate) fn loaded(config: &Config) -> Loaded {
    let row = |row: &config::ConfigRow| SettingRow {
        key: row.key,
        value: row.value.clone(),
        default: row.default.map(str::to_owned),
        changeable: row.changeable,
    };
    let mut settings = config.pooling.clone();
    let most = &mut settings.global.pools.max_server_connections;
    if *most > 0 {
        // The observer's connections and the prober's are among them. One is left to clients in any case: 0 would be no limit.
        *most = most.saturating_sub(observer::connections(config) + probing::connections(config)).max(1);
    }
    Loaded {
        settings: Arc::new(settings),
        rows: config.rows.iter().map(row).collect(),
        listen_port: config.pooling.global.listening.listen_port,
        stats_period: config.pooling.global.console.stats_period,
        log_stats: config.pooling.global.log.log_stats,
        warnings: config.warnings.iter().map(Problem::to_string).collect(),
    }
}

/// For the engine.
pub(crate) fn options(global: &Global, flags: &Flags, tls: Keyring) -> Options {
    Options {
        addresses: global.listening.listen_addr.clone(),
        port: global.listening.listen_port,
        unix: global.listening.unix_socket_dir.as_ref().map(|dir| UnixOptions {
            dir: dir.clone(),
            mode: global.listening.unix_socket_mode,
            group: (!global.listening.unix_socket_group.is_empty()).then(|| global.listening.unix_socket_group.clone()),
        }),
        passed: Vec::new(),
        heritage: None,
        backlog: i32::try_from(global.network.listen_backlog).unwrap_or(i32::MAX),
        reuse_port: global.listening.so_reuseport,
        tcp: tcp(global),
        busy_poll: busy_poll(global),
        tls,
        log: log(global, flags),
        authority: Some(Arc::new(Outside(Office::new(global.login.auth_threads as usize)))),
        names: names(global),
    }
}

/// For names of hosts. All but `resolv_conf` changes on reload.
pub(crate) fn names(global: &Global) -> names::Options {
    let own = &global.names;
    names::Options {
        answer_holds: own.dns_max_ttl.unwrap_or_default(),
        failure_holds: own.dns_nxdomain_ttl.unwrap_or_default(),
        zone_check_period: own.dns_zone_check_period,
        resolv_conf: (!own.resolv_conf.is_empty()).then(|| PathBuf::from(&own.resolv_conf)),
        tells_first: false,
    }
}

/// Where nobody listens if the service manager has opened our sockets. A default that nobody has written is not ignored.
pub(crate) fn ignored_places(global: &Global) -> Vec<&'static str> {
    let Global { listening, .. } = global;
    let unix = listening.unix_socket_dir != Global::default().listening.unix_socket_dir;
    let unix = unix && listening.unix_socket_dir.is_some();
    let places = [("listen_addr", !listening.listen_addr.is_empty()), ("unix_socket_dir", unix)];
    places.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}

/// Whom the engine has asked who a client is.
struct Outside(Office);

impl Authority for Outside {
    fn ask(&self, inquiry: Inquiry, answer: Box<dyn FnOnce(Verdict) + Send>) {
        self.0.ask(inquiry, answer);
    }
}

/// For the log. It changes on reload, as [`tcp`] does.
pub(crate) fn log(global: &Global, flags: &Flags) -> LogOptions {
    LogOptions {
        file: global.log.logfile.as_ref().map(PathBuf::from),
        // What a daemon says while it starts would be there by chance, since it lets go of stderr when it listens.
        stderr: !flags.quiet && !daemon::is_child(),
        syslog: global.log.syslog.then(|| SyslogOptions {
            path: PathBuf::from(SyslogOptions::PATH),
            ident: global.log.syslog_ident.clone(),
            facility: Facility::parse(&global.log.syslog_facility).unwrap_or(Facility::DAEMON),
        }),
        debug: flags.verbose > 0 || global.log.verbose > 0,
        log_connections: global.log.log_connections,
        log_disconnections: global.log.log_disconnections,
        log_pooler_errors: global.log.log_pooler_errors,
        format: match global.log.log_format {
            ::settings::LogFormat::Plain => engine::LogFormat::Plain,
            ::settings::LogFormat::Json => engine::LogFormat::Json,
        },
        port: global.listening.listen_port,
    }
}

/// For waits. It changes on reload.
pub(crate) fn busy_poll(global: &Global) -> Duration {
    Duration::from_micros(global.network.busy_poll.into())
}

/// For sockets. They change on reload for those that come later. 0 leaves an option as the kernel has it.
pub(crate) fn tcp(global: &Global) -> TcpOptions {
    let unless_zero = |number: u32, unit: fn(u64) -> Duration| (number > 0).then(|| unit(number.into()));
    TcpOptions {
        keepalive: global.network.tcp_keepalive,
        keepalive_idle: unless_zero(global.network.tcp_keepidle, Duration::from_secs),
        keepalive_interval: unless_zero(global.network.tcp_keepintvl, Duration::from_secs),
        keepalive_count: (global.network.tcp_keepcnt > 0).then_some(global.network.tcp_keepcnt),
        user_timeout: unless_zero(global.network.tcp_user_timeout, Duration::from_millis),
        buffer_len: (global.network.tcp_socket_buffer > 0).then_some(global.network.tcp_socket_buffer as usize),
    }
}
