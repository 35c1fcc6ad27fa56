//! `cargo run -p demo --example fetch -- CACHE`: prints the directory of PostgreSQL's programs, and installs them into
//! CACHE first if this machine has none. What it does goes to standard error, so that a script can read the answer.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cache = std::env::args().nth(1).unwrap_or_else(|| ".cache".to_owned());
    match demo::find_or_install(Path::new(&cache), &mut |line| eprintln!("{line}")) {
        Ok(binaries) => {
            println!("{}", binaries.dir.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
