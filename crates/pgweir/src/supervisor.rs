//! What a service manager (systemd) is told: when clients are served, when the configuration is read again, when the end begins, and that
//! we live. One datagram each to the socket that NOTIFY_SOCKET names; without it nothing is sent.
//!
//! ```text
//!   READY=1                          clients are served, and again after each reload
//!   RELOADING=1 MONOTONIC_USEC=…     a reload begins; Type=notify-reload compares the time with that of its signal
//!   STOPPING=1                       no new clients
//!   WATCHDOG=1                       twice as often as WATCHDOG_USEC asks, as long as every thread of the data plane answers
//! ```
//!
//! A manager that does not read holds us up for [`PATIENCE`] at most, and what it does not take is lost.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long one message may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The manager, or nobody.
#[derive(Clone, Default)]
pub(crate) struct Supervisor(Option<Arc<Wire>>);

struct Wire {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Supervisor {
    /// Whom the environment names.
    ///
    /// # Errors
    /// It names somebody who cannot be told anything.
    pub(crate) fn of_the_environment() -> Result<Supervisor, String> {
        match std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            Some(name) => Supervisor::at(&name)
                .map_err(|error| format!("NOTIFY_SOCKET: \"{}\" cannot be used: {error}", name.display())),
            None => Ok(Supervisor::default()),
        }
    }

    fn at(name: &OsStr) -> io::Result<Supervisor> {
        let to = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "it is neither a path nor an abstract name")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Supervisor(Some(Arc::new(Wire { socket, to }))))
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1\n");
    }

    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1\n");
    }

    fn send(&self, text: &str) {
        if let Some(line) = &self.0 {
            // A manager that is gone has nobody to whom this could be reported; one that waits for us ends us, and says why.
            let _ = line.socket.send_to_addr(text.as_bytes(), &line.to);
        }
    }
}

/// How often to tell the manager that we live: half of what WATCHDOG_USEC allows, if it is meant for this process.
pub(crate) fn watchdog_period() -> Option<Duration> {
    let variable = |name: &str| std::env::var(name).ok();
    period(variable("WATCHDOG_USEC").as_deref(), variable("WATCHDOG_PID").as_deref(), std::process::id())
}

fn period(micros: Option<&str>, meant: Option<&str>, pid: u32) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    let is_ours = meant.is_none_or(|meant| meant.parse() == Ok(pid));
    is_ours.then(|| Duration::from_micros(micros / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_fed_twice_a_period_if_it_is_ours() {
        let table = [
            (Some("30000000"), None, Some(15_000)),
            (Some("30000000"), Some("7"), Some(15_000)),
            (Some("30000000"), Some("8"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, Some("7"), None),
        ];
        for (micros, meant, millis) in table {
            assert_eq!(period(micros, meant, 7), millis.map(Duration::from_millis), "{micros:?} {meant:?}");
        }
    }

    #[test]
    fn a_supervisor_may_have_an_abstract_name() {
        let name = format!("pgweir-manager-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("short");
        let manager = UnixDatagram::bind_addr(&address).expect("nobody else has this name");
        Supervisor::at(OsStr::new(&format!("@{name}"))).expect("it is a name").stopping();
        let mut buffer = [0; 64];
        manager.set_nonblocking(true).expect("a socket");
        let len = manager.recv(&mut buffer).expect("it was sent");
        assert_eq!(&buffer[..len], b"STOPPING=1\n");
        assert!(Supervisor::at(OsStr::new("vsock:2:1234")).is_err());
    }

    #[test]
    fn a_supervisor_that_does_not_read_holds_nobody_up() {
        let path = std::env::temp_dir().join(format!("pgweir-manager-{}", std::process::id()));
        let _manager = UnixDatagram::bind(&path).expect("nobody else has this name");
        let told = Supervisor::at(path.as_os_str()).expect("a path");
        let line = told.0.as_ref().expect("somebody");
        line.socket.set_nonblocking(true).expect("a socket");
        let is_full = (0..100_000).any(|_| line.socket.send_to_addr(b"WATCHDOG=1\n", &line.to).is_err());
        std::fs::remove_file(&path).expect("ours");
        assert!(is_full);
        line.socket.set_nonblocking(false).expect("a socket");
        let begun = std::time::Instant::now();
        told.alive();
        assert!(begun.elapsed() < 4 * PATIENCE, "{:?}", begun.elapsed());
    }
}
