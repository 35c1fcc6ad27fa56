//! `pgweir top`: shows what goes on in a running pgweir, in a terminal or, once, as text.
//!
//! ```text
//!   address    which console, as whom
//!   console ◄──► a thread that asks it, and connects again
//!   terminal ──► keys to ::top::Screen, and its picture to the terminal
//! ```
//!
//! Promises that the terminal is as before when the program ends, however it ends short of a SIGKILL. What is shown, and what keys do, is the crate
//! `top`'s to know.

mod address;
mod console;
mod terminal;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use ::top::{Beginning, Heard, Palette, Screen, text_of};
use ask::Target;

use crate::cli::Watching;
use address::Consoles;
use console::Console;

/// How often the console is asked, unless told otherwise: as often as PostgreSQL is.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn top(watching: &Watching) -> ExitCode {
    let is_once = watching.once || !io::stdout().is_terminal();
    match begin(watching).and_then(|(targets, screen)| {
        if is_once {
            return once(targets, screen);
        }
        terminal::run(targets, screen, watching.interval.unwrap_or(INTERVAL))
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir top: {why}");
            ExitCode::FAILURE
        }
    }
}

fn begin(watching: &Watching) -> Result<(Vec<Target>, Screen), String> {
    let Consoles { targets, choice } = address::find(watching.url.as_deref())?;
    if let Some(choice) = choice {
        eprintln!("pgweir top: {choice}");
    }
    let first = targets.first().expect("there is always one");
    let mut screen = Screen::new(&address::place(first), palette());
    let Watching { view, table, span, sort, filter, .. } = watching.clone();
    screen.begin(&Beginning { view, table, span, sort, filter })?;
    Ok((targets, screen))
}

/// A variable that is there and not empty says that colours are not wanted.
fn palette() -> Palette {
    match std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        true => Palette::Plain,
        false => Palette::Colours,
    }
}

fn once(targets: Vec<Target>, mut screen: Screen) -> Result<(), String> {
    let mut console = Console::new(targets);
    let heard = console.ask(screen.questions());
    if let Heard::Lost(why) = heard {
        return Err(why);
    }
    screen.take(heard, Duration::ZERO);
    // A reader that has seen enough has gone, which is no error.
    let _ = io::stdout().write_all(text_of(&screen)?.as_bytes());
    Ok(())
}
