//! What `pg_regress` says of each test, and what a failed one's difference is worth.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// Its difference is, line by line, the one in the list of what cannot be the same.
    Allowed,
    Failed,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Allowed => "allowed",
            Verdict::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) test: String,
    pub(crate) verdict: Verdict,
    pub(crate) millis: u64,
    /// Different servers that its transactions ran on, where the pooler counts them.
    pub(crate) servers: Option<usize>,
}

/// Reads the lines of PostgreSQL 14 to 15: `test NAME ... ok  12 ms`, and within a group `     NAME ... FAILED  12 ms`.
pub(crate) fn outcomes(text: &str) -> Vec<Outcome> {
    text.lines().filter_map(outcome).collect()
}

fn outcome(line: &str) -> Option<Outcome> {
    let (name, rest) = line.split_once(" ... ")?;
    let name = name.trim_start_matches("test ").trim();
    let rest = rest.trim_start();
    let verdict = if rest.starts_with("ok") {
        Verdict::Passed
    } else if rest.starts_with("FAILED") || rest.starts_with("failed") {
        Verdict::Failed
    } else {
        return None;
    };
    let before = rest.split(" ms").next().unwrap_or_default();
    let millis = before.split_whitespace().next_back().and_then(|number| number.parse().ok()).unwrap_or(0);
    (!name.is_empty() && !name.contains(' ')).then(|| Outcome { test: name.to_owned(), verdict, millis, servers: None })
}

/// How many servers each test's sessions ran on, at least, from the pooler's log under `chaos_rotate`: lines that end
/// with `chaos_rotate: 12 transactions on 8 servers by pg_regress/boolean`.
pub(crate) fn servers_used(log: &str) -> BTreeMap<&str, usize> {
    let mut used = BTreeMap::new();
    let journeys = log.lines().filter_map(|line| line.split_once("chaos_rotate: ")?.1.split_once(" servers by "));
    for (counts, name) in journeys {
        let count = counts.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
        if let (Some(count), Some((_, test))) = (count, name.split_once('/')) {
            let most = used.entry(test).or_default();
            *most = count.max(*most);
        }
    }
    used
}

/// The removed and added lines of each test in `regression.diffs`, in order.
pub(crate) fn differences(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut test = String::new();
    for line in text.lines() {
        if line.starts_with("diff -") {
            let results = line.rsplit(' ').next().unwrap_or_default();
            test = Path::new(results).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        } else if line.starts_with(['+', '-']) && !line.starts_with("+++ /") && !line.starts_with("--- /") {
            all.entry(test.clone()).or_default().push(line.to_owned());
        }
    }
    all
}

/// Where a difference that cannot be avoided is written down.
pub(crate) fn allowed_path(lists: &Path, mode: &str, test: &str) -> PathBuf {
    lists.join(mode).join(format!("{test}.diff"))
}

/// Whether a test's difference is exactly the one that is allowed. Lines with `#` say why.
pub(crate) fn is_allowed(lists: &Path, mode: &str, test: &str, difference: Option<&Vec<String>>) -> bool {
    let Some(difference) = difference else { return false };
    let path = allowed_path(lists, mode, test);
    let exact = |text: String| {
        let allowed: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        allowed == *difference
    };
    // Where numbers hang on chance, which lines there are cannot be foretold either: none may have another shape.
    let shaped = |text: String| {
        let shapes: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        !difference.is_empty() && difference.iter().all(|line| shapes.contains(&shape(line).as_str()))
    };
    fs::read_to_string(&path).is_ok_and(exact) || fs::read_to_string(path.with_extension("shapes")).is_ok_and(shaped)
}

/// A line of a difference without its sign and its spaces: `0` for every number, `?` for a truth value.
fn shape(line: &str) -> String {
    let words = line.get(1..).unwrap_or_default().split_whitespace().map(|word| match word {
        "t" | "f" => "?".to_owned(),
        _ => {
            let mut digits = false;
            let masked = word.chars().filter_map(|letter| {
                let follows = std::mem::replace(&mut digits, letter.is_ascii_digit());
                match digits {
                    true => (!follows).then_some('0'),
                    false => Some(letter),
                }
            });
            masked.collect()
        }
    });
    words.collect::<Vec<String>>().join(" ")
}

/// What a suite over a path must come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// So many tests pass, or fail and are among `by_luck`.
    pub(crate) passed: usize,
    /// Tests that may fail by the servers they meet: as two plain connections to PostgreSQL would.
    pub(crate) by_luck: Vec<String>,
}

impl Promise {
    /// Whether these outcomes keep it.
    pub(crate) fn is_kept(&self, outcomes: &[Outcome]) -> bool {
        let may_fail = |test: &str| self.by_luck.iter().any(|name| name == test);
        let counts = |outcome: &&Outcome| match outcome.verdict {
            Verdict::Passed => true,
            Verdict::Allowed => false,
            Verdict::Failed => may_fail(&outcome.test),
        };
        outcomes.iter().filter(counts).count() >= self.passed
    }
}

/// What is promised: `SUITE PATH PASSED TEST…` a line. `None`: nothing.
pub(crate) fn expected(text: &str, suite: &str, route: &str) -> Option<Promise> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(str::split_whitespace);
    lines.find_map(|mut words| {
        let is_it = words.next() == Some(suite) && words.next() == Some(route);
        let passed = if is_it { words.next()?.parse().ok()? } else { return None };
        Some(Promise { passed, by_luck: words.map(str::to_owned).collect() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_print_a_test_is_read() {
        let text = "test test_setup                   ... ok          237 ms\n\
                    parallel group (3 tests, in groups of 1):  boolean char name\n     \
                    boolean                      ... ok           33 ms\n     \
                    char                         ... FAILED       12 ms\n\
                    test name ... FAILED (test process exited with exit code 2)       15 ms\n\
                    test event_trigger                ... failed (ignored)       15 ms\n ============== x ==============\n";
        let read: Vec<(String, bool, u64)> = outcomes(text)
            .into_iter()
            .map(|outcome| (outcome.test, outcome.verdict == Verdict::Passed, outcome.millis))
            .collect();
        let wanted = [("test_setup", true, 237), ("boolean", true, 33), ("char", false, 12), ("name", false, 15)];
        let mut wanted: Vec<_> = wanted.map(|(name, passed, millis)| (name.to_owned(), passed, millis)).to_vec();
        wanted.push(("event_trigger".to_owned(), false, 15));
        assert_eq!(read, wanted);
    }

    #[test]
    fn the_log_tells_how_many_servers_a_test_used() {
        let log = "t [1] LOG C-1: db/u@x chaos_rotate: 12 transactions on 8 servers by pg_regress/boolean\n\
                   t [1] LOG C-2: db/u@x chaos_rotate: 3 transactions on 3 servers by pg_regress/boolean\n\
                   t [1] LOG C-3: db/u@x chaos_rotate: 1 transactions on 1 servers by \nt [1] LOG other";
        assert_eq!(servers_used(log), BTreeMap::from([("boolean", 8)]));
    }

    #[test]
    fn differences_are_lines_by_test() {
        let text = "diff -U3 /x/expected/guc.out /x/results/guc.out\n--- /x/expected/guc.out\t2026\n+++ /x/results/guc.out\t2026\n\
                    @@ -1,2 +1,2 @@\n same\n-WARNING:  a\n+ERROR:  b\n--- a comment of SQL\ndiff -U3 /x/expected/temp_1.out /x/results/temp.out\n+x\n";
        let read = differences(text);
        assert_eq!(read["guc"], ["-WARNING:  a", "+ERROR:  b", "--- a comment of SQL"]);
        assert_eq!(read["temp"], ["+x"]);
    }

    #[test]
    fn only_a_test_that_is_named_may_fail_by_luck() {
        let outcome = |test: &str, verdict| Outcome { test: test.to_owned(), verdict, millis: 1, servers: None };
        let promise = expected("# why\nserial rotate 2 triggers\n", "serial", "rotate").expect("it is there");
        let one = |name: &str| vec![outcome("char", Verdict::Passed), outcome(name, Verdict::Failed)];
        assert!(promise.is_kept(&one("triggers")));
        assert!(!promise.is_kept(&one("privileges")));
        assert!(!promise.is_kept(&[outcome("char", Verdict::Passed), outcome("guc", Verdict::Allowed)]));
        assert_eq!(expected("serial rotate 2\n", "serial", "poison"), None);
    }

    #[test]
    fn only_the_very_difference_is_allowed() {
        let lists = std::env::temp_dir().join(format!("regress-lists-{}", std::process::id()));
        fs::create_dir_all(lists.join("session")).expect("a fresh folder");
        fs::write(allowed_path(&lists, "session", "guc"), "# why\n-a\n+b\n").expect("ours");
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        assert!(is_allowed(&lists, "session", "guc", Some(&lines(&["-a", "+b"]))));
        assert!(!is_allowed(&lists, "session", "guc", Some(&lines(&["-a", "+b", "+c"]))));
        assert!(!is_allowed(&lists, "session", "guc", Some(&lines(&["-a"]))));
        assert!(!is_allowed(&lists, "session", "guc", None), "it failed without a difference: it died");
        assert!(!is_allowed(&lists, "transaction", "guc", Some(&lines(&["-a", "+b"]))));
        fs::remove_dir_all(&lists).expect("ours");
    }

    #[test]
    fn where_numbers_hang_on_chance_only_shapes_are_held_against_the_list() {
        let lists = std::env::temp_dir().join(format!("regress-shapes-{}", std::process::id()));
        fs::create_dir_all(lists.join("transaction")).expect("a fresh folder");
        let path = allowed_path(&lists, "transaction", "stats").with_extension("shapes");
        fs::write(path, "# why\nt0 | 0\n? | ?\n").expect("ours");
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        let allows = |all: &[&str]| is_allowed(&lists, "transaction", "stats", Some(&lines(all)));
        assert!(allows(&["- t12  |   3", "+ t12 | 40", "- t | t", "+ t | f"]));
        assert!(!allows(&["- t12  |   3", "+ERROR:  relation does not exist"]));
        assert!(!allows(&[]) && !is_allowed(&lists, "transaction", "stats", None));
        fs::remove_dir_all(&lists).expect("ours");
    }

    #[test]
    fn expectations_are_looked_up_by_suite_and_path() {
        let text = "# suite path passed\nserial direct 217\nserial session 210\n";
        let promise = Promise { passed: 210, by_luck: Vec::new() };
        assert_eq!(expected(text, "serial", "session"), Some(promise));
        assert_eq!(expected(text, "parallel", "session"), None);
        assert_eq!(expected(text, "#", "suite"), None);
    }
}
