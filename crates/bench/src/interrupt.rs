//! Ctrl-C ends a measurement in order: contestants stop, folders go, and what was measured stays in the record.
//!
//! Promises: whoever drives a load or starts the next part of a run asks here, so that a run ends within a part of it.
//! Does not: end what runs by force; a second Ctrl-C does, and then something may stay behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::signal::{SIGINT, SIGTERM};

/// What the error says; it is no fault of what was measured.
pub const WORDS: &str = "interrupted";

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT and SIGTERM are requests. Errors: the kernel refuses.
pub fn listen() -> Result<(), String> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        let words = |error: std::io::Error| format!("cannot listen to signals: {error}");
        // In this order the first signal is remembered and the second one ends the program.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(asked)).map_err(words)?;
        signal_hook::flag::register(signal, Arc::clone(asked)).map_err(words)?;
    }
    Ok(())
}

/// Errors: the run is to end.
pub fn check() -> Result<(), String> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) { Err(WORDS.to_owned()) } else { Ok(()) }
}

/// Says on the terminal why a part of a run could not be measured.
pub fn report(error: &str) {
    eprintln!("  failed: {}", if check().is_err() { WORDS } else { error });
}
