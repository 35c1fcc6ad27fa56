//! The addresses that are listened on for http, and what is shown there. One process at a time has them: in an online upgrade the other one lets go of them only about now, so
//! each is tried again, by a thread that nobody waits for, until it can be had.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use config::Config;
use engine::Handle;
use machine::Level;
use monitor::Monitor;

use crate::watched::Watched;
use crate::{complain, live};

/// How long the other process may take until it does not listen any more. It is tried often until then; after it the log has an error, and it is tried seldom.
const SOON: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_secs(1);

/// The addresses, and what listens there now.
pub(crate) struct Http {
    addresses: Vec<String>,
    shown: Shown,
    served: Arc<Mutex<Served>>,
}

/// What is answered.
#[derive(Clone)]
struct Shown {
    watched: Arc<Watched>,
    page: Option<Router>,
}

#[derive(Default)]
struct Served {
    monitors: Vec<Monitor>,
    /// Changes whenever it is begun or stopped to serve: a thread that still tries for an earlier one ends.
    turn: u64,
}

impl Http {
    /// Nothing is served yet.
    pub(crate) fn new(config: &Config, watched: &Arc<Watched>) -> Http {
        let console = &config.pooling.global.console;
        let addresses = console.http_listen.clone();
        let has_page = console.http_page && !addresses.is_empty();
        let page = has_page.then(|| live::begin(watched, &console.http_hosts));
        Http { addresses, shown: Shown { watched: Arc::clone(watched), page }, served: Arc::default() }
    }

    /// Serves at all addresses now.
    ///
    /// # Errors
    /// One cannot be listened on; then it is served at none.
    pub(crate) fn serve(&self) -> Result<(), String> {
        let monitors = self.addresses.iter().map(|address| listen(address, &self.shown)).collect::<Result<_, _>>()?;
        lock(&self.served).monitors = monitors;
        Ok(())
    }

    /// Serves at each address as soon as it can be had. The log says when.
    pub(crate) fn serve_soon(&self, handle: &Handle) {
        let turn = self.stop();
        if self.addresses.is_empty() {
            return;
        }
        let (missing, shown) = (self.addresses.clone(), self.shown.clone());
        let (served, log) = (Arc::clone(&self.served), handle.clone());
        let attempts = move || try_until_served(missing, &shown, &served, turn, &log);
        if let Err(why) = thread::Builder::new().name("http".to_owned()).spawn(attempts) {
            handle.log().say(Level::Error, format!("http_listen: cannot start a thread: {why}"));
        }
    }

    /// Listens nowhere any more. Requests that have come are answered. Returns the new turn.
    pub(crate) fn stop(&self) -> u64 {
        let mut served = lock(&self.served);
        // Dropped, they stop.
        served.monitors.clear();
        served.turn += 1;
        served.turn
    }

    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

fn lock(served: &Mutex<Served>) -> MutexGuard<'_, Served> {
    served.lock().expect("nothing panics while it holds this lock")
}

fn listen(address: &String, shown: &Shown) -> Result<Monitor, String> {
    let cannot = |error| format!("http_listen: cannot listen on {address}: {}", complain::why(&error));
    let source = Arc::clone(&shown.watched) as Arc<dyn monitor::Source>;
    monitor::serve(address, source, shown.page.clone()).map_err(cannot)
}

fn try_until_served(mut missing: Vec<String>, shown: &Shown, served: &Mutex<Served>, turn: u64, handle: &Handle) {
    let late_at = Instant::now() + SOON;
    let mut is_late = false;
    loop {
        let mut served = lock(served);
        if served.turn != turn {
            return;
        }
        let is_late_now = !is_late && Instant::now() >= late_at;
        is_late |= is_late_now;
        missing.retain(|address| match listen(address, shown) {
            Ok(monitor) => {
                served.monitors.push(monitor);
                handle.log().say(Level::Log, format!("listening on {address} for http"));
                false
            }
            Err(text) => {
                if is_late_now {
                    handle.log().say(Level::Error, format!("{text}; it is tried again"));
                }
                true
            }
        });
        drop(served);
        if missing.is_empty() {
            return;
        }
        thread::sleep(if is_late { SELDOM } else { OFTEN });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn http(addresses: &[String]) -> Http {
        let shown = Shown { watched: Arc::default(), page: None };
        Http { addresses: addresses.to_vec(), shown, served: Arc::default() }
    }

    #[test]
    fn if_one_address_is_taken_the_others_are_let_go_of() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
        let http = http(&[free.to_string(), taken.local_addr().expect("bound").to_string()]);
        assert!(http.serve().is_err_and(|why| why.starts_with("http_listen: cannot listen on ")));
        let deadline = Instant::now() + SOON;
        while TcpStream::connect(free).is_ok() {
            assert!(Instant::now() < deadline, "somebody listens on {free} still");
            thread::yield_now();
        }
    }
}
