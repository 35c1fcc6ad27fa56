//! Statements about state that no rollback undoes: cursors, advisory locks, sequences, and state of the server's
//! process.

use super::super::answer::{Done, counted, refused, said, selected, truth};
use super::seat::Registration;
use crate::command::Command;
use crate::state::State;

/// `maker`: the text in each row of a cursor that is declared now.
pub(super) fn cursors(state: &mut State, command: &Command, maker: String) -> Done {
    let missing = |name: &str| refused("34000", format!("cursor \"{name}\" does not exist"));
    match command {
        Command::Declare { name, rows, len, hold } => {
            if state.lasting().cursors.contains_key(name) {
                return refused("42P03", format!("cursor \"{name}\" already exists"));
            }
            state.declare(name, maker, (*rows, *len), *hold);
            said("DECLARE CURSOR")
        }
        Command::Fetch { name, count } => {
            if !state.lasting().cursors.contains_key(name) {
                return missing(name);
            }
            let cursor = state.lasting_mut().cursors.get_mut(name).expect("it is there");
            let end = cursor.rows.min(cursor.at.saturating_add(*count));
            let from = std::mem::replace(&mut cursor.at, end);
            let (maker, filling) = (&cursor.maker, "f".repeat(cursor.len as usize));
            let rows = (from..end).map(|index| format!("{maker}.{index}:{filling}").into_bytes());
            Ok(counted("FETCH", rows))
        }
        Command::Close(Some(name)) => {
            if state.lasting_mut().cursors.remove(name).is_none() {
                return missing(name);
            }
            said("CLOSE CURSOR")
        }
        Command::Close(None) => {
            state.lasting_mut().cursors.clear();
            said("CLOSE CURSOR ALL")
        }
        _ => selected(state.lasting().cursors.keys().cloned()),
    }
}

/// Advisory locks.
pub(super) fn locks(state: &mut State, seat: &Registration, command: &Command) -> Done {
    match *command {
        Command::Lock { key, tries } => {
            let got = seat.lock(key);
            if got {
                *state.lasting_mut().locks.entry(key).or_default() += 1;
            } else if !tries {
                // PostgreSQL would wait here; the model has no waiting sessions.
                return refused("55P03", format!("somebody else holds lock {key}"));
            }
            selected([if tries { truth(got) } else { String::new() }])
        }
        Command::Unlock(key) => {
            let held = seat.unlock(key);
            if held && let Some(count) = state.lasting_mut().locks.get_mut(&key) {
                *count -= 1;
            }
            state.lasting_mut().locks.retain(|_, count| *count > 0);
            selected([truth(held)])
        }
        Command::UnlockAll => {
            seat.unlock_all();
            state.lasting_mut().locks.clear();
            selected([String::new()])
        }
        _ => selected(state.lasting().locks.keys().map(i64::to_string)),
    }
}

pub(super) fn sequences(state: &mut State, seat: &Registration, command: &Command) -> Done {
    let current = |name: &str| state.lasting().currents.get(name).copied();
    match command {
        Command::Next(name) => {
            let value = seat.next(name);
            let lasting = state.lasting_mut();
            lasting.currents.insert(name.clone(), value);
            lasting.last = Some(name.clone());
            selected([value.to_string()])
        }
        Command::Current(name) => match current(name) {
            Some(value) => selected([value.to_string()]),
            None => refused("55000", format!("currval of sequence \"{name}\" is not yet defined in this session")),
        },
        Command::DiscardSequences => {
            let lasting = state.lasting_mut();
            lasting.currents.clear();
            lasting.last = None;
            said("DISCARD SEQUENCES")
        }
        _ => match state.lasting().last.as_deref().and_then(current) {
            Some(value) => selected([value.to_string()]),
            None => refused("55000", "lastval is not yet defined in this session"),
        },
    }
}

/// Loaded libraries, and the state of the random generator.
pub(super) fn process(state: &mut State, command: &Command) -> Done {
    match command {
        Command::Load(library) => {
            state.lasting_mut().libraries.insert(library.clone());
            said("LOAD")
        }
        Command::Seed(seed) => {
            let mixed = seed.bytes().fold(7, |mixed: u64, byte| mixed.wrapping_mul(131).wrapping_add(byte.into()));
            state.lasting_mut().seed = Some(mixed);
            selected([String::new()])
        }
        _ => {
            // Without setseed random() cannot be foretold; no client calls it then.
            let seed = state.lasting().seed.unwrap_or(0);
            let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.lasting_mut().seed = Some(next);
            selected([format!("0.{next}")])
        }
    }
}
