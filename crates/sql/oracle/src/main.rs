//! Holds what `sql` says of statements against PostgreSQL's own parser, as libpg_query has it.
//!
//! `sql-oracle [--seconds N] [--seed N] PATH…` reads SQL scripts (files, or folders of them), then changes their
//! statements at random for N seconds. Whatever the parser takes, `sql` must have divided and classified the same way,
//! or must have called unknown. Statements that the parser refuses are refused by a server too: nothing is asked of them.
//!
//! Ends with a line like those of cargo's tests, and with exit status 1 if anything differed.

mod changes;
mod expected;
mod scripts;
mod verdict;

use sql::{Key, Memo};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Of the scripts' statements, so many of a thousand may be unknown to `sql`.
const UNKNOWN_PER_MILLE_MAX: usize = 5;
/// Differences printed in full.
const SHOWN_MAX: usize = 20;

struct Tally {
    /// Of all texts: one that means another's must not be taken for it.
    memo: Memo,
    same: usize,
    unknown: usize,
    differ: usize,
}

impl Tally {
    fn new() -> Tally {
        Tally { memo: Memo::new(Key::from_seed(1), 64 << 20), same: 0, unknown: 0, differ: 0 }
    }

    fn add(&mut self, text: &str) {
        match verdict::of(text).and_then(|same| verdict::remembered(text, &mut self.memo).map(|()| same)) {
            Ok(verdict::Same::Known) => self.same += 1,
            Ok(verdict::Same::Unknown(why)) => {
                self.unknown += 1;
                if std::env::var_os("SHOW_UNKNOWN").is_some() {
                    println!("unknown: {why}\n    {}", text.trim().replace('\n', "\n    "));
                }
            }
            Ok(verdict::Same::Refused) => {}
            Err(difference) => {
                self.differ += 1;
                if self.differ <= SHOWN_MAX {
                    println!("{difference}\n    {}\n", text.trim().replace('\n', "\n    "));
                }
            }
        }
    }

    fn print(&self, what: &str) {
        println!("{what}: {} the same, {} unknown, {} differ", self.same, self.unknown, self.differ);
    }
}

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut paths) = (0, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|it| it.parse().ok()).expect("a number follows");
        match argument.as_str() {
            "--seconds" => seconds = number(),
            "--seed" => seed = number(),
            path => paths.push(PathBuf::from(path)),
        }
    }
    let texts = scripts::texts(&paths);
    let mut tally = Tally::new();
    texts.iter().for_each(|text| tally.add(text));
    tally.print("scripts");
    let is_known = tally.same > 0 && tally.unknown * 1000 <= UNKNOWN_PER_MILLE_MAX * tally.same;
    let mut changed = Tally::new();
    if !texts.is_empty() {
        let mut changes = changes::Changes::new(seed, &texts);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            changed.add(&changes.next());
        }
        changed.print("changed at random");
    }
    let failed = tally.differ + changed.differ + usize::from(!is_known);
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {} passed; {failed} failed; 0 ignored", tally.same + changed.same);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
