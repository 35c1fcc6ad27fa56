//! Stacks for the live page: of this process, or of the backend that a client has.
//!
//! ```text
//!   client ─ what was seen last ─► server's address, pid, age ─ all of this machine? ─► `pgweir profile`, a process of its own ─► SVG
//! ```
//!
//! Promises: looks at no process of another machine that happens to have the same id; a picture has a bound, and so has the time that it takes. By a
//! process of its own, since gdb stops the one that it looks at, and what perf says of a large program takes memory.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use activity::History;
use page::{Picture, Subject, Way, Ways};
use stacks::Tool;
use units::Serial;

/// How long samples are taken.
const SECONDS: &str = "3";
/// `profile` ends by itself before that: perf may take two minutes for names, gdb one to begin.
const PATIENCE: Duration = Duration::from_secs(200);
/// How often its end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of a picture: ten times as many as one of many thousand functions has.
const PICTURE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of the words about it.
const WORDS_BYTES_MAX: u64 = 16 << 10;

/// Where the history is, if anything has been seen.
type Seen<'s> = Option<&'s Arc<Mutex<History>>>;

/// How a subject can be looked at now.
pub(crate) fn ways(subject: Subject, seen: Seen<'_>) -> Ways {
    let Ok(pid) = process(subject, seen) else { return Ways::default() };
    let available = stacks::available();
    let may = |installed: Result<(), String>, tool: Tool| installed.and_then(|()| stacks::permitted(tool, pid)).is_ok();
    Ways { perf: may(available.perf, Tool::Perf), gdb: may(available.gdb, Tool::Gdb) }
}

/// Samples it, and draws what came of it. Takes seconds.
///
/// # Errors
/// In words.
pub(crate) fn sample(subject: Subject, way: Way, seen: Seen<'_>) -> Result<Picture, String> {
    let pid = process(subject, seen)?.to_string();
    let option = if subject == Subject::Pooler { "--pid" } else { "--backend" };
    let tool = if way == Way::Perf { Tool::Perf } else { Tool::Gdb };
    // What runs now, also when its file is a newer one already.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("pgweir").args(["profile", option, &pid, "--by", tool.as_str(), "--seconds", SECONDS, "--svg", "-"]);
    if way == Way::Gdb {
        // Whoever asks for gdb was told that it stops the process.
        command.arg("--yes");
    }
    drawn(command)
}

/// The process of a subject, if it is one of this machine.
fn process(subject: Subject, seen: Seen<'_>) -> Result<u32, String> {
    let Subject::BackendOf(client) = subject else { return Ok(std::process::id()) };
    let backend =
        seen.and_then(|seen| backend_of(client, &seen.lock().expect("nothing panics while it holds this lock")));
    let backend = backend.ok_or("the client has no server at this moment, or nobody looks (observe_interval = 0)")?;
    if is_own_address(&backend.address) && stacks::is_backend(backend.pid, backend.age, &backend.others) {
        return Ok(backend.pid);
    }
    Err(format!("PostgreSQL at {} does not run on this machine, or in a container of its own", backend.address))
}

struct Backend {
    /// As it is configured, and its port.
    address: String,
    pid: u32,
    /// In seconds, now.
    age: f64,
    /// Process ids and ages of other backends of the same PostgreSQL.
    others: Vec<(u32, f64)>,
}

/// The backend that a client had when it was looked last. `None`: it had none, or PostgreSQL does not tell since when.
fn backend_of(client: i32, history: &History) -> Option<Backend> {
    let moment = history.latest()?;
    let is_its = |row: &&activity::Row| row.session.as_ref().is_some_and(|session| session.id.serial == Serial(client));
    let row = moment.rows.iter().filter(is_its).find(|row| row.backend.is_some())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let since = now.saturating_sub(Duration::from_millis(moment.at.0));
    let aged = |row: &activity::Row| {
        let age = row.backend.as_ref()?.ages.backend? + since;
        Some((u32::try_from(row.pid()?).ok()?, age.as_secs_f64()))
    };
    let (pid, age) = aged(row)?;
    let others = moment.rows.iter().filter(|other| other.host == row.host).filter_map(aged).collect();
    Some(Backend { address: moment.host(row)?.address.to_string(), pid, age, others })
}

/// Whether an address is one of this machine's: a socket among its files, or one of its interfaces.
pub(crate) fn is_own_address(address: &str) -> bool {
    if address.starts_with(['/', '@']) {
        return true;
    }
    let Some((host, _)) = address.rsplit_once(':') else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => is_own(address),
        // A name of several machines is none of ours.
        Err(_) => (host, 0).to_socket_addrs().is_ok_and(|mut found| {
            let first = found.next();
            first.is_some_and(|first| is_own(first.ip()) && found.all(|other| is_own(other.ip())))
        }),
    }
}

/// Whether what is sent there stays here: it would come from that very address. Nothing is sent.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = || {
        let socket = UdpSocket::bind((any, 0))?;
        // A port has to be named.
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    address.is_loopback() || from().is_ok_and(|from| from.ip() == address)
}

/// What it draws to its stdout, and says of it to its stderr.
fn drawn(mut command: Command) -> Result<Picture, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|why| format!("cannot start pgweir profile: {why}"))?;
    let svg = read(child.stdout.take().expect("it was piped"), PICTURE_BYTES_MAX + 1);
    let words = read(child.stderr.take().expect("it was piped"), WORDS_BYTES_MAX);
    let deadline = Instant::now() + PATIENCE;
    let was_well = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            _ => {
                // It may have ended meanwhile. gdb ends with its input, and lets the process go.
                let _ = (child.kill(), child.wait());
                return Err("it did not come to an end in time".to_owned());
            }
        }
    };
    let text = |from: Receiver<Vec<u8>>| {
        // It has ended: what it has written is there.
        let bytes = from.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (svg, words) = (text(svg), text(words));
    if svg.len() as u64 > PICTURE_BYTES_MAX {
        return Err("the picture is too large: pgweir profile writes it to a file".to_owned());
    }
    if !was_well || svg.is_empty() {
        let why = words.trim().trim_start_matches("pgweir profile: ");
        return Err(if why.is_empty() { "pgweir profile has failed".to_owned() } else { why.to_owned() });
    }
    Ok(Picture { svg, summary: words })
}

/// Reads that much on a thread, and no more: whoever writes more is ended by that.
fn read(from: impl Read + Send + 'static, most: u64) -> Receiver<Vec<u8>> {
    let (to, read) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is given; nobody may wait for it any more.
        let _ = from.take(most).read_to_end(&mut bytes);
        let _ = to.send(bytes);
    });
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_addresses() {
        let table = [
            ("/var/run/postgresql:5432", true),
            ("127.0.0.1:5432", true),
            // Of documentation: no machine has them.
            ("192.0.2.1:5432", false),
            ("[2001:db8::1]:5432", false),
            ("localhost:5432", true),
            ("nobody.invalid:5432", false),
            ("", false),
        ];
        for (address, is_own) in table {
            assert_eq!(is_own_address(address), is_own, "{address}");
        }
    }

    #[test]
    fn without_an_observer_there_is_the_pooler_alone() {
        assert_eq!(process(Subject::Pooler, None), Ok(std::process::id()));
        assert!(process(Subject::BackendOf(1), None).is_err_and(|why| why.contains("observe_interval")));
        assert_eq!(ways(Subject::BackendOf(1), None), Ways::default());
    }

    #[test]
    fn what_a_program_draws_says_and_does_too_long_has_bounds() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            drawn(command)
        };
        let picture = shell("echo '<svg/>'; echo 3 samples >&2").expect("it is well");
        assert_eq!((&*picture.svg, &*picture.summary), ("<svg/>\n", "3 samples\n"));
        let why = shell("echo 'pgweir profile: no samples' >&2; exit 1").expect_err("it is not");
        assert_eq!(why, "no samples");
        let much = shell("head -c 9000000 /dev/zero").expect_err("too much");
        assert!(much.contains("too large"), "{much}");
    }
}
