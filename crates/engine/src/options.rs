//! The engine's options at start: where to listen, what to set on sockets, where to log.
//!
//! Names and defaults are PgBouncer's (`//= pgbouncer config.md`). Only the options of the log and of
//! TCP sockets, and `busy_poll`, can change at run time.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::authority::Authority;
use crate::heritage::Heritage;
use crate::layer::Keyring;

/// All options.
#[derive(Clone)]
pub struct Options {
    /// `listen_addr`: `*`, addresses, or names, which are looked up once at start. Empty: no TCP.
    pub addresses: Vec<String>,
    /// `listen_port`. 0: any free one, for tests.
    pub port: u16,
    pub unix: Option<UnixOptions>,
    /// Listening sockets that were opened for us. If there are any, addresses and `unix` are not listened on.
    pub passed: Vec<Arc<OwnedFd>>,
    /// Of the process whose place this one takes, in an online upgrade.
    pub heritage: Option<Heritage>,
    /// `listen_backlog`
    pub backlog: i32,
    /// `so_reuseport`
    pub reuse_port: bool,
    pub tcp: TcpOptions,
    /// `busy_poll`
    pub busy_poll: Duration,
    /// What encrypted connections begin with.
    pub tls: Keyring,
    pub log: LogOptions,
    /// Who is asked about clients that others vouch for.
    pub authority: Option<Arc<dyn Authority>>,
    /// How names of servers' hosts are looked up.
    pub names: names::Options,
}

/// The Unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixOptions {
    /// `unix_socket_dir`; a name that starts with `@` is abstract.
    pub dir: String,
    /// `unix_socket_mode`
    pub mode: u32,
    /// `unix_socket_group`: a name or a number.
    pub group: Option<String>,
}

/// Options for all TCP sockets, of clients and servers. `None` leaves the kernel's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// `tcp_keepalive`
    pub keepalive: bool,
    /// `tcp_keepidle`
    pub keepalive_idle: Option<Duration>,
    /// `tcp_keepintvl`
    pub keepalive_interval: Option<Duration>,
    /// `tcp_keepcnt`
    pub keepalive_count: Option<u32>,
    /// `tcp_user_timeout`
    pub user_timeout: Option<Duration>,
    /// `tcp_socket_buffer`, in bytes.
    pub buffer_len: Option<usize>,
}

/// Where log lines go, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// `logfile`; opened anew on reload.
    pub file: Option<PathBuf>,
    /// Also to standard error: off by `-q` and for a daemon.
    pub stderr: bool,
    /// Also `Level::Debug`: on by `-v`.
    pub debug: bool,
    /// `syslog`, besides the file and standard error.
    pub syslog: Option<SyslogOptions>,
    pub log_connections: bool,
    pub log_disconnections: bool,
    pub log_pooler_errors: bool,
    pub format: LogFormat,
    /// Shown for clients of the Unix socket, as in `unix(4711):6432`.
    pub port: u16,
}

/// What lines look like, in the file and on standard error. Syslog's are always plain.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As PgBouncer's.
    #[default]
    Plain,
    /// An object a line.
    Json,
}

/// The system's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogOptions {
    /// Its socket, [`SyslogOptions::PATH`] except in tests.
    pub path: PathBuf,
    /// `syslog_ident`
    pub ident: String,
    /// `syslog_facility`
    pub facility: Facility,
}

impl SyslogOptions {
    /// Where syslog(3) sends to.
    pub const PATH: &'static str = "/dev/log";
}

/// The syslog facility.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Facility(u8);

impl Facility {
    pub const DAEMON: Facility = Facility(3);

    /// `auth`, `authpriv`, `daemon`, `user`, `local0` to `local7`; `None` for others, which PgBouncer takes for `daemon`.
    //= pgbouncer config.md#syslog_facility
    #[must_use]
    pub fn parse(name: &str) -> Option<Facility> {
        let local = || match name.strip_prefix("local")?.as_bytes() {
            [digit @ b'0'..=b'7'] => Some(digit - b'0'),
            _ => None,
        };
        let code = match name {
            "daemon" => return Some(Facility::DAEMON),
            "user" => 1,
            "auth" => 4,
            "authpriv" => 10,
            _ => 16 + local()?,
        };
        Some(Facility(code))
    }

    pub(crate) fn code(self) -> u8 {
        self.0
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            addresses: Vec::new(),
            port: 6432,
            unix: Some(UnixOptions { dir: "/tmp".to_owned(), mode: 0o777, group: None }),
            passed: Vec::new(),
            heritage: None,
            backlog: 4096,
            reuse_port: false,
            tcp: TcpOptions::default(),
            busy_poll: Duration::ZERO,
            tls: Keyring::default(),
            log: LogOptions::default(),
            authority: None,
            names: names::Options::default(),
        }
    }
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            keepalive: true,
            keepalive_idle: None,
            keepalive_interval: None,
            keepalive_count: None,
            user_timeout: None,
            buffer_len: None,
        }
    }
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            file: None,
            stderr: true,
            debug: false,
            syslog: None,
            log_connections: true,
            log_disconnections: true,
            log_pooler_errors: true,
            format: LogFormat::default(),
            port: 6432,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facilities_have_their_numbers() {
        let table = [("daemon", 3), ("user", 1), ("auth", 4), ("authpriv", 10), ("local0", 16), ("local7", 23)];
        for (name, code) in table {
            assert_eq!(Facility::parse(name), Some(Facility(code)), "{name}");
        }
        for name in ["", "kern", "local", "local8", "local00", "Daemon"] {
            assert_eq!(Facility::parse(name), None, "{name}");
        }
    }
}
