//! The program: command line and wiring.
//!
//! ```text
//!   cli ─┬─ FILE.ini ─┐
//!        ├─ run URL… ─┴─► serve: config ─► engine (data plane) + control::Steward (this thread)
//!        ├─ dev, bench ─► pgweir-bench, the program beside this one, takes its place
//!        ├─ auth-setup URL, observe-setup URL ─► SQL for auth_query, for the observer
//!        ├─ check FILE, import FILE ─► config, in words
//!        ├─ health ─────► a running pgweir, by HTTP
//!        ├─ doctor ─────► a running pgweir, its PostgreSQL, the machine ─► findings
//!        ├─ profile ────► stacks: a flame graph of a running pgweir, or of backends
//!        ├─ top [URL] ──► a running pgweir's console ─► a terminal
//!        └─ report ─────► the history of a console or a file, as a page
//! ```
//!
//! No logic of its own beyond what a process is: who it runs as, where its complaints go, what its exit status says.

mod announce;
mod auth_setup;
mod beside;
mod check;
mod cli;
mod complain;
mod daemon;
mod doctor;
mod environment;
mod files;
mod health;
mod hints;
mod http;
mod identity;
mod keyring;
mod keytab;
mod live;
mod looked_into;
mod memory;
mod observe_setup;
mod observer;
mod passed;
mod place;
mod plane;
mod probing;
mod profile;
mod reachable;
mod report;
mod run;
mod serve;
mod settings;
mod startable;
mod supervisor;
mod top;
mod traces;
mod upgrade;
mod upstream;
mod watched;

use std::process::ExitCode;

use cli::{Invocation, Misuse};

fn main() -> ExitCode {
    // Before any file with secrets is read.
    programs::core_files::forbid();
    let mut arguments = std::env::args_os();
    let program = arguments.next().map_or_else(|| "pgweir".to_owned(), |name| name.to_string_lossy().into_owned());
    match cli::parse(arguments) {
        Ok(Invocation::Help(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Invocation::Version) => {
            println!("{}\npgweir {}\n{}", control::version::text(), control::version::PGWEIR, settings::features());
            ExitCode::SUCCESS
        }
        Ok(Invocation::Serve { file, flags }) => match cli::meant(&file).filter(|_| !file.exists()) {
            Some(misuse) => misused(&program, &misuse),
            None => serve::serve_file(&file, &flags),
        },
        Ok(Invocation::Run { urls, listen, pool_size, flags }) => run::run(urls, listen, pool_size, &flags),
        Ok(Invocation::Health { address, only_live }) => health::health(address.as_deref(), only_live),
        Ok(Invocation::Doctor(examination)) => doctor::doctor(&examination),
        Ok(Invocation::Top(watching)) => top::top(&watching),
        Ok(Invocation::Beside(errand)) => beside::hand_over(errand),
        Ok(Invocation::AuthSetup { url, role, apply }) => auth_setup::auth_setup(&url, &role, apply),
        Ok(Invocation::ObserveSetup { url, role, apply }) => observe_setup::observe_setup(&url, &role, apply),
        Ok(Invocation::Check { file }) => check::check(&file, settings::cores()),
        Ok(Invocation::Report(wanted)) => report::report(&wanted),
        Ok(Invocation::Import { file }) => check::import(&file, settings::cores()),
        Ok(Invocation::Profile { looked, look }) => profile::profile(&looked, &look),
        Err(misuse) => misused(&program, &misuse),
    }
}

fn misused(program: &str, misuse: &Misuse) -> ExitCode {
    let text = complain::without_passwords(&misuse.text);
    eprintln!("{program}: {text}\nTry \"{}\" for more information.", misuse.help(program));
    ExitCode::FAILURE
}
