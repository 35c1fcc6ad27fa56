//! Ctrl-C ends a run in order: contestants stop, what was made for the run goes, and what was measured stays.
//!
//! Promises: a driver of a load, and whatever starts the next part of a run, asks here, so that a run ends within a part of it.
//! Does not end anything by force: a second signal ends the program at once, and then something may stay behind.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};

/// What the error says; it is no fault of what was measured.
pub const WORDS: &str = "interrupted";

/// Ctrl-C and `kill`. `nohup` goes on keeping a run alive.
pub const USUAL: &[i32] = &[SIGINT, SIGTERM];
/// These, and a terminal that is closed.
pub const WITH_THE_TERMINAL: &[i32] = &[SIGINT, SIGTERM, SIGHUP];

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals are requests.
///
/// # Errors
/// The kernel refuses.
pub fn listen(signals: &[i32]) -> Result<(), String> {
    let words = |error: io::Error| format!("cannot listen to signals: {error}");
    let asked = ASKED.get_or_init(Arc::default);
    for signal in signals {
        // In this order the first signal is remembered and the second one ends the program.
        signal_hook::flag::register_conditional_shutdown(*signal, 1, Arc::clone(asked)).map_err(words)?;
        signal_hook::flag::register(*signal, Arc::clone(asked)).map_err(words)?;
    }
    Ok(())
}

/// # Errors
/// The run is to end.
pub fn check() -> Result<(), String> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) { Err(WORDS.to_owned()) } else { Ok(()) }
}

/// Says on the terminal why a part of a run could not be measured.
pub fn report(error: &str) {
    eprintln!("  failed: {}", if check().is_err() { WORDS } else { error });
}
