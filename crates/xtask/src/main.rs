//! House rules and generated files, checked by a program: `cargo run -p xtask -- COMMAND`.
//!
//! `tidy` reads every file that git would commit, and prints how sizes are distributed and what breaks a rule of STYLE.md, one line a finding. `cite`
//! collects the places where the code says which manual it obeys, and writes docs/protocol-coverage.md.
//!
//! Needs nothing but std and git. Deliberately no parser of Rust: tokens and braces are enough for rules that a person
//! can also check by eye, and what they get wrong is excused with a comment (`// tidy: why`).

mod cite;
mod coverage;
mod finding;
mod knots;
mod lexer;
mod manifest;
mod numbers;
mod ratchet;
mod rules;
mod shape;
mod source;
mod spread;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tree::Tree;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND
  tidy             how large files, functions, types and commits are, and what breaks the house rules; exit status 1 if anything does
  tidy --numbers   how deep functions nest, how dense the assertions: a mirror, not a fence
  tidy --shrink    writes the ratchet down to today's sizes; never up
  cite             which sections of the manuals the code cites; UPDATE=1 writes docs/protocol-coverage.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy(&root()),
        ["tidy", "--numbers"] => Tree::read(&root()).map(|tree| say(&numbers::print(&tree))),
        ["tidy", "--shrink"] => shrink(&root()),
        ["cite"] => cite(&root()),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(code) => code,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// The repository that cargo runs this program in; without cargo, the one it was built in.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).join("../..")
}

fn say(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

fn tidy(root: &Path) -> Result<ExitCode, String> {
    let tree = Tree::read(root)?;
    print!("{}", spread::print(&tree.sources(), &spread::commits(root)));
    let findings = rules::all(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files keep the house rules", tree.paths().count());
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "tidy: {} findings. Rule zero: break any rule with a comment that says why (`// tidy: …`)",
        findings.len()
    );
    Ok(ExitCode::FAILURE)
}

fn shrink(root: &Path) -> Result<ExitCode, String> {
    let tree = Tree::read(root)?;
    let path = root.join(ratchet::PATH);
    std::fs::write(&path, ratchet::shrunk(&tree)).map_err(|error| format!("{}: {error}", ratchet::PATH))?;
    Ok(ExitCode::SUCCESS)
}

fn cite(root: &Path) -> Result<ExitCode, String> {
    let tree = Tree::read(root)?;
    print!("{}", cite::list(&cite::citations(&tree)));
    if std::env::var_os("UPDATE").is_some() {
        let path = root.join(coverage::PATH);
        std::fs::write(&path, coverage::page(&tree)).map_err(|error| format!("{}: {error}", coverage::PATH))?;
    }
    Ok(ExitCode::SUCCESS)
}
