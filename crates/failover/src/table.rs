//! Outcomes as a table in Markdown: a row for each case and contestant, with the range of its runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use measure::statistics::Range;

use crate::case::Case;
use crate::outcome::Outcome;

const HEAD: [&str; 15] = [
    "case",
    "contestant",
    "runs",
    "errors told",
    "logins refused",
    "held, told",
    "dropped",
    "unknown (done)",
    "lost / doubled / ghost / torn",
    "idle lost",
    "never served",
    "server's own, s",
    "first commit: own + s",
    "last client: own + s",
    "longest wait, s",
];
/// The column before which applications' pools have two more: their name, and the connections that they threw away.
const POOL_AT: usize = 2;
const EVICTED_AT: usize = 7;

/// In the order of the cases, and of contestants as they came. Clients of applications' pools have a table of their own.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> String {
    let (pooled, own): (Vec<&Outcome>, Vec<&Outcome>) = outcomes.iter().partition(|outcome| !outcome.pool.is_empty());
    let mut text = String::new();
    if !own.is_empty() || pooled.is_empty() {
        part(&mut text, &own, false);
    }
    if !pooled.is_empty() {
        text.push_str(if own.is_empty() { "" } else { "\n" });
        text.push_str("## Through applications' own pools\n\n");
        part(&mut text, &pooled, true);
    }
    text
}

fn part(text: &mut String, outcomes: &[&Outcome], has_pools: bool) {
    let mut head = HEAD.map(str::to_owned).to_vec();
    if has_pools {
        head.insert(EVICTED_AT, "evicted".to_owned());
        head.insert(POOL_AT, "pool".to_owned());
    }
    line(text, &head);
    writeln!(text, "|{}", "---|".repeat(head.len())).expect("a text takes any line");
    for case in Case::ALL {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for outcome in outcomes.iter().filter(|outcome| outcome.case == case.name()) {
            let name = (outcome.contestant.as_str(), outcome.pool.as_str());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let is_one = |outcome: &&&Outcome| {
                outcome.case == case.name() && (outcome.contestant.as_str(), outcome.pool.as_str()) == name
            };
            line(text, &row(&outcomes.iter().filter(is_one).copied().collect::<Vec<_>>()));
        }
    }
}

fn line(text: &mut String, cells: &[String]) {
    writeln!(text, "| {} |", cells.join(" | ")).expect("a text takes any line");
}

fn row(runs: &[&Outcome]) -> Vec<String> {
    let of = |count: fn(&Outcome) -> u64| counts(&runs.iter().map(|run| count(run)).collect::<Vec<_>>());
    let codes =
        |pick: fn(&Outcome) -> &BTreeMap<String, u64>| by_code(&runs.iter().map(|run| pick(run)).collect::<Vec<_>>());
    let seconds = |pick: fn(&Outcome) -> Option<f64>| range(runs.iter().map(|run| pick(run)).collect());
    let wrong = [
        of(|run| run.verdict.lost),
        of(|run| run.verdict.doubled),
        of(|run| run.verdict.ghost),
        of(|run| run.verdict.torn),
    ];
    let mut cells = vec![
        runs[0].case.clone(),
        runs[0].contestant.clone(),
        runs.len().to_string(),
        codes(|run| &run.errors),
        codes(|run| &run.login_errors),
        of(|run| run.held_told),
        of(|run| run.dropped),
        format!("{} ({})", of(|run| run.verdict.unknown), of(|run| run.verdict.unknown_done)),
        wrong.join(" / "),
        format!("{} of {}", of(|run| run.idle_lost), of(|run| run.idle)),
        of(|run| run.never),
        seconds(|run| run.seconds.own),
        seconds(|run| run.seconds.first),
        seconds(|run| run.seconds.last),
        seconds(|run| Some(run.seconds.wait)),
    ];
    if !runs[0].pool.is_empty() {
        cells.insert(EVICTED_AT, codes(|run| &run.evicted));
        cells.insert(POOL_AT, runs[0].pool.clone());
    }
    cells
}

/// `7`, or `3 to 9` of several runs.
fn counts(each: &[u64]) -> String {
    let (low, high) = (each.iter().min().copied().unwrap_or(0), each.iter().max().copied().unwrap_or(0));
    if low == high { low.to_string() } else { format!("{low} to {high}") }
}

/// The sum, and the codes with the most first: `12 to 14: 8006 × 10, …`.
fn by_code(each: &[&BTreeMap<String, u64>]) -> String {
    let all = counts(&each.iter().map(|run| run.values().sum()).collect::<Vec<_>>());
    let mut codes: Vec<&String> = each.iter().flat_map(|run| run.keys()).collect();
    codes.sort();
    codes.dedup();
    let of = |code: &String| each.iter().map(|run| run.get(code).copied().unwrap_or(0)).collect::<Vec<_>>();
    codes.sort_by_key(|code| std::cmp::Reverse(of(code).into_iter().sum::<u64>()));
    let named: Vec<String> = codes.into_iter().map(|code| format!("{code} × {}", counts(&of(code)))).collect();
    if named.is_empty() { all } else { format!("{all}: {}", named.join(", ")) }
}

/// The median, and the range behind it of several runs. A run without the figure shows as a dash.
fn range(each: Vec<Option<f64>>) -> String {
    let (all, known) = (each.len(), each.into_iter().flatten().collect::<Vec<f64>>());
    let missing = match all - known.len() {
        0 => String::new(),
        count => format!("; {count} × –"),
    };
    match Range::of(known) {
        None => "–".to_owned(),
        Some(Range { median, .. }) if all == 1 => tenths(median),
        Some(Range { median, low, high }) => {
            format!("{} ({} to {}{missing})", tenths(median), tenths(low), tenths(high))
        }
    }
}

/// With one digit, and without a sign of nothing.
fn tenths(value: f64) -> String {
    format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Verdict;
    use crate::outcome::Seconds;

    #[test]
    fn a_row_has_the_ranges_of_its_runs() {
        let run = |count: u64, last: Option<f64>| Outcome {
            case: "kill9".to_owned(),
            contestant: "pgweir".to_owned(),
            clients: 20,
            errors: [("08006".to_owned(), count), ("08007".to_owned(), 1)].into(),
            idle: 6,
            verdict: Verdict { unknown: 1, ..Verdict::default() },
            seconds: Seconds { own: Some(19.0), first: Some(0.25), last, wait: 20.0 },
            ..Outcome::default()
        };
        let text = table(&[run(3, Some(1.0)), run(5, None)]);
        let row = "| kill9 | pgweir | 2 | 4 to 6: 08006 × 3 to 5, 08007 × 1 | 0 | 0 | 0 | 1 (0) | 0 / 0 / 0 / 0 | 0 of 6 | 0 \
                   | 19.0 (19.0 to 19.0) | 0.3 (0.3 to 0.3) | 1.0 (1.0 to 1.0; 1 × –) | 20.0 (20.0 to 20.0) |\n";
        assert!(text.ends_with(row), "{text}");
        assert_eq!(tenths(-0.04), "0.0");
    }

    #[test]
    fn clients_of_a_pool_have_a_table_of_their_own() {
        let own = Outcome { case: "kill9".to_owned(), contestant: "pgweir".to_owned(), ..Outcome::default() };
        let evicted = [("08007".to_owned(), 2)].into();
        let pooled = Outcome { pool: "HikariCP".to_owned(), dropped: 1, evicted, ..own.clone() };
        let text = table(&[own, pooled]);
        let (first, second) = text.split_once("\n## Through applications' own pools\n\n").expect("two tables");
        assert!(!first.contains("evicted") && first.lines().count() == 3, "{first}");
        assert!(second.contains("| case | contestant | pool | runs |"), "{second}");
        assert!(
            second.contains("| kill9 | pgweir | HikariCP | 1 | 0 | 0 | 0 | 1 | 2: 08007 × 2 | 0 (0) |"),
            "{second}"
        );
        let columns = |line: &str| line.matches('|').count();
        assert!(second.lines().all(|line| columns(line) == columns(second.lines().next().expect("a head"))));
    }
}
