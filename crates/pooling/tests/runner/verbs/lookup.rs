//! `lookup 1: …`: a lookup database.

use wire::backend;
use wire::backend::{Column, Status, oid};

use super::{server, speak};
use crate::runner::backend as messages;
use crate::runner::words::Words;
use crate::runner::world::World;

/// What a lookup database tells as its time.
const NOW: &[u8] = b"2026-11-23 12:00:00+00";

pub(crate) fn run(world: &mut World, name: &str, mut words: Words<'_>) -> Result<(), String> {
    let socket = world.socket(name)?;
    let mut out = Vec::new();
    if words.eat("prepares") {
        prepared(&mut out);
    } else if words.eat("answers nobody") {
        answer(&[], 2, &mut out);
    } else if words.eat("answers") {
        let mut values = Vec::new();
        while !words.is_empty() {
            values.push(if words.eat("null") { None } else { Some(words.text("a value")?) });
        }
        answer(&[values.iter().map(Option::as_deref).collect()], values.len(), &mut out);
    } else if words.eat("refuses") {
        out = messages::encode(words.clone())?;
        backend::encode_ready(&mut out, Status::Idle);
        words = Words::new(&[]);
    } else if words.eat("says") {
        return speak::run(world, socket, words, messages::encode);
    } else {
        return server::run(world, name, words);
    }
    world.transmit(socket, &out);
    words.end()
}

/// The answer to what is sent once.
pub(crate) fn prepared(out: &mut Vec<u8>) {
    backend::encode_parse_complete(out);
    backend::encode_ready(out, Status::Idle);
}

/// The answer to a lookup, and to the question for the time behind it.
fn answer(rows: &[Vec<Option<&[u8]>>], columns: usize, out: &mut Vec<u8>) {
    let column = Column { name: "c", type_oid: oid::TEXT, type_len: -1 };
    backend::encode_parse_complete(out);
    backend::encode_bind_complete(out);
    backend::encode_row_description(out, &vec![column; columns]);
    rows.iter().for_each(|row| backend::encode_data_row(out, row.iter().copied()));
    backend::encode_command_complete(out, "SELECT 1");
    backend::encode_bind_complete(out);
    backend::encode_data_row(out, [Some(NOW)]);
    backend::encode_command_complete(out, "SELECT 1");
    backend::encode_ready(out, Status::Idle);
}
