//! Sends log lines to syslog: one datagram each to its Unix socket, like syslog(3).
//!
//! ```text
//! <30>Nov 21 04:12:00 pgbouncer[4711]: C-0x1000000000001: shop/alice@127.0.0.1:5123 closing because: ... (age=3s)
//! │ what the log file has after the level
//!  └ 8 × facility + severity (RFC 3164)
//! ```
//!
//! It never blocks: lines that a full socket does not take are lost. After a restart of syslog, the next line connects
//! to it again.

use std::io;
use std::os::unix::net::UnixDatagram;

use jiff::Zoned;
use machine::Level;

use crate::options::SyslogOptions;

/// The connection to syslog, opened with the first line.
pub(crate) struct Syslog {
    options: SyslogOptions,
    socket: Option<UnixDatagram>,
    /// The last line was lost.
    failed: bool,
}

impl Syslog {
    pub(crate) fn new(options: SyslogOptions) -> Syslog {
        Syslog { options, socket: None, failed: false }
    }

    /// Sends a line. Returns why it was lost, unless the line before was lost too.
    pub(crate) fn send(&mut self, level: Level, moment: &Zoned, pid: u32, text: &str) -> Option<io::Error> {
        let priority = 8 * self.options.facility.code() + severity(level);
        let time = moment.strftime("%b %e %H:%M:%S");
        let line = format!("<{priority}>{time} {}[{pid}]: {text}", self.options.ident);
        // A socket from before a restart of syslog fails once.
        let sent = self.try_send(line.as_bytes()).or_else(|_| self.try_send(line.as_bytes()));
        let before = std::mem::replace(&mut self.failed, sent.is_err());
        sent.err().filter(|_| !before)
    }

    fn try_send(&mut self, line: &[u8]) -> io::Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => connect(&self.options)?,
        };
        socket.send(line)?;
        self.socket = Some(socket);
        Ok(())
    }
}

fn connect(options: &SyslogOptions) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(&options.path)?;
    Ok(socket)
}

/// syslog(3)'s: 2 is critical, 3 an error, 4 a warning, 6 information, 7 for debugging.
fn severity(level: Level) -> u8 {
    match level {
        Level::Fatal => 2,
        Level::Error => 3,
        Level::Warning => 4,
        Level::Log => 6,
        Level::Debug => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Facility;

    #[test]
    fn lines_arrive_and_a_log_that_is_restarted_is_found_again() {
        let dir = std::env::temp_dir().join(format!("engine-syslog-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("log");
        let facility = Facility::parse("local3").expect("one of them");
        let mut syslog = Syslog::new(SyslogOptions { path: path.clone(), ident: "weir".to_owned(), facility });
        let moment: Zoned = "2026-11-01T04:12:00+00:00[UTC]".parse().expect("a time of day");
        let lost = syslog.send(Level::Log, &moment, 7, "no daemon");
        assert_eq!(lost.map(|error| error.kind()), Some(io::ErrorKind::NotFound));
        assert!(syslog.send(Level::Log, &moment, 7, "still none").is_none(), "reported once");
        for word in ["one", "two"] {
            let receiver = UnixDatagram::bind(&path).expect("a fresh directory");
            receiver.set_nonblocking(true).expect("a socket");
            assert!(syslog.send(Level::Error, &moment, 7, word).is_none());
            let mut buffer = [0; 100];
            let count = receiver.recv(&mut buffer).expect("it was sent");
            let expected = format!("<155>Nov  1 04:12:00 weir[7]: {word}");
            assert_eq!(String::from_utf8_lossy(&buffer[..count]), expected);
            drop(receiver);
            std::fs::remove_file(&path).expect("our own file");
        }
        std::fs::remove_dir_all(&dir).expect("our own directory");
    }

    #[test]
    fn a_log_that_does_not_read_delays_no_worker() {
        let dir = std::env::temp_dir().join(format!("engine-syslog-full-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("log");
        let _receiver = UnixDatagram::bind(&path).expect("a fresh directory");
        let mut syslog = Syslog::new(SyslogOptions { path, ident: "weir".to_owned(), facility: Facility::DAEMON });
        let moment = Zoned::now();
        let lost = (0..100_000).find_map(|_| syslog.send(Level::Log, &moment, 7, "a line"));
        assert_eq!(lost.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        std::fs::remove_dir_all(&dir).expect("our own directory");
    }
}
