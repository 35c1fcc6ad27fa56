//! `pgweir doctor`: reads a pooler, its PostgreSQL and the machine, and says what is wrong with them.
//!
//! ```text
//!   FILE ─ of_file ─┬─▶ settings ────────────────┐
//!                   ├─▶ console ─┐               │
//!   console's URL ──┴────────────┼─ session ─▶ ::doctor::reading ─▶ Facts ─▶ ::doctor::examine ─▶ text, JSON
//!   --postgres URL, or FILE's ───┘               │
//!   /proc ─ machine ─────────────────────────────┘
//! ```
//!
//! Promises: changes nothing, and takes two connections for some seconds; a source that was named and cannot be reached is an error, one that
//! was only tried is noted as unseen. What is wrong, and why, is the crate `doctor`'s to know.

mod kernel;
mod machine;
mod of_file;
mod session;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ::doctor::reading::{self, PREPARATION};
use ::doctor::{Asked, Facts, Machine, Pooler, Postgres, Unseen, Weight};
use ask::Target;
use connections::databases::CONSOLE_DATABASE;

use crate::cli::Examination;
use crate::complain;
use of_file::OfFile;
use session::Session;

/// It could not look.
const BLIND: u8 = 2;

pub(crate) fn doctor(examination: &Examination) -> ExitCode {
    let facts = match facts(examination) {
        Ok(facts) => facts,
        Err(why) => {
            eprintln!("pgweir doctor: {}", complain::without_passwords(&why));
            return ExitCode::from(BLIND);
        }
    };
    let findings = ::doctor::examine(&facts);
    if examination.json {
        println!("{}", ::doctor::json(&facts, &findings));
    } else {
        print!("{}", ::doctor::text(&facts, &findings));
    }
    match findings.iter().any(|finding| finding.weight < Weight::Notice) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// A PostgreSQL that has answered, and the machine, if it runs on this one.
type Reached = (Postgres, Option<Machine>);

fn facts(examination: &Examination) -> Result<Facts, String> {
    let mut unseen = Vec::new();
    let (pooler, servers) = match &examination.pooler {
        None => (None, None),
        Some(url) if url.contains("://") => (Some(console(&console_of(url)?, &mut unseen)?), None),
        Some(file) => {
            let OfFile { pooler, consoles, servers } = of_file::read(Path::new(file))?;
            (Some(running(pooler, &consoles, &mut unseen)), Some(servers))
        }
    };
    let reached = match (&examination.postgres, servers) {
        (Some(url), _) => Some(postgres(&programs::url::target(url)?, &mut unseen)?),
        (None, Some(servers)) => first(servers, &mut unseen),
        (None, None) => {
            let why = "no --postgres URL was given".to_owned();
            unseen.push(Unseen { what: "PostgreSQL".to_owned(), why, mend: None });
            None
        }
    };
    let (postgres, machine) = reached.map_or((None, None), |(postgres, machine)| (Some(postgres), machine));
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let usual = Asked::default();
    let asked = Asked {
        replicas: examination.replicas.unwrap_or(usual.replicas),
        cores: examination.cores,
        client_timeout: examination.client_timeout.map(seconds),
        long: examination.long.map_or(usual.long, seconds),
    };
    Ok(Facts { asked, pooler, postgres, machine, unseen })
}

/// The console of a URL, whatever database is named there.
pub(crate) fn console_of(url: &str) -> Result<Target, String> {
    // `run` takes no URL of a console's for a database to serve, unless it has another name.
    let target = programs::url::target(&format!("console={url}"))?;
    Ok(Target { database: CONSOLE_DATABASE.to_owned(), ..target })
}

fn console(target: &Target, unseen: &mut Vec<Unseen>) -> Result<Pooler, String> {
    let place = place(target);
    let refused = |why: String| format!("the pooler's console at {place}: {why}");
    let mut session = Session::open(target, &[]).map_err(refused)?;
    reading::pooler(place.clone(), &mut |sql| session.ask(sql), unseen).map_err(refused)
}

/// What runs with a file, if one of its consoles answers; else what the file says.
fn running(of_file: Pooler, consoles: &[Target], unseen: &mut Vec<Unseen>) -> Pooler {
    let mut last = "the file names no user who may use it, and whose password it has".to_owned();
    for target in consoles {
        let mut missed = Vec::new();
        match console(target, &mut missed) {
            Ok(mut pooler) => {
                unseen.extend(missed);
                for database in &mut pooler.databases {
                    let own = of_file.databases.iter().find(|own| own.name == database.name);
                    database.target_session_attrs = own.and_then(|own| own.target_session_attrs.clone());
                }
                return Pooler { secrets: of_file.secrets, ..pooler };
            }
            Err(why) => last = why,
        }
    }
    let mend = "pgweir doctor 'postgres://USER@HOST:PORT/pgbouncer' … # with a user of admin_users or stats_users";
    unseen.push(Unseen { what: "the running pooler".to_owned(), why: last, mend: Some(mend.to_owned()) });
    of_file
}

fn postgres(target: &Target, unseen: &mut Vec<Unseen>) -> Result<Reached, String> {
    let place = place(target);
    let refused = |why: String| format!("PostgreSQL at {place}: {why}");
    let mut session = Session::open(target, &PREPARATION).map_err(refused)?;
    let postgres = reading::postgres(place.clone(), &mut |sql| session.ask(sql), unseen).map_err(refused)?;
    // While the session's backend is there: that it is a process here says that PostgreSQL is.
    let machine = machine::read(&postgres, target, unseen);
    drop(session);
    Ok((postgres, machine))
}

/// The first server that a file leads to and that lets its user in.
fn first(servers: Vec<Target>, unseen: &mut Vec<Unseen>) -> Option<Reached> {
    let mut last = "the file has nobody's password for it".to_owned();
    for target in servers {
        match postgres(&target, unseen) {
            Ok(reached) => return Some(reached),
            Err(why) => last = why,
        }
    }
    let mend = Some("pgweir doctor … --postgres 'postgres://USER@HOST/DATABASE'".to_owned());
    unseen.push(Unseen { what: "PostgreSQL".to_owned(), why: last, mend });
    None
}

fn place(target: &Target) -> String {
    format!("{}:{}", target.host, target.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_no_database_of_the_users() {
        for url in ["postgres://me:x@h:6432/pgbouncer", "postgres://me:x@h:6432/shop"] {
            let found = console_of(url).expect("a URL");
            let Target { host, port, user, database, .. } = found;
            assert_eq!((host.as_str(), port, user.as_str(), database.as_str()), ("h", 6432, "me", "pgbouncer"));
        }
    }

    #[test]
    fn what_was_named_and_cannot_be_reached_is_an_error() {
        // Nobody listens on port 1.
        let named = |pooler: Option<&str>, postgres: Option<&str>| Examination {
            pooler: pooler.map(str::to_owned),
            postgres: postgres.map(str::to_owned),
            ..Examination::default()
        };
        let url = "postgres://me:x@127.0.0.1:1/shop";
        for examination in [named(Some(url), None), named(None, Some(url)), named(Some("/nowhere.ini"), None)] {
            assert!(facts(&examination).is_err(), "{examination:?}");
        }
    }
}
