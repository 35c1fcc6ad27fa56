//! What may happen in a transcript: one line, one verb.

pub(crate) mod client;
pub(crate) mod server;
mod speak;
mod surroundings;

use pooling::Hangup;

use super::words::{self, Words};
use super::world::World;

pub(crate) fn run(world: &mut World, line: &str) -> Result<(), String> {
    let split = words::split(line)?;
    let mut words = Words::new(&split);
    if words.eat("client") {
        let name = words.bare("the client's name")?;
        let name = name.strip_suffix(':').ok_or("a colon follows the client's name")?;
        return client::run(world, name, words);
    }
    if words.eat("clients") {
        return clients(world, words);
    }
    if words.eat("server") {
        let name = words.bare("the server's number")?;
        let name = name.strip_suffix(':').ok_or("a colon follows the server's number")?;
        return server::run(world, name, words);
    }
    if words.eat("cancel") {
        let carried = words.rest().first().is_some_and(|word| word.text.ends_with(b":"));
        if !carried {
            return client::cancel(world, words);
        }
        let number = words.bare("the number")?.trim_end_matches(':');
        return server::run(world, &format!("cancel {number}"), words);
    }
    surroundings::run(world, words)
}

/// `clients a b c: connect`
fn clients(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let mut names = Vec::new();
    loop {
        let name = words.bare("a client's name")?;
        names.push(name.trim_end_matches(':'));
        if name.ends_with(':') {
            break;
        }
    }
    names.into_iter().try_for_each(|name| client::run(world, name, words.clone()))
}

fn hang_up(world: &mut World, socket: usize, why: Hangup) -> Result<(), String> {
    if world.sockets[socket].closed {
        return Err(format!("{} is closed", world.sockets[socket].name));
    }
    client::hangup(world, socket, why);
    Ok(())
}
