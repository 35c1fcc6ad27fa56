//! What may happen in a transcript: one line, one verb.
//!
//! ```text
//! client a: connects [as u] [to db] [with k=v …] [from 10.0.0.7:4711 | from unix UID] [by 3.2] [proving "password"]
//! client a: arrives                          connects and says nothing yet
//! client a: proves "password"                answers what it was asked, as often as it is asked; about SCRAM's channel
//!                                            binding also `unbound`, `unaware of the offer`, `to another certificate`
//! client a: Query "select 1" | Sync          messages, all in one go; `3 times Sync`; `bytes 51 00`; `x*5` for "xxxxx"
//! client a: sends 3 bytes of MESSAGE         then `sends 4 bytes more`, `sends the rest`
//! client a: takes no more                    its socket is full; `takes 10 bytes`, `takes all`
//! client a: hangup
//! client a: is encrypted [as CN]             the end of a TLS handshake; `is encrypted without a hash` to bind SCRAM to;
//!                                            `cannot be encrypted "why"`; of servers too
//! clients a b c: …                           the same for each
//! cancel a [with a wrong secret]             a CancelRequest with a's key; also `with half the secret`, `with a longer
//!                                            secret`
//! server 1: …                                as a client; also `connects [to 10.0.0.1:5432]`, `connect fails "why"`, `logs in [k=v …]`,
//!                                            `checks SCRAM of "password"`, `checks SCRAM-PLUS of "password" [with
//!                                            another certificate]`
//! cancel of peer 2                           the same with a key of that process's client; also `passed on 1 times`
//! cancel 1: connects | connect fails | closes            peer 1: the same, of a connection to another process
//! lookup 1: …                                as a server; also `prepares`, `answers "name" "secret" ["until"]`,
//!                                            `answers nobody`, `refuses ERROR 42P01 "why"`
//! after 10s                                  every deadline on the way is reached
//! reload pool|database|user|secret|peer …    stop wait_for_clients|wait_for_servers|wait_for_transactions|immediate
//! upgrade [showing all]                      another process takes over, and is played from now on
//! upgrade begins                             what can move leaves; then `upgrade is late`: upgrade_timeout is over; `upgrade fails`: the
//!                                            other process dies, and with it what has moved there
//! order pause|resume|disable|enable|reconnect|kill [db]      order kill client a      order suspend [overdue]
//! name db.example moves to 10.0.0.2 10.0.0.3
//! host 127.0.0.1:5433 is primary|standby [timeline 2] [system 7] [started 3]       the prober's answer; also `is silent`, `fails`, `answers`
//! authority answers yes|no|unreachable|busy|name NAME      to the oldest question about who a client is
//! control answers [and closes] a: MESSAGES   pools     totals     connections     fingerprints     events     doing     queries
//! panic in worker 1
//! mailbox of worker 1 is full|has room       mail waits|goes on     board is late|is read     hashing waits|goes on
//! servers wait|log in                        show startup     show mail     show log     show probes
//! ```
//!
//! Servers are numbered as they are opened and log in by themselves unless they wait. `weir.1` is the name on servers of the statement that
//! appeared first.

pub(crate) mod client;
pub(crate) mod lookup;
mod observed;
pub(crate) mod server;
mod speak;
mod surroundings;

use machine::{CertificateNames, Event, Hangup, Secured};

use super::words;
use super::words::Words;
use super::world::World;

/// Of the certificate that both ends of a connection have seen.
pub(crate) const CERTIFICATE_HASH: [u8; 32] = [5; 32];

/// Of the certificate of somebody between them.
pub(crate) const OTHER_HASH: [u8; 32] = [6; 32];

pub(crate) fn run(world: &mut World, line: &str) -> Result<(), String> {
    let split = words::split(&world.report.with_server_names(line))?;
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
    if words.eat("peer") {
        let number = words.bare("the number")?.trim_end_matches(':');
        return server::run(world, &format!("peer {number}"), words);
    }
    if words.eat("lookup") {
        let number = words.bare("the number")?.trim_end_matches(':');
        return lookup::run(world, &format!("lookup {number}"), words);
    }
    if words.eat("authority answers") {
        return surroundings::authority_answers(world, words);
    }
    if words.eat("upgrade") {
        if words.eat("begins") {
            world.begin_upgrade();
        } else if words.eat("is late") {
            world.end_what_stays();
        } else if words.eat("fails") {
            world.fail_upgrade();
        } else {
            let shows = words.eat("showing all");
            world.upgrade(shows)?;
        }
        return words.end();
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

/// `is encrypted [as CN]` and `cannot be encrypted "why"`: the end of a handshake.
fn end_handshake(world: &mut World, socket: usize, words: &mut Words<'_>) -> Result<bool, String> {
    let outcome = if words.eat("cannot be encrypted") {
        Err(words.string("the reason")?)
    } else if words.eat("is encrypted") {
        let named = |name: String| CertificateNames {
            distinguished_name: format!("CN={name}"),
            common_name: Some(name),
            ..CertificateNames::default()
        };
        let certificate = if words.eat("as") { Some(named(words.string("a name")?)) } else { None };
        let has_hash = !words.eat("without a hash");
        let end_point = has_hash.then(|| CERTIFICATE_HASH.as_slice().into());
        let cipher = "TLS_AES_256_GCM_SHA384".to_owned();
        Ok(Box::new(Secured { version: "TLSv1.3", cipher, certificate, end_point, ..Secured::default() }))
    } else {
        return Ok(false);
    };
    let Some(conn) = world.sockets[socket].id else { return Err("it is closed".to_owned()) };
    world.step(World::place(conn), Event::Secured { conn, outcome });
    world.run_until_idle();
    Ok(true)
}

fn hang_up(world: &mut World, socket: usize, why: Hangup) -> Result<(), String> {
    if world.sockets[socket].closed {
        return Err(format!("{} is closed", world.sockets[socket].name));
    }
    client::hangup(world, socket, why);
    Ok(())
}
