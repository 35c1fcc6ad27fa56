//! Statements about state that the end of a transaction may undo, other than settings: temporary tables and channels.

use super::super::answer::{Done, refused, said, selected};
use crate::command::Command;
use crate::state::{State, Table};

/// Temporary tables; `maker`: the text in each row of a table that is created now.
pub(super) fn tables(state: &mut State, command: &Command, maker: String) -> Done {
    let missing = |name: &str| refused("42P01", format!("relation \"{name}\" does not exist"));
    match command {
        Command::CreateTemporary { name, drops } => {
            if state.kept().tables.contains_key(name) {
                return refused("42P07", format!("relation \"{name}\" already exists"));
            }
            state.kept_mut().tables.insert(name.clone(), Table { maker, rows: 0, drops: *drops });
            said("CREATE TABLE")
        }
        Command::Insert(name) => {
            if !state.kept().tables.contains_key(name) {
                return missing(name);
            }
            let table = state.kept_mut().tables.get_mut(name).expect("it is there");
            table.rows += 1;
            said("INSERT 0 1")
        }
        Command::Drop(name) => {
            if state.kept_mut().tables.remove(name).is_none() {
                return missing(name);
            }
            said("DROP TABLE")
        }
        Command::Table(name) => {
            let Some(table) = state.kept().tables.get(name) else { return missing(name) };
            selected((0..table.rows).map(|index| format!("{}.{index}", table.maker)))
        }
        Command::DiscardTemporary => {
            state.kept_mut().tables.clear();
            said("DISCARD TEMP")
        }
        _ => unreachable!("only what is about tables comes here"),
    }
}

pub(super) fn channels(state: &mut State, command: &Command) -> Done {
    match command {
        Command::Listen(channel) => {
            state.kept_mut().pending.push((Some(channel.clone()), true));
            said("LISTEN")
        }
        Command::Unlisten(channel) => {
            state.kept_mut().pending.push((channel.clone(), false));
            said("UNLISTEN")
        }
        Command::Notify { channel, payload } => {
            let notice = (channel.clone(), payload.clone());
            // A transaction sends equal notifications once.
            if !state.kept().notices.contains(&notice) {
                state.kept_mut().notices.push(notice);
            }
            said("NOTIFY")
        }
        _ => selected(state.kept().channels.iter().cloned()),
    }
}
