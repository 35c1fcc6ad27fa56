//! User-space instructions per transaction, counted by callgrind: a figure without noise.
//!
//! Promises: a fixed number of transactions; the difference between a long run and a short one, so that starting,
//! logging in and ending do not count. Does not: see the kernel, which is most of the CPU time.

use std::fmt::Write;
use std::time::Duration;

use measure::statistics::Range;
use serde_json::{Map, Value, json};

use crate::callgrind::{self, Profile};
use crate::contestant::{Contestant, Premises};
use crate::scenario::{CLASSIC, SCENARIOS, Scenario};
use crate::setup::{self, Placement};
use crate::style::Style;
use crate::world::{Mode, World};

/// Transactions of the short and the long run.
const FEW: u64 = 1_000;
const MANY: u64 = 6_000;

/// A load under which instructions are counted.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    /// The scenario whose style and settings it takes.
    scenario: &'static str,
    clients: usize,
    /// Texts with tags; and with ten classes, of whose rules the last one fits, by a tag.
    tagged: bool,
    classes: bool,
    /// Three hosts, of which one is the primary.
    hosts: bool,
}

const fn case(name: &'static str, about: &'static str, scenario: &'static str, clients: usize) -> Case {
    Case { name, about, scenario, clients, tagged: false, classes: false, hosts: false }
}

const fn tagged(case: Case, classes: bool) -> Case {
    Case { tagged: true, classes, ..case }
}

const fn hosts(case: Case) -> Case {
    Case { hosts: true, ..case }
}

/// With one client nothing waits; with more clients than servers, every transaction has been in the queue.
pub const CASES: [Case; 10] = [
    case("simple", "1 client, simple", "tcp-1", 1),
    case("unique", "1 client, simple, each text another", "transparent", 1),
    case("prepared", "1 client, prepared", "prepared-64", 1),
    case("simple-64", "64 clients on 20 servers, simple", "tcp-64", 64),
    tagged(case("tagged", "1 client, a text with tags", "tcp-1", 1), false),
    tagged(case("classes", "the same with ten classes", "tcp-1", 1), true),
    tagged(case("tagged-64", "64 clients on 20 servers, a text with tags", "tcp-64", 64), false),
    tagged(case("classes-64", "the same with ten classes", "tcp-64", 64), true),
    hosts(case("hosts", "1 client, simple, three hosts", "tcp-1", 1)),
    hosts(case("hosts-64", "64 clients on 20 servers, simple, three hosts", "tcp-64", 64)),
];

/// The cases in which there is no session state to look after, with the least else to do.
pub const FIDELITY: [&str; 2] = ["simple", "unique"];

/// Instructions of so many transactions.
#[derive(Clone, Debug)]
pub struct Count {
    pub profile: Profile,
    pub transactions: u64,
}

impl Count {
    /// As much of so many instructions as one transaction has.
    pub fn each(&self, instructions: u64) -> f64 {
        instructions as f64 / self.transactions as f64
    }
}

/// What looking after session state costs: pgweir as it is and as [`CLASSIC`], one client, by case.
pub fn fidelity(place: &Premises, pgweir: &Contestant, placement: &Placement) -> Result<Map<String, Value>, String> {
    let contestants = [pgweir.variant(&pgweir.name, &[("pool_fidelity", "transparent")]), setup::classic(pgweir)];
    let mut result = Map::new();
    for case in CASES.iter().filter(|case| FIDELITY.contains(&case.name)) {
        let counted = run(place, case, &contestants, placement)?;
        let of = |name: &str| counted[name]["instructions_per_transaction"].as_f64().unwrap_or(f64::NAN);
        let (transparent, classic) = (of(&pgweir.name), of(CLASSIC));
        let more = transparent - classic;
        eprintln!("  {:<36} classic {classic:>6.0}  transparent {transparent:>6.0}  {more:>+6.0}", case.about);
        result.insert(case.name.to_owned(), Value::Object(counted));
    }
    Ok(result)
}

/// Counts for every contestant, for a record. Errors: no valgrind, or a contestant that does not run under it.
pub fn run(
    place: &Premises,
    case: &Case,
    contestants: &[Contestant],
    placement: &Placement,
) -> Result<Map<String, Value>, String> {
    let mut result = Map::new();
    // PgBouncer has neither classes nor roles.
    let is_plain = !case.classes && !case.hosts;
    let has = |one: &&Contestant| one.program.is_some() && (is_plain || one.name.starts_with("pgweir"));
    for contestant in contestants.iter().filter(has) {
        let count = count(place, case, contestant, placement)?;
        let sample = json!({
            "clients": case.clients,
            "instructions": count.profile.total,
            "transactions": count.transactions,
            "instructions_per_transaction": count.each(count.profile.total),
        });
        result.insert(contestant.name.clone(), sample);
    }
    Ok(result)
}

/// What a long run has more than a short one.
pub fn count(place: &Premises, case: &Case, contestant: &Contestant, placement: &Placement) -> Result<Count, String> {
    let (few, few_done) = whole(place, case, contestant, placement, FEW)?;
    let (many, many_done) = whole(place, case, contestant, placement, MANY)?;
    Ok(Count { profile: many.since(&few), transactions: many_done - few_done })
}

/// Instructions of a whole run with at least so many transactions in it, and how many there were exactly.
fn whole(
    place: &Premises,
    case: &Case,
    contestant: &Contestant,
    placement: &Placement,
    transactions: u64,
) -> Result<(Profile, u64), String> {
    let room = place.room(&format!("{}-{}-{transactions}-under-callgrind", case.name, contestant.name))?;
    setup::write_users(&room)?;
    let mut scenario: Scenario = *SCENARIOS.iter().find(|one| one.name == case.scenario).expect("in the table");
    if case.tagged {
        scenario.style = Style::Tagged;
    }
    let mut contestant = Contestant { classes: case.classes, hosts: case.hosts, ..contestant.clone() };
    if case.hosts {
        // Each host is asked once: under callgrind a second has some dozen times fewer transactions, which would pay for all its probes.
        contestant = contestant.variant(&contestant.name, &[("host_check_interval", "3600")]);
    }
    let mut world = World::open(&room.folder)?;
    let file = room.folder.join("callgrind.out");
    let mut wrapper = vec!["valgrind".to_owned(), format!("--callgrind-out-file={}", file.display())];
    wrapper.extend(callgrind::OPTIONS.map(str::to_owned));
    let mut side = setup::start(&room, &scenario, &contestant, &mut world, &wrapper, &placement.contestant)?;
    let drive = |world: &mut World| {
        world.connect(side.fleet, case.clients)?;
        world.start(side.fleet, Mode::Closed)?;
        while world.done(side.fleet) + (case.clients as u64) < transactions {
            world.run_for(Duration::from_millis(1))?;
        }
        world.settle(side.fleet)?;
        world.disconnect(side.fleet)
    };
    drive(&mut world).map_err(|error| side.blame(&error))?;
    let done = world.done(side.fleet);
    if let Some(running) = &mut side.running {
        running.stop();
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("callgrind wrote nothing: {error}"))?;
    Ok((callgrind::read(&text)?, done))
}

/// Lines of each list.
const LISTED: usize = 40;

/// The costliest functions, source files and source lines of a count, per transaction.
pub fn list(count: &Count) -> String {
    let mut out = String::new();
    let files = count.profile.files();
    let Profile { functions, lines, .. } = &count.profile;
    for (what, costs) in [("functions", functions), ("source files", &files), ("source lines", lines)] {
        writeln!(out, "  {what}, self cost").expect("a String takes everything");
        for (name, cost) in callgrind::top(costs, LISTED) {
            let share = 100.0 * cost as f64 / count.profile.total as f64;
            writeln!(out, "  {:>9.1} {share:>5.1} %  {name}", count.each(cost)).expect("a String takes everything");
        }
    }
    out
}

/// One line: how many instructions a transaction takes, in the middle of all rounds, and their range.
pub fn line(case: &Case, name: &str, counts: &[f64]) -> String {
    let words = match Range::of(counts.to_vec()) {
        None => "–".to_owned(),
        Some(Range { median, .. }) if counts.len() == 1 => format!("{median:>8.0}"),
        Some(Range { median, low, high }) => format!("{median:>8.0} ({low:.0} to {high:.0})"),
    };
    format!("{:<46} {name:<16} {words}", case.about)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_case_names_a_scenario() {
        for case in &CASES {
            assert!(SCENARIOS.iter().any(|one| one.name == case.scenario), "{}", case.scenario);
            assert!((case.clients as u64) < FEW, "the short run is long enough for every client");
        }
        assert!(FIDELITY.iter().all(|name| CASES.iter().any(|case| case.name == *name)));
    }

    #[test]
    fn a_list_is_per_transaction() {
        let functions = HashMap::from([("a::b".to_owned(), 300), ("c".to_owned(), 100)]);
        let lines = HashMap::from([("a.rs:7".to_owned(), 400)]);
        let count = Count { profile: Profile { total: 400, functions, lines }, transactions: 10 };
        let list = list(&count);
        assert!(list.contains("30.0  75.0 %  a::b\n       10.0  25.0 %  c\n"), "{list}");
        assert!(list.contains("40.0 100.0 %  a.rs:7"), "{list}");
        assert!(list.contains("40.0 100.0 %  a.rs\n"), "{list}");
        let line = |counts: &[f64]| line(&CASES[0], "pgweir", counts);
        assert!(line(&[40.0]).ends_with("pgweir                 40"));
        assert!(line(&[50.0, 40.0, 41.0]).ends_with("pgweir                 41 (40 to 50)"));
    }
}
