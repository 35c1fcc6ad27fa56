//! What callgrind wrote: instructions of a whole run, by function and by line.
//!
//! Promises: self cost only, so that all functions, and all lines, add up to the total. An inlined function has no
//! name here: its lines do. Does not: read compressed files ([`OPTIONS`] asks for plain ones).

use std::collections::HashMap;

/// What callgrind is to be started with for its file to be read here.
pub const OPTIONS: [&str; 3] = ["--tool=callgrind", "--compress-pos=no", "--compress-strings=no"];

/// Instructions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub total: u64,
    /// By function, without the hash that the compiler puts behind its name.
    pub functions: HashMap<String, u64>,
    /// By `file:line`, the file's path cut to its last three parts.
    pub lines: HashMap<String, u64>,
}

/// Reads callgrind's file. Errors: it is none, or its parts do not add up to its total.
// Valgrind's manual, callgrind's format: `fn=` names a function; `fl=`, `fi=` and `fe=` a file; a line of cost is a
// position and a number; the line after `calls=` is what a callee cost and no self cost.
pub fn read(text: &str) -> Result<Profile, String> {
    let mut profile = Profile::default();
    let (mut function, mut file, mut callee) = (String::new(), String::new(), false);
    let mut total: Option<u64> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = plain(name);
        } else if let Some(name) = ["fl=", "fi=", "fe="].iter().find_map(|key| line.strip_prefix(key)) {
            file = short(name);
        } else if line.starts_with("calls=") {
            callee = true;
        } else if let Some(rest) = line.strip_prefix("totals:") {
            total = rest.trim().parse().ok();
        } else if let Some((line, cost)) = cost(line)
            && !std::mem::take(&mut callee)
        {
            *profile.functions.entry(function.clone()).or_default() += cost;
            *profile.lines.entry(format!("{file}:{line}")).or_default() += cost;
            profile.total += cost;
        }
    }
    match total {
        Some(total) if total == profile.total => Ok(profile),
        Some(total) => Err(format!("callgrind counts {total} instructions, its parts {}", profile.total)),
        None => Err("callgrind's file has no total".to_owned()),
    }
}

fn cost(line: &str) -> Option<(u64, u64)> {
    let (position, cost) = line.split_once(' ')?;
    Some((position.parse().ok()?, cost.trim().parse().ok()?))
}

/// A function's name without hash and without the mark of a recursion.
fn plain(name: &str) -> String {
    let name = name.split_once('\'').map_or(name, |(name, _)| name);
    let hash = |tail: &str| tail.len() == 17 && tail.starts_with('h');
    name.rsplit_once("::").filter(|(_, tail)| hash(tail)).map_or(name, |(name, _)| name).to_owned()
}

fn short(path: &str) -> String {
    let parts: Vec<&str> = path.rsplit('/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

impl Profile {
    /// By file: what was inlined counts where it was written.
    pub fn files(&self) -> HashMap<String, u64> {
        let mut files = HashMap::new();
        for (place, cost) in &self.lines {
            let file = place.rsplit_once(':').map_or(place.as_str(), |(file, _)| file);
            *files.entry(file.to_owned()).or_default() += cost;
        }
        files
    }

    /// What this run has more than a shorter one.
    pub fn since(&self, shorter: &Profile) -> Profile {
        let less = |these: &HashMap<String, u64>, those: &HashMap<String, u64>| {
            let rest = |(name, cost): (&String, &u64)| {
                (name.clone(), cost.saturating_sub(those.get(name).copied().unwrap_or(0)))
            };
            these.iter().map(rest).collect()
        };
        Profile {
            total: self.total.saturating_sub(shorter.total),
            functions: less(&self.functions, &shorter.functions),
            lines: less(&self.lines, &shorter.lines),
        }
    }
}

/// The costliest, first the highest cost, then by name.
pub fn top(costs: &HashMap<String, u64>, count: usize) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> = costs.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
    all.sort_by_key(|(name, cost)| (std::cmp::Reverse(*cost), *name));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\ncmd: ./pgweir\npositions: line\nevents: Ir\n\nob=/tmp/pgweir\n\
        fl=/src/crates/engine/src/loop.rs\nfn=engine::turn::h0123456789abcdef\n10 5\nfi=/src/crates/wire/src/header.rs\n\
        7 3\nfe=/src/crates/engine/src/loop.rs\n11 2\ncfn=pooling::step\ncalls=4 100\n11 900\n12 1\n\
        \nfl=/src/crates/pooling/src/worker/mod.rs\nfn=pooling::step'2\n100 900\n\ntotals: 911\n";

    #[test]
    fn self_costs_add_up_and_a_callee_counts_once() {
        let profile = read(TEXT).expect("well formed");
        assert_eq!(profile.total, 911);
        assert_eq!(top(&profile.functions, 9), [("pooling::step", 900), ("engine::turn", 11)]);
        let lines = [("src/worker/mod.rs:100", 900), ("engine/src/loop.rs:10", 5), ("wire/src/header.rs:7", 3)];
        assert_eq!(top(&profile.lines, 3), lines);
        assert_eq!(profile.files()["engine/src/loop.rs"], 8);
    }

    #[test]
    fn a_file_that_does_not_add_up_is_an_error() {
        assert!(read(&TEXT.replace("totals: 911", "totals: 912")).is_err());
        assert!(read(&TEXT.replace("totals: 911", "")).is_err());
        assert!(read("").is_err());
    }

    #[test]
    fn the_difference_of_two_runs_is_what_the_longer_has_more() {
        let short = read(TEXT).expect("well formed");
        let long = read(&TEXT.replace("100 900\n\n", "100 1900\n\n").replace("911", "1911")).expect("well formed");
        let more = long.since(&short);
        assert_eq!((more.total, more.functions["pooling::step"], more.functions["engine::turn"]), (1000, 1000, 0));
    }
}
