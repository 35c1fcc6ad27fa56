//! From the birth of the process to the first answered query.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Connection, Place, Trusted, frontend};
use measure::program;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::UpkeepPlan;
use crate::contestant::{Contestant, Premises};
use crate::fake::Answer;
use crate::setup::{self, Upstream};
use crate::style::USER;
use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    setup::write_users(place)?;
    let stop = AtomicBool::new(false);
    let (told, hears) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let fake = scope.spawn(|| {
            let mut world = World::open(&place.folder)?;
            let _ = told.send(world.port);
            while !stop.load(Ordering::Relaxed) {
                world.run_for(Duration::from_millis(50))?;
            }
            Ok::<(), String>(())
        });
        let port = hears.recv_timeout(PATIENCE).map_err(|_| "the fake PostgreSQL does not come up".to_owned());
        // The first one finds the program's pages not read yet.
        let starts = port.and_then(|port| {
            one(place, pgweir, port)?;
            (0..plan.rounds).map(|_| one(place, pgweir, port)).collect::<Result<Vec<_>, _>>()
        });
        stop.store(true, Ordering::Relaxed);
        fake.join().map_err(|_| "the fake PostgreSQL has panicked".to_owned())??;
        starts.map(|starts| json!(starts))
    })
}

/// Starts it once, and ends it.
fn one(place: &Premises, pgweir: &Contestant, upstream: u16) -> Result<Value, String> {
    let port = demo::free_port();
    let upstream = Upstream { host: "127.0.0.1".to_owned(), port: upstream };
    let file = place.write("start.ini", &setup::ini(place, &super::watched::PLAIN, pgweir, &upstream, port))?;
    let program = pgweir.program.as_deref().ok_or("the direct connection is not started")?;
    let program = place.copy(&pgweir.name, program)?;
    let mut command = place.command(Path::new(&program), "start.log")?;
    let began = Instant::now();
    let mut child = command.arg(&file).spawn().map_err(|error| format!("cannot start pgweir: {error}"))?;
    let answered = first_answer(port, began);
    program::end(&mut child, Signal::INT, PATIENCE);
    let (listens, answers) = answered?;
    Ok(json!({ "listens_ns": listens.as_nanos() as u64, "answers_ns": answers.as_nanos() as u64 }))
}

/// How long until somebody listens, and until a query is answered.
fn first_answer(port: u16, began: Instant) -> Result<(Duration, Duration), String> {
    let address = (Ipv4Addr::LOCALHOST, port);
    while TcpStream::connect(address).is_err() {
        if began.elapsed() > PATIENCE {
            return Err("nobody listens".to_owned());
        }
        thread::sleep(Duration::from_micros(100));
    }
    let listens = began.elapsed();
    let mut client = Connection::open(Place::Tcp(address.into()), PATIENCE).map_err(|error| error.to_string())?;
    let startup = frontend::startup(&[("user", USER), ("database", "bench")]);
    client.log_in(&startup, &mut Trusted).map_err(|gone| gone.to_string())?;
    let answer = client.query(Answer::Small.sql()).map_err(|gone| gone.to_string())?;
    if answer.rows.is_empty() {
        return Err(format!("not answered: {answer:?}"));
    }
    Ok((listens, began.elapsed()))
}
