//! `pgweir profile`: a flame graph of a running pgweir, or of PostgreSQL's backends, by perf or gdb (`stacks`).
//!
//! ```text
//!   file, --pid-file, --pid ─────────────┐
//!   --backend ───────────────────────────┼─► process ids ─► stacks::sample ─► SVG, folded text, and a summary
//!   --postgres ─ its backends ───────────┤
//!            └── --waiting ─ asks pg_stat_activity before each sample
//! ```
//!
//! Promises: looks at no process of another machine that happens to have the same id; stops no process without `--yes`; what clients have
//! chosen (statements, names) is in no stack. The summary goes to stderr if stdout has a picture or stacks.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ask::Monitor;
use stacks::{Available, How, Sampled, Subject, Tool, What};

use crate::cli::{Look, Looked};
use crate::{complain, settings};

/// For each answer of PostgreSQL's.
const PATIENCE: Duration = Duration::from_secs(15);
/// Where the picture goes.
const PICTURE: &str = "profile.svg";
/// So many functions are named in the summary.
const TOP: usize = 5;

/// Samples, and writes what came of it.
pub(crate) fn profile(looked: &Looked, look: &Look) -> ExitCode {
    match Source::of(looked).and_then(|source| source.sample(look)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir profile: {}", complain::without_passwords(&why));
            ExitCode::FAILURE
        }
    }
}

/// Where process ids come from.
enum Source {
    /// A pooler.
    Pooler(u32),
    /// One backend.
    Backend(u32),
    /// All processes of one PostgreSQL, by its postmaster's id.
    All(u32),
    /// Those that wait for an event.
    Waiting { monitor: Box<Monitor>, event: String },
}

impl Source {
    fn of(looked: &Looked) -> Result<Source, String> {
        match looked {
            Looked::File(file) => {
                let name = pidfile_of(file)?;
                Ok(Source::Pooler(read_pid(Path::new(&name))?))
            }
            Looked::PidFile(file) => Ok(Source::Pooler(read_pid(file)?)),
            Looked::Pooler(pid) => Ok(Source::Pooler(living(*pid)?)),
            Looked::Backend(pid) => {
                // Its postmaster tells that it is one.
                stacks::backends(living(*pid)?)?;
                Ok(Source::Backend(*pid))
            }
            Looked::Backends { url, event } => {
                let mut monitor = Box::new(Monitor::connect(&programs::url::target(url)?, "pgweir profile", PATIENCE)?);
                let own = own_backend(&mut monitor)?;
                match event {
                    None => Ok(Source::All(stacks::parent(own).ok_or("PostgreSQL has closed the connection")?)),
                    Some(event) => Ok(Source::Waiting { monitor, event: event.clone() }),
                }
            }
        }
    }

    fn sample(mut self, look: &Look) -> Result<(), String> {
        let tool = self.tool(look, &stacks::available())?;
        let (rate, seconds) = (look.rate(tool)?, look.seconds.unwrap_or(10));
        let how = How {
            tool,
            duration: Duration::from_secs(u64::from(seconds)),
            rate,
            pause_max: Duration::from_secs(u64::from(look.pause_max.unwrap_or(2))),
        };
        let (subject, title) = (self.subject(), self.title());
        let mut processes = || self.processes();
        let sampled = stacks::sample(&mut What { subject, processes: &mut processes }, &how)?;
        if sampled.folded.count() == 0 {
            return Err(self.no_samples(&sampled, &how));
        }
        let (words, to_stdout) = (note(&sampled, &how), write(look, &sampled, &title, &how)?);
        let summary = summary(&sampled, &title, &words);
        if to_stdout {
            eprint!("{summary}")
        } else {
            print!("{summary}")
        }
        Ok(())
    }

    /// perf if it can be used, else gdb. Who waits is not on a CPU: only gdb sees it there.
    fn tool(&self, look: &Look, available: &Available) -> Result<Tool, String> {
        let wanted = look.by.or(matches!(self, Source::Waiting { .. }).then_some(Tool::Gdb));
        let (tool, why) = match (wanted, &available.perf) {
            (Some(tool), _) => (tool, None),
            (None, Ok(())) => (Tool::Perf, None),
            (None, Err(why)) => (Tool::Gdb, Some(why)),
        };
        let found = if tool == Tool::Perf { &available.perf } else { &available.gdb };
        let because = why.map(|why| format!("{why}; ")).unwrap_or_default();
        found.clone().map_err(|why| format!("{because}{why}"))?;
        if tool == Tool::Gdb && !look.yes {
            let pauses = "gdb stops a process for 0.1 to 0.5 s at each sample: say --yes if that may be";
            return Err(format!("{because}{pauses}"));
        }
        Ok(tool)
    }

    fn subject(&self) -> Subject {
        if matches!(self, Source::Pooler(_)) { Subject::Pooler } else { Subject::PostgreSql }
    }

    fn title(&self) -> String {
        match self {
            Source::Pooler(pid) => format!("pgweir, process {pid}"),
            Source::Backend(pid) => format!("PostgreSQL, backend {pid}"),
            Source::All(_) => "PostgreSQL, all backends".to_owned(),
            Source::Waiting { event, .. } => format!("PostgreSQL, backends that wait for {}", one_line(event)),
        }
    }

    /// The processes to look at now.
    fn processes(&mut self) -> Result<Vec<u32>, String> {
        match self {
            Source::Pooler(pid) | Source::Backend(pid) => Ok(vec![*pid]),
            Source::All(postmaster) => Ok(stacks::children(*postmaster)),
            Source::Waiting { monitor, event } => {
                let pids = monitor.ask(&waiting(event))?;
                Ok(pids.iter().filter_map(|pid| pid.parse().ok()).collect())
            }
        }
    }

    fn no_samples(&self, sampled: &Sampled, how: &How) -> String {
        let seconds = how.duration.as_secs();
        let why = match (self, how.tool) {
            (Source::Waiting { event, .. }, Tool::Gdb) => {
                format!("no backend waited for {} when asked", one_line(event))
            }
            (_, Tool::Perf) => "nothing ran on a CPU: --by gdb shows where processes wait".to_owned(),
            _ => "the processes are gone".to_owned(),
        };
        let notes: String = sampled.notes.iter().map(|note| format!("; {note}")).collect();
        format!("no samples in {seconds} s: {why}{notes}")
    }
}

/// The setting `pidfile`, of a file that can be served.
fn pidfile_of(file: &Path) -> Result<String, String> {
    let config = settings::load(file, settings::cores()).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        all.join("; ")
    })?;
    let name = config.pooling.global.listening.pidfile.clone().filter(|name| !name.is_empty());
    name.ok_or_else(|| format!("{} has no pidfile: name the process by --pid", file.display()))
}

fn read_pid(file: &Path) -> Result<u32, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|why| format!("pidfile {shown}: {}", crate::complain::why(&why)))?;
    let pid = text.lines().next().and_then(|line| line.trim().parse().ok());
    living(pid.ok_or_else(|| format!("pidfile {shown} has no process id"))?)
}

fn living(pid: u32) -> Result<u32, String> {
    stacks::parent(pid).map(|_| pid).ok_or_else(|| format!("there is no process {pid} on this machine"))
}

/// The process id of the backend that serves us, if it is one of this machine: a process with its id that is as old.
fn own_backend(monitor: &mut Monitor) -> Result<u32, String> {
    let rows = monitor.ask(
        "SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp() - backend_start) FROM pg_stat_activity \
         WHERE pid = pg_backend_pid()",
    )?;
    let row = rows.first().and_then(|row| row.split_once('|'));
    let (pid, age) = row.ok_or("PostgreSQL does not tell which process serves us")?;
    let (pid, age): (u32, f64) = (pid.parse().unwrap_or(0), age.parse().unwrap_or(f64::MAX));
    if stacks::is_backend(pid, age, &[]) {
        return Ok(pid);
    }
    Err("PostgreSQL does not run on this machine, or in a container of its own: run this where its processes are"
        .to_owned())
}

/// Who waits for an event, by its class and name or by its class alone.
//= pg18 monitoring-stats#WAIT-EVENT-TABLE
fn waiting(event: &str) -> String {
    let literal = |text: &str| text.replace('\'', "''").replace('\0', "");
    let event = match event.split_once(':') {
        Some((class, name)) => format!("wait_event_type = '{}' AND wait_event = '{}'", literal(class), literal(name)),
        None => format!("wait_event_type = '{}'", literal(event)),
    };
    format!("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {event} ORDER BY pid")
}

/// How it was sampled.
fn note(sampled: &Sampled, how: &How) -> String {
    let processes =
        if sampled.processes == 1 { "1 process".to_owned() } else { format!("{} processes", sampled.processes) };
    let (tool, seconds, rate) = (how.tool.as_str(), how.duration.as_secs(), how.rate);
    let time = match how.tool {
        Tool::Perf => format!("of {processes} by {tool}, {rate} a second for {seconds} s: time on a CPU"),
        Tool::Gdb => {
            format!("of {processes} by {tool}, {} stops in {seconds} s: time, waiting or not", sampled.pauses.len())
        }
    };
    sampled.notes.iter().fold(time, |text, note| format!("{text}; {note}"))
}

/// Writes what is asked for. Whether something went to stdout.
fn write(look: &Look, sampled: &Sampled, title: &str, how: &How) -> Result<bool, String> {
    let picture = match (&look.svg, &look.folded) {
        (Some(file), _) => Some(file.as_path()),
        (None, Some(_)) => None,
        (None, None) => Some(Path::new(PICTURE)),
    };
    let mut to_stdout = false;
    let mut put = |file: &Path, text: &str| {
        if file == Path::new("-") {
            to_stdout = true;
            print!("{text}");
            return Ok(());
        }
        fs::write(file, text).map_err(|why| format!("cannot write {}: {}", file.display(), crate::complain::why(&why)))
    };
    if let Some(file) = picture {
        put(file, &stacks::svg(&sampled.folded, title, &note(sampled, how)))?;
    }
    if let Some(file) = &look.folded {
        put(file, &sampled.folded.text())?;
    }
    Ok(to_stdout)
}

/// What was found, in some lines.
fn summary(sampled: &Sampled, title: &str, note: &str) -> String {
    let count = sampled.folded.count();
    let mut text = format!("{title}: {count} samples {note}\n");
    let mut pauses = sampled.pauses.clone();
    pauses.sort_unstable();
    if let (Some(middle), Some(longest)) = (pauses.get(pauses.len() / 2), pauses.last()) {
        let (middle, longest) = (middle.as_millis(), longest.as_millis());
        text.push_str(&format!("gdb stopped a process for {middle} ms a sample (median), {longest} ms at most\n"));
    }
    for (frame, own) in sampled.folded.top(TOP) {
        let share = own * 100 / count;
        text.push_str(&format!("  {share:>3} %  {}\n", frame.name));
    }
    text
}

/// On a terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_literal() {
        assert!(
            waiting("LWLock:BufferMapping").contains("wait_event_type = 'LWLock' AND wait_event = 'BufferMapping'")
        );
        assert!(waiting("IO").ends_with("wait_event_type = 'IO' ORDER BY pid"));
        assert!(waiting("x' OR 1=1 --:y'").contains("'x'' OR 1=1 --' AND wait_event = 'y'''"));
    }

    #[test]
    fn gdb_is_used_with_consent_only() {
        let pooler = Source::Pooler(1);
        let none = || Err("x is not installed".to_owned());
        let all = Available { perf: Ok(()), gdb: Ok(()) };
        assert_eq!(pooler.tool(&Look::default(), &all), Ok(Tool::Perf));
        let gdb_alone = Available { perf: none(), gdb: Ok(()) };
        let why = pooler.tool(&Look::default(), &gdb_alone).expect_err("nobody has said --yes");
        assert!(why.starts_with("x is not installed; gdb stops a process") && why.contains("--yes"), "{why}");
        let yes = Look { yes: true, ..Look::default() };
        assert_eq!(pooler.tool(&yes, &gdb_alone), Ok(Tool::Gdb));
        let by_gdb = Look { by: Some(Tool::Gdb), ..Look::default() };
        assert!(pooler.tool(&by_gdb, &all).is_err_and(|why| why.starts_with("gdb stops")));
        let nothing = Available { perf: none(), gdb: none() };
        assert_eq!(pooler.tool(&yes, &nothing), Err("x is not installed; x is not installed".to_owned()));
    }

    #[test]
    fn a_pidfile_names_a_living_process() {
        let file = std::env::temp_dir().join(format!("profile-{}", std::process::id()));
        fs::write(&file, format!("{}\n", std::process::id())).expect("a file of ours");
        assert_eq!(read_pid(&file), Ok(std::process::id()));
        fs::write(&file, "none\n").expect("a file of ours");
        assert!(read_pid(&file).is_err_and(|why| why.ends_with("has no process id")));
        fs::write(&file, u32::MAX.to_string()).expect("a file of ours");
        assert!(read_pid(&file).is_err_and(|why| why == format!("there is no process {} on this machine", u32::MAX)));
        fs::remove_file(&file).expect("it is there");
        assert!(read_pid(&file).is_err_and(|why| why.ends_with("No such file or directory")));
    }
}
