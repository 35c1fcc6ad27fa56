//! Ctrl-C ends a run in order: poolers and PostgreSQL stop, tables go, and what was measured is still written.
//!
//! Promises: whoever drives a load or begins the next part of a run asks here. A second Ctrl-C ends the program at once; the
//! guards then end its servers, and tables in a database that is not its own stay until the next run drops them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};

/// What the error says.
pub(crate) const WORDS: &str = "interrupted";

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals are requests.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn listen() -> Result<(), String> {
    let words = |error: io::Error| format!("cannot listen to signals: {error}");
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order the first signal is remembered and the second one ends the program.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(asked)).map_err(words)?;
        signal_hook::flag::register(signal, Arc::clone(asked)).map_err(words)?;
    }
    Ok(())
}

/// # Errors
/// The run is to end.
pub(crate) fn check() -> Result<(), String> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) { Err(WORDS.to_owned()) } else { Ok(()) }
}
