//! What a configuration says, in the words of those who are told: the engine's options, the control plane's rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::{Config, Problem, Process};
use control::{Loaded, SettingRow};
use engine::{Facility, LogOptions, Options, SyslogOptions, TcpOptions, UnixOptions};
use rustix::process::{Resource, getrlimit};

use crate::cli::Flags;

/// Processors that we may use: what `workers = 0` stands for.
pub(crate) fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(u16::MAX))
}

/// Reads a file, for serving it and for checking it, so that both say the same.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn load(file: &Path, cores: u16) -> Result<Config, Vec<Problem>> {
    config::load(file, cores).map(with_descriptors)
}

/// Reads it again.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn reload(running: &Config) -> Result<Config, Vec<Problem>> {
    running.reload().map(with_descriptors)
}

/// What the engine raises its limit to is what counts: the hard one.
fn with_descriptors(mut config: Config) -> Config {
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
    Loaded {
        settings: Arc::new(config.pooling.clone()),
        rows: config.rows.iter().map(row).collect(),
        listen_port: config.process.listen_port,
        stats_period: config.admin.stats_period,
        log_stats: config.admin.log_stats,
        warnings: config.warnings.iter().map(Problem::to_string).collect(),
    }
}

/// For the engine.
pub(crate) fn options(process: &Process, flags: &Flags) -> Options {
    Options {
        addresses: process.listen_addr.clone(),
        port: process.listen_port,
        unix: process.unix_socket_dir.as_ref().map(|dir| UnixOptions {
            dir: dir.clone(),
            mode: process.unix_socket_mode,
            group: (!process.unix_socket_group.is_empty()).then(|| process.unix_socket_group.clone()),
        }),
        backlog: i32::try_from(process.listen_backlog).unwrap_or(i32::MAX),
        reuse_port: process.so_reuseport,
        tcp: tcp(process),
        log: log(process, flags),
    }
}

/// For the log, which alone of the engine's options changes on reload.
pub(crate) fn log(process: &Process, flags: &Flags) -> LogOptions {
    LogOptions {
        file: process.logfile.as_ref().map(PathBuf::from),
        stderr: !flags.quiet,
        syslog: process.syslog.then(|| SyslogOptions {
            path: PathBuf::from(SyslogOptions::PATH),
            ident: process.syslog_ident.clone(),
            facility: Facility::parse(&process.syslog_facility).unwrap_or(Facility::DAEMON),
        }),
        debug: flags.verbose > 0 || process.verbose > 0,
        log_connections: process.log_connections,
        log_disconnections: process.log_disconnections,
        log_pooler_errors: process.log_pooler_errors,
        port: process.listen_port,
    }
}

/// 0 leaves a socket option as the kernel has it.
fn tcp(process: &Process) -> TcpOptions {
    let unless_zero = |number: u32, unit: fn(u64) -> Duration| (number > 0).then(|| unit(number.into()));
    TcpOptions {
        keepalive: process.tcp_keepalive,
        keepalive_idle: unless_zero(process.tcp_keepidle, Duration::from_secs),
        keepalive_interval: unless_zero(process.tcp_keepintvl, Duration::from_secs),
        keepalive_count: (process.tcp_keepcnt > 0).then_some(process.tcp_keepcnt),
        user_timeout: unless_zero(process.tcp_user_timeout, Duration::from_millis),
        buffer_len: (process.tcp_socket_buffer > 0).then_some(process.tcp_socket_buffer as usize),
    }
}
