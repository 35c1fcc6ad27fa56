//! Somebody between a client and its server, who ends the client's TLS: `python/in_between.py`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Authority;
use crate::tools::python_with;

/// Dropping it ends it.
pub struct Between {
    process: Child,
    pub port: u16,
}

impl Between {
    /// Before the server at this port of localhost, with the certificate `FILE.crt`. `strips`: it removes the offer of
    /// SCRAM-SHA-256-PLUS.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(authority: &Authority, file: &str, port: u16, strips: bool) -> Self {
        let [python, script] = python_with("in_between.py");
        let mut command = Command::new(python);
        command.arg(script).args([authority.path(&format!("{file}.crt")), authority.path(&format!("{file}.key"))]);
        command.arg(port.to_string()).args(strips.then_some("strip")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("Python is there");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints its port");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("it has said {line:?} for its port"));
        Self { process, port }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
