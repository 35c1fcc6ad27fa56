//! `client a: …`

use std::net::SocketAddr;

use auth::scram::{MECHANISM, MECHANISM_PLUS};
use auth::{ClientBinding, ClientExchange, Keys, Md5Hash};
use machine::{Event, Hangup, Peer};
use wire::backend::Authentication;
use wire::frontend;
use wire::frontend::{Password, SaslInitial, SaslResponse};

use super::speak;
use crate::runner::frontend as messages;
use crate::runner::socket::{Binds, Proof, Role};
use crate::runner::words::Words;
use crate::runner::world::World;

/// Where clients come to.
const OURS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6432);

pub(crate) fn run(world: &mut World, name: &str, mut words: Words<'_>) -> Result<(), String> {
    if words.eat("connects") || words.eat("connect") {
        return connect(world, name, words);
    }
    if words.eat("arrives") {
        let peer = peer(world, &mut words)?;
        arrive(world, name, peer)?;
        return words.end();
    }
    let socket = world.socket(name)?;
    if words.eat("proves") {
        let proof = &mut world.sockets[socket].proof;
        proof.password = words.string("the password")?;
        let ways = [
            ("unbound", Binds::Never),
            ("unaware of the offer", Binds::UnawareOfOffer),
            ("to another certificate", Binds::ToAnother),
        ];
        proof.binds = ways.into_iter().find(|(name, _)| words.eat(name)).map(|(_, binds)| binds).unwrap_or_default();
        prove(world, socket);
        return words.end();
    }
    if words.eat("goes on proving") {
        prove(world, socket);
        return words.end();
    }
    if super::end_handshake(world, socket, &mut words)? {
        return words.end();
    }
    if words.eat("hangup") || words.eat("breaks") {
        return super::hang_up(world, socket, Hangup::Closed);
    }
    let asks = words.rest().iter().filter(|word| word.text == b"SSLRequest" || word.text == b"GSSENCRequest").count();
    world.sockets[socket].letters += asks;
    speak::run(world, socket, words, messages::encode)
}

fn peer(world: &World, words: &mut Words<'_>) -> Result<Peer, String> {
    if words.eat("from unix") {
        let uid = words.number("the uid")?;
        return Ok(Peer::Unix { pid: 77, uid });
    }
    if words.eat("from") {
        let from: SocketAddr = words.number("the address")?;
        return Ok(Peer::Tcp { from, to: OURS });
    }
    let port = 50_000 + world.sockets.len() as u16;
    Ok(Peer::Tcp { from: SocketAddr::from(([127, 0, 0, 1], port)), to: OURS })
}

fn arrive(world: &mut World, name: &str, peer: Peer) -> Result<usize, String> {
    let conn = world.door.accept(world.now, peer).ok_or("the door is full")?;
    Ok(world.add(name.to_owned(), Role::Client, conn))
}

/// `connects as u to db with application_name=psql from 10.0.0.7:4711 proving "secret"`
fn connect(world: &mut World, name: &str, mut words: Words<'_>) -> Result<(), String> {
    let user = if words.eat("as") { words.string("the user")? } else { "u".to_owned() };
    let database = if words.eat("to") { words.string("the database")? } else { "db".to_owned() };
    let mut pairs = vec![(b"user".to_vec(), user.clone().into_bytes()), (b"database".to_vec(), database.into_bytes())];
    if words.eat("with") {
        while let Some(at) = words.rest().first().and_then(|word| word.text.iter().position(|byte| *byte == b'=')) {
            let word = words.any().expect("it was looked at");
            pairs.push((word.text[..at].to_vec(), word.text[at + 1..].to_vec()));
        }
    }
    let peer = peer(world, &mut words)?;
    let socket = arrive(world, name, peer)?;
    world.sockets[socket].proof.user = user;
    let minor = if words.eat("by 3.2") { 2 } else { 0 };
    let mut bytes = Vec::new();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    frontend::encode_startup_version(&mut bytes, minor, pairs);
    world.transmit(socket, &bytes);
    if words.eat("proving") {
        world.sockets[socket].proof.password = words.string("the password")?;
        prove(world, socket);
    }
    words.end()
}

/// Answers whatever the pooler asks for, until it asks no more.
fn prove(world: &mut World, socket: usize) {
    while let Some(body) = world.sockets[socket].asked.take() {
        let answer = answer(&body, &mut world.sockets[socket].proof);
        let Some(answer) = answer else { return };
        world.transmit(socket, &answer);
    }
}

fn answer(body: &[u8], proof: &mut Proof) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match Authentication::decode(body).expect("the pooler's own message") {
        Authentication::CleartextPassword => Password { password: proof.password.as_bytes() }.encode(&mut out),
        Authentication::Md5Password { salt } => {
            let hash = Md5Hash::of(&proof.password, &proof.user);
            let text = auth::md5::response(&hash, salt);
            Password { password: text.as_bytes() }.encode(&mut out);
        }
        Authentication::Sasl { mechanisms } => {
            let (mechanism, binding) = match proof.binds {
                Binds::Offered if mechanisms.offers(MECHANISM_PLUS.as_bytes()) => {
                    (MECHANISM_PLUS, ClientBinding::Chosen(&super::CERTIFICATE_HASH))
                }
                Binds::ToAnother => (MECHANISM_PLUS, ClientBinding::Chosen(&super::OTHER_HASH)),
                Binds::UnawareOfOffer => (MECHANISM, ClientBinding::NotOffered),
                Binds::Offered | Binds::Never => (MECHANISM, ClientBinding::Unused),
            };
            let (exchange, first) = ClientExchange::start_in(binding, &[7; auth::scram::NONCE_LEN]);
            proof.exchange = Some(exchange);
            SaslInitial { mechanism: mechanism.as_bytes(), response: Some(&first) }.encode(&mut out);
        }
        Authentication::SaslContinue(line) => {
            let exchange = proof.exchange.as_mut()?;
            let challenge = exchange.challenge(line).expect("the pooler's own challenge");
            let keys = Keys::derive(&proof.password, &challenge.salt, challenge.iterations);
            let last = exchange.respond(&keys).expect("it follows the challenge");
            SaslResponse { response: &last }.encode(&mut out);
        }
        Authentication::SaslFinal(line) => {
            proof.exchange.as_ref()?.verify(line).expect("the pooler knows the password too");
            return None;
        }
        Authentication::Ok | Authentication::Gss | Authentication::GssContinue(_) | Authentication::Other(_) => {
            return None;
        }
    }
    Some(out)
}

/// `cancel a`, `cancel a with a wrong secret`: a connection of its own, as PQcancel makes it.
pub(crate) fn cancel(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let (pid, mut secret) = key(world, &mut words)?;
    if words.eat("with a wrong secret") {
        // The lowest bits of a short one may count.
        *secret.last_mut().expect("a secret has four bytes at least") ^= 4;
    } else if words.eat("with half the secret") {
        secret.truncate(secret.len() / 2);
    } else if words.eat("with a longer secret") {
        secret.push(0);
    }
    let number = world.sockets.iter().filter(|socket| socket.name.starts_with("canceller")).count() + 1;
    let socket = arrive(world, &format!("canceller {number}"), peer(world, &mut words)?)?;
    let mut bytes = Vec::new();
    frontend::CancelRequest { pid, secret: &secret }.encode(&mut bytes);
    world.transmit(socket, &bytes);
    words.end()
}

/// Of a client here, or of one of another process.
fn key(world: &World, words: &mut Words<'_>) -> Result<(i32, Vec<u8>), String> {
    let (pid, mut secret) = if words.eat("of peer") {
        let [low, high] = words.number::<u16>("the peer's number")?.to_le_bytes();
        (i32::from_be_bytes([0x21, low, high, 7]), vec![1, 2, 3, 0xff])
    } else {
        let owner = world.socket(words.bare("whose query")?)?;
        world.sockets[owner].key.clone().ok_or("it has no cancel key")?
    };
    if words.eat("passed on") {
        secret[3] -= words.number::<u8>("how often")?;
        words.eat("times");
    }
    Ok((pid, secret))
}

/// The far end is gone.
pub(crate) fn hangup(world: &mut World, socket: usize, why: Hangup) {
    let Some(conn) = world.sockets[socket].id else { return };
    world.step(World::place(conn), Event::Hangup { conn, why });
    world.run_until_idle();
}
