//! What both ends of the pooler do with their sockets: send messages, whole or in part, and take what they are sent.

use machine::Event;

use crate::runner::words::Words;
use crate::runner::world::World;

type Encode = fn(Words<'_>) -> Result<Vec<u8>, String>;

pub(crate) fn run(world: &mut World, socket: usize, mut words: Words<'_>, encode: Encode) -> Result<(), String> {
    if words.eat("takes") {
        return take(world, socket, words);
    }
    if world.sockets[socket].closed {
        return Err(format!("{} is closed", world.sockets[socket].name));
    }
    if words.eat("sends the rest") {
        let rest = std::mem::take(&mut world.sockets[socket].rest);
        world.transmit(socket, &rest);
        return words.end();
    }
    if words.eat("sends") {
        let count: usize = words.number("how many bytes")?;
        if words.eat("bytes more") {
            words.end()?;
            return part(world, socket, count, Vec::new());
        }
        if !words.eat("bytes of") {
            return Err("sends N bytes of MESSAGE, sends N bytes more, or sends the rest".to_owned());
        }
        let whole = all(words, encode)?;
        return part(world, socket, count, whole);
    }
    let bytes = all(words, encode)?;
    world.transmit(socket, &bytes);
    Ok(())
}

fn all(words: Words<'_>, encode: Encode) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for mut message in words.messages() {
        // `17000 times Query "x"`
        let times = if message.is_times() { message.number("how often")? } else { 1 };
        message.eat("times");
        bytes.extend(encode(message)?.repeat(times));
    }
    Ok(bytes)
}

fn part(world: &mut World, socket: usize, count: usize, new: Vec<u8>) -> Result<(), String> {
    let mut bytes = std::mem::take(&mut world.sockets[socket].rest);
    bytes.extend(new);
    if count >= bytes.len() {
        return Err(format!("there are only {} bytes", bytes.len()));
    }
    world.sockets[socket].rest = bytes.split_off(count);
    world.transmit(socket, &bytes);
    Ok(())
}

/// `takes no more`, `takes 10 bytes`, `takes all`.
fn take(world: &mut World, socket: usize, mut words: Words<'_>) -> Result<(), String> {
    if words.eat("no more") {
        world.sockets[socket].room = Some(0);
        return words.end();
    }
    let unlimited = words.eat("all");
    let mut count: usize = if unlimited { usize::MAX } else { words.number("how many bytes")? };
    if !unlimited && !words.eat("bytes") {
        return Err("takes N bytes".to_owned());
    }
    // A backlog may grow again while it is drained.
    loop {
        let backlog = world.backlog(socket);
        let taken = backlog.len().min(count);
        if taken == 0 {
            break;
        }
        count -= taken;
        world.receive(socket, &backlog[..taken]);
        let conn = world.sockets[socket].id.ok_or("it is closed")?;
        if unlimited {
            world.sockets[socket].room = None;
        }
        world.step(World::place(conn), Event::Drained { conn, count: taken });
        world.run_until_idle();
    }
    world.sockets[socket].room = (!unlimited).then_some(count);
    words.end()
}
