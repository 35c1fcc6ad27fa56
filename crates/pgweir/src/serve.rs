//! Serving: from a configuration to a running process, and to its end.
//!
//! The order matters and is PgBouncer's: read the file, go to the background, stop being root, write the pidfile, listen.
//! Threads come last, since they inherit who we are.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use config::{Config, Problem, Severity};
use control::pidfile::Pidfile;
use control::{Asker, ControlEvent, Ending, Loaded, Signal, Steward, Wanted};
use engine::{ConsoleRequest, Engine, Handle};
use handover::successor::Succession;
use machine::{Level, Orders, Settings};
use names::News;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::cli::Flags;
use crate::files::{Files, Watcher};
use crate::hints::Hints;
use crate::http::Http;
use crate::observer::Observer;
use crate::place::Place;
use crate::plane::EnginePlane;
use crate::probing::Probing;
use crate::settings::Reading;
use crate::supervisor::Supervisor;
use crate::traces::Tracer;
use crate::watched::Watched;
use crate::{announce, complain, daemon, identity, keyring, keytab, passed, settings, supervisor, upgrade};

/// Serves what a file says.
pub(crate) fn serve_file(file: &Path, flags: &Flags) -> ExitCode {
    if let Err(error) = File::open(file) {
        let text = format!("could not load file \"{}\": {}", file.display(), complain::why_unread(&error));
        complain::line(flags.quiet, "ERROR", &text);
        return complain::unusable(flags.quiet, &[]);
    }
    let (config, files) = settings::load_noted(file, settings::cores());
    let config = match config {
        Ok(config) => config,
        Err(problems) => return complain::unusable(flags.quiet, &problems),
    };
    if let Err(error) = keytab::name(&config.pooling.global.login.auth_gss_keytab) {
        return complain::fatal(&format!("could not start again with auth_gss_keytab: {error}"));
    }
    serve(Read { config, files, again: Box::new(settings::reload) }, flags, None, Box::new(|_, _| {}))
}

/// A configuration, the files that it was read from, and how it is read once more.
pub(crate) struct Read {
    pub(crate) config: Config,
    pub(crate) files: Files,
    pub(crate) again: Box<dyn Fn(&Config) -> Reading + Send>,
}

/// What is done once clients are served.
pub(crate) type Begun = Box<dyn FnOnce(&Config, &Handle)>;

/// `fallback_user`: whom root becomes if nobody says otherwise. `begun` is called once.
pub(crate) fn serve(read: Read, flags: &Flags, fallback_user: Option<String>, begun: Begun) -> ExitCode {
    let config = &read.config;
    let user = flags
        .user
        .clone()
        .or_else(|| config.pooling.global.listening.user.clone())
        .or(fallback_user.filter(|_| identity::is_root()));
    let fatal = |text: &str| complain::fatal_in_log(&settings::log(&config.pooling.global, flags), text);
    match prepare(config, flags, user.as_deref()) {
        Ok(Prepared::Child(process)) => match up(config, flags, *process) {
            Ok(up) => run(up, read, flags, begun),
            Err(text) => fatal(&text),
        },
        Ok(Prepared::Parent(code)) => code,
        Err(text) => fatal(&text),
    }
}

/// Which side of going to the background we are on.
enum Prepared {
    Child(Box<Process>),
    Parent(ExitCode),
}

/// What the process has before it has threads.
struct Process {
    pidfile: Option<Pidfile>,
    signals: Signals,
    /// Sockets from the service manager.
    passed: Vec<Arc<OwnedFd>>,
    /// The process whose place we are to take.
    succession: Option<Succession>,
    supervisor: Supervisor,
}

/// What it has once its data plane runs.
struct Up {
    engine: Engine,
    watched: Arc<Watched>,
    place: Place,
    signals: Signals,
    supervisor: Supervisor,
    /// The process whose place we are to take.
    succession: Option<Succession>,
}

/// Everything that must happen while there is one thread.
fn prepare(config: &Config, flags: &Flags, user: Option<&str>) -> Result<Prepared, String> {
    if identity::is_root() && user.is_none() {
        return Err("PgBouncer should not run as root: set user= in the file, or give -u USERNAME".to_owned());
    }
    if flags.daemon && !daemon::is_child() {
        if config.pooling.global.listening.pidfile.is_none() {
            return Err("daemon needs pidfile configured".to_owned());
        }
        if config.pooling.global.log.logfile.is_none() && !config.pooling.global.log.syslog {
            return Err("daemon needs logfile configured".to_owned());
        }
        if passed::is_any() {
            return Err(
                "sockets passed from service manager are for one process: they cannot be used with -d".to_owned()
            );
        }
        let parent = daemon::start().map_err(|why| format!("cannot go to the background: {why}"))?;
        return Ok(Prepared::Parent(parent));
    }
    if daemon::is_child() {
        daemon::leave_session().map_err(|why| format!("cannot leave the terminal's session: {why}"))?;
    }
    if let Some(user) = user {
        identity::become_user(user)?;
    }
    announce::end_with_parent().map_err(|why| format!("cannot end with the parent: {why}"))?;
    if let Some(path) = &config.pooling.global.log.logfile {
        let opened = File::options().append(true).create(true).open(path);
        opened.map_err(|error| format!("could not open logfile '{path}': {}", complain::why(&error)))?;
    }
    let supervisor = Supervisor::of_the_environment()?;
    let passed: Vec<_> = passed::take()?.into_iter().map(Arc::new).collect();
    let succession = if flags.reboot { upgrade::ask(config)? } else { None };
    if passed.is_empty() && succession.is_none() && is_served_already(config) {
        return Err("unix socket is in use, cannot continue".to_owned());
    }
    // Whoever reads the pidfile or hears that we listen may send one at once.
    let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    let signals = signals.map_err(|error| format!("cannot receive signals: {}", complain::why(&error)))?;
    let path = config.pooling.global.listening.pidfile.as_ref().map(Path::new);
    let pidfile = match &succession {
        None => path.map(Pidfile::write).transpose()?,
        // It is that one's until it hands over.
        Some(succession) => path.map(|path| Pidfile::prepare(path, succession.pid)).transpose()?,
    };
    Ok(Prepared::Child(Box::new(Process { pidfile, signals, passed, succession, supervisor })))
}

/// Does another process answer on the Unix socket that we are to listen on? Asked before anything else is taken, so that
/// the other one notices nothing.
fn is_served_already(config: &Config) -> bool {
    let listening = &config.pooling.global.listening;
    let Some(dir) = listening.unix_socket_dir.as_ref().filter(|dir| !dir.starts_with('@')) else {
        return false;
    };
    UnixStream::connect(Path::new(dir).join(format!(".s.PGSQL.{}", listening.listen_port))).is_ok()
}

/// Starts the data plane. As a successor it accepts nobody yet.
///
/// # Errors
/// Why not.
fn up(config: &Config, flags: &Flags, process: Process) -> Result<Up, String> {
    let Process { pidfile, signals, passed, succession, supervisor } = process;
    let watched = Arc::new(Watched::default());
    let http = Http::new(config, &watched);
    // While another process listens there, we cannot.
    if succession.is_none() {
        http.serve()?;
    }
    let loaded = settings::loaded(config);
    let keyring = keyring::read(&config.pooling.global.tls)?;
    let mut options = settings::options(&config.pooling.global, flags, keyring);
    options.passed.clone_from(&passed);
    options.heritage = succession.as_ref().map(|succession| succession.heritage.clone());
    let settings = with_orders(loaded.settings, succession.as_ref().map(|succession| &succession.orders));
    let engine = Engine::start(&options, settings).map_err(|error| error.to_string())?;
    // Copies of listening sockets would keep the port open when the engine closes its own.
    drop(options);
    let ignored = if passed.is_empty() { Vec::new() } else { settings::ignored_places(&config.pooling.global) };
    drop(passed);
    let handle = engine.handle();
    if handle.listening().is_empty() {
        return Err("nowhere to listen on: listen_addr and unix_socket_dir are both empty".to_owned());
    }
    for warning in &loaded.warnings {
        handle.log().say(Level::Warning, warning.clone());
    }
    for key in ignored {
        handle.log().say(Level::Warning, format!("sockets passed from service manager, {key} ignored"));
    }
    let place = Place::new(handle, pidfile, http);
    Ok(Up { engine, watched, place, signals, supervisor, succession })
}

/// What was ordered in the process before this one is still in force.
fn with_orders(settings: Arc<Settings>, orders: Option<&Orders>) -> Arc<Settings> {
    match orders.filter(|orders| settings.orders != **orders) {
        None => settings,
        Some(orders) => Arc::new(Settings { orders: orders.clone(), ..Settings::clone(&settings) }),
    }
}

/// Serves until the end.
fn run(up: Up, read: Read, flags: &Flags, begun: Begun) -> ExitCode {
    let handle = up.engine.handle();
    let ended = serve_until_end(up, read, flags, begun);
    handle.log().flush();
    match ended {
        Ok(Ending::Soft | Ending::AtOnce | Ending::HandedOver) => ExitCode::SUCCESS,
        // Told in the log.
        Ok(Ending::Broken) => ExitCode::FAILURE,
        Err(text) => complain::fatal(&text),
    }
}

/// First all that can fail. A process whose place we take has lost nothing until [`take_over`], and after that nothing of ours fails any more.
fn serve_until_end(up: Up, read: Read, flags: &Flags, begun: Begun) -> Result<Ending, String> {
    let Up { mut engine, watched, mut place, signals, supervisor, succession } = up;
    let (sender, events) = channel();
    let handle = engine.handle();
    let config = read.config.clone();
    let questions = engine.questions().expect("nobody took them before");
    let news = engine.news().expect("nobody took them before");
    let mut loaded = settings::loaded(&config);
    let observer = Observer::start(&config, handle.clone(), sender.clone(), succession.is_some())?;
    let probes = engine.probes().expect("nobody took them before");
    let probing = Probing::start(&config, handle.clone(), probes, succession.is_some())?;
    let renewing = observer.clone();
    let renewed = move || renewing.renew();
    let watcher = Watcher::start(handle.clone(), config.pooling.global.tls.clone(), sender.clone(), renewed);
    let watcher = watcher.map_err(|error| format!("cannot start a thread: {error}"))?;
    let tracer = Tracer::start(&config, handle.clone())?;
    let hints = Hints::start(&config, handle.clone(), probing.clone());
    let observers = (observer.clone(), probing.clone(), hints.clone(), tracer);
    let load = told(supervisor.clone(), reader(handle.clone(), watcher, observers, flags.clone(), read));
    show_life(sender.clone())?;
    hear(news, handle.clone(), sender.clone())?;
    let end = watch(engine, signals, questions, sender.clone())?;
    if let Some(succession) = succession {
        match take_over(succession, &handle, sender.clone()) {
            Ok(orders) => loaded.settings = with_orders(loaded.settings, Some(&orders)),
            Err(why) => {
                stop(&handle, end)?;
                return Err(why);
            }
        }
        place.take();
        observer.order(&loaded.settings.orders);
        observer.rest(false);
        probing.order(&loaded.settings);
    } else {
        for address in place.http.addresses() {
            handle.log().say(Level::Log, format!("listening on {address} for http"));
        }
    }
    let meeting = upgrade::await_successor(&config, &handle, sender.clone());
    announce(&handle);
    watched.know(handle.clone(), observer.past().clone(), observer.is_looked_at());
    let plane = EnginePlane::new(handle.clone(), supervisor.clone(), place, (observer, probing, hints));
    let mut steward = Steward::new(plane, load, loaded);
    watched.begin(sender, steward.readiness());
    begun(&config, &handle);
    supervisor.ready();
    let ending = steward.run(&events);
    match ending {
        // Told already, unless no sender is left; or what is left here is nobody's.
        Ending::AtOnce | Ending::HandedOver => stop(&handle, end)?,
        Ending::Soft | Ending::Broken => wait(end)?,
    }
    write_luggage(&handle);
    handle.log().flush();
    // With the steward goes the pidfile.
    drop((steward, meeting));
    Ok(ending)
}

fn stop(handle: &Handle, end: thread::JoinHandle<()>) -> Result<(), String> {
    handle.stop(machine::Stop::Immediate);
    wait(end)
}

/// A shutdown may come while another process takes our place: clients that have left for it are to arrive.
fn write_luggage(handle: &Handle) {
    // As long as the writer waits for one that takes nothing.
    let until = Instant::now() + handover::predecessor::STALL_MAX;
    while handle.has_unwritten() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

fn wait(end: thread::JoinHandle<()>) -> Result<(), String> {
    end.join().map_err(|_| "the engine's end was not seen".to_owned())
}

/// Takes the place of the process before this one. Returns what is ordered there.
///
/// # Errors
/// It has not begun to hand over; we must end, and it goes on.
fn take_over(succession: Succession, handle: &Handle, control: Sender<ControlEvent>) -> Result<Orders, String> {
    let (pid, version) = (succession.pid, succession.version.clone());
    handle.log().say(Level::Log, format!("taking over from process {pid}, {version}"));
    let log = handle.clone();
    let gone = move |ended: std::io::Result<()>| match ended {
        // Fails when the process is about to end.
        Ok(()) => _ = control.send(ControlEvent::PredecessorGone),
        Err(why) => {
            log.log().say(Level::Fatal, format!("what process {pid} hands over cannot be taken: {why}; it goes on"));
            log.log().flush();
            // At once, and with no file removed: that process goes on as soon as this one has ended.
            std::process::exit(1);
        }
    };
    succession.begin(handle, gone).map_err(|why| format!("cannot take over from process {pid}: {why}"))
}

/// Says that clients are served. Nobody is told that it was not said.
fn announce(handle: &Handle) {
    let say = |text| handle.log().say(Level::Log, text);
    for listening in handle.listening() {
        say(format!("listening on {listening}"));
    }
    say(format!("process up: {}, {} workers", control::version::full(), handle.workers()));
    let let_go = announce::announce().and_then(|()| if daemon::is_child() { daemon::let_go() } else { Ok(()) });
    if let Err(why) = let_go {
        handle.log().say(Level::Error, format!("cannot let go of the terminal: {why}"));
    }
}

/// Threads that send events to the control thread: signals, commands of the console, and the end of the engine.
fn watch(
    engine: Engine,
    mut signals: Signals,
    questions: Receiver<ConsoleRequest>,
    sender: Sender<ControlEvent>,
) -> Result<thread::JoinHandle<()>, String> {
    let system = |why: std::io::Error| format!("cannot start a thread: {why}");
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let for_signals = sender.clone();
    named("signals")
        .spawn(move || {
            for number in signals.forever() {
                // Fails when the process is about to end, as does the next one.
                let _ = for_signals.send(ControlEvent::Signal(meaning(number)));
            }
        })
        .map_err(system)?;
    let for_console = sender.clone();
    named("console")
        .spawn(move || {
            for ConsoleRequest { conn, worker, question } in questions {
                let _ = for_console.send(ControlEvent::Asked { asker: Asker { worker, conn }, question });
            }
        })
        .map_err(system)?;
    named("end")
        .spawn(move || {
            engine.wait();
            let _ = sender.send(ControlEvent::Finished);
        })
        .map_err(system)
}

/// Hands on what is new about names of hosts.
fn hear(news: Receiver<News>, handle: Handle, sender: Sender<ControlEvent>) -> Result<(), String> {
    let heard = move || {
        for news in news {
            match news {
                // Fails when the process is about to end.
                News::Moved { name, addresses } => _ = sender.send(ControlEvent::NameMoved { name, addresses }),
                News::NoAnswer { name, why } => {
                    let words = format!("{why}; the addresses of {name} that were found last are used on");
                    handle.log().say(Level::Warning, words);
                }
                News::Back { name } => handle.log().say(Level::Log, format!("DNS: {name} can be looked up again")),
            }
        }
    };
    let started = thread::Builder::new().name("news".to_owned()).spawn(heard);
    started.map(drop).map_err(|why| format!("cannot start a thread: {why}"))
}

/// Asks for signs of life as often as the service manager wants them, if it does.
fn show_life(sender: Sender<ControlEvent>) -> Result<(), String> {
    let Some(period) = supervisor::watchdog_period() else { return Ok(()) };
    let beat = move || {
        while sender.send(ControlEvent::LifeAsked).is_ok() {
            thread::sleep(period);
        }
    };
    let started = thread::Builder::new().name("watchdog".to_owned()).spawn(beat);
    started.map(drop).map_err(|why| format!("cannot start a thread: {why}"))
}

/// Tells the service manager of every reload, until when it lasts, whether it succeeds or not.
fn told(
    supervisor: Supervisor,
    mut read: impl FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>,
) -> impl FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>> {
    move |wanted| {
        let is_reload = wanted == Wanted::Again;
        if is_reload {
            supervisor.reloading();
        }
        let loaded = read(wanted);
        if is_reload {
            supervisor.ready();
        }
        loaded
    }
}

fn meaning(number: i32) -> Signal {
    match number {
        SIGHUP => Signal::Hangup,
        SIGINT => Signal::Interrupt,
        SIGTERM => Signal::Terminate,
        SIGUSR1 => Signal::User1,
        SIGUSR2 => Signal::User2,
        // The only other one that is asked for.
        _ => Signal::Quit,
    }
}

/// Reads the configuration for the control plane; the log takes up its part at once.
fn reader(
    handle: Handle,
    watcher: Watcher,
    (observer, probing, hints, tracer): (Observer, Probing, Hints, Tracer),
    flags: Flags,
    read: Read,
) -> impl FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>> {
    let Read { config: mut running, mut files, again } = read;
    watcher.follow(running.pooling.global.listening.watch_config, &files);
    move |wanted| {
        let read = match wanted {
            Wanted::Again => {
                let (read, noted) = again(&running);
                files = if read.is_ok() { noted } else { std::mem::take(&mut files).with(noted) };
                // Also if they are wrong: it is the next change that may mend them.
                watcher.follow(running.pooling.global.listening.watch_config, &files);
                read
            }
            Wanted::Set { key, value } => running.set(key, value).map_err(|problem| vec![problem]),
        };
        // Warnings are of a file that is in force.
        let is_error = |problem: &&Problem| problem.severity == Severity::Error;
        let errors = |problems: Vec<Problem>| -> Vec<String> {
            problems.iter().filter(is_error).map(Problem::to_string).collect()
        };
        let mut config = read.map_err(errors)?;
        // Threads are as many as they were at start.
        config.pooling.workers = handle.workers();
        let tls = &config.pooling.global.tls;
        let are_same = *tls == handle.settings().global.tls;
        match keyring::read(tls) {
            Ok(keyring) => handle.set_tls(keyring),
            // Either the files are those of before: half of a new set is no reason to ignore all else that is new. Or one of them was
            // SET, and the next one will be.
            Err(why) if are_same || wanted != Wanted::Again => {
                handle.log().say(Level::Error, format!("TLS setup failed: {why}; what was read before stays in use"));
            }
            Err(why) => {
                // The files that were named just now may come.
                files = std::mem::take(&mut files).with(Files::of_tls(tls));
                watcher.follow(running.pooling.global.listening.watch_config, &files);
                return Err(vec![format!("TLS setup failed: {why}")]);
            }
        }
        watcher.follow_tls(tls);
        watcher.follow(config.pooling.global.listening.watch_config, &files);
        observer.configure(&config);
        probing.configure(&config);
        tracer.configure(&config);
        hints.configure(&config);
        handle.set_tcp(settings::tcp(&config.pooling.global));
        handle.set_busy_poll(settings::busy_poll(&config.pooling.global));
        handle.set_names(&settings::names(&config.pooling.global));
        handle.log().reopen(&settings::log(&config.pooling.global, &flags));
        let loaded = settings::loaded(&config);
        // Only now: files that are wrong the next time leave what holds, and not what was refused.
        running = config;
        Ok(loaded)
    }
}
