//! Whether each class and each rule can be reached: what `pgweir check` warns of, and RELOAD in the log.
//!
//! Promises no false alarm: a rule that it names can never decide, or decides only once the file names a database or user
//! that it does not name now. Does not find everything: several rules that take together what a later one could have are
//! not put together, and of very many rules only so many are compared as [`COMPARED_MAX`] allows.

use std::collections::BTreeMap;
use std::ops::Bound;

use machine::Settings;
use queueing::classes::{Class, Classes, DEFAULT, Limits, Pattern, Rule, TagPattern};
use settings::AuthType;

use crate::entry::Entry;
use crate::problem::{PROBLEMS_MAX, Place, Problem, clean, quoted};
use crate::rules::RuleLine;

/// Comparisons of two rules: a few milliseconds' worth.
const COMPARED_MAX: usize = 1_000_000;
/// Names among which the nearest to a misspelt one is looked for.
const SUGGESTED_MAX: usize = 1000;

/// What can be said of `lines`, the rules of `file`, beside the databases and users of `settings`. `entries` are those of
/// `[classes]`.
#[must_use]
pub(crate) fn judge(
    settings: &Settings,
    classes: &Classes,
    entries: &[Entry],
    file: &str,
    lines: &[RuleLine],
) -> Vec<Problem> {
    let mut problems = unnamed(classes, entries);
    problems.extend(databases(settings, classes, entries));
    problems.extend(alone(classes, entries));
    let place = |line: &RuleLine| Place { file: file.to_owned(), line: line.line };
    let mut compared: usize = 0;
    for (index, line) in lines.iter().enumerate() {
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
        compared = compared.saturating_add(index);
        let earlier = if compared <= COMPARED_MAX { &lines[..index] } else { &[] };
        if let Some(earlier) = earlier.iter().find(|earlier| takes_all(&earlier.rule, &line.rule)) {
            let found = "a rule that never decides".to_owned();
            let expected = format!("it before line {}, which takes all that it could", earlier.line);
            problems.push(Problem::warning(&place(line), "", found, expected));
            continue;
        }
        strangers(settings, &line.rule, &place(line), &mut problems);
    }
    problems
}

/// Classes that no session can be in.
fn unnamed(classes: &Classes, entries: &[Entry]) -> Vec<Problem> {
    let is_named = |name: &str| {
        let id = classes.all.iter().position(|class| *class.name == *name);
        let is_long = |class: &Class| class.long.is_some_and(|long| Some(usize::from(long.class.0)) == id);
        let is_ruled = |rule: &Rule| Some(usize::from(rule.class.0)) == id;
        id == Some(usize::from(DEFAULT.0)) || classes.rules.iter().any(is_ruled) || classes.all.iter().any(is_long)
    };
    let unnamed = entries.iter().filter(|entry| !is_named(&entry.name));
    let problem = |entry: &Entry| {
        let found = "a class that no rule names".to_owned();
        Problem::warning(&entry.place, &entry.key(""), found, "a rule for it in class_file".to_owned())
    };
    unnamed.map(problem).collect()
}

/// Entries of `[databases]` that classes name.
fn databases(settings: &Settings, classes: &Classes, entries: &[Entry]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (id, class) in classes.all.iter().enumerate() {
        let (Some(name), Some(entry)) = (&class.database, entries.iter().find(|entry| *entry.name == *class.name))
        else {
            continue;
        };
        if !settings.databases.contains_key(&**name) {
            let names: Vec<&str> = settings.databases.keys().take(SUGGESTED_MAX).map(String::as_str).collect();
            let mut expected = "a name of [databases]".to_owned();
            if let Some(near) = settings::nearest(name, &names) {
                expected.push_str(&format!("; did you mean {near}?"));
            }
            problems.push(Problem::error(&entry.place, &entry.key("database"), quoted(name), clean(&expected)));
        }
        let mut rules = classes.rules.iter().filter(|rule| usize::from(rule.class.0) == id).peekable();
        if rules.peek().is_some() && rules.all(|rule| !rule.tags.is_empty()) {
            let expected = "a rule without a tag for this class: comments come after the login".to_owned();
            problems.push(Problem::warning(&entry.place, &entry.key("database"), quoted(name), expected));
        }
    }
    problems
}

/// What one class alone may claim beside others.
fn alone(classes: &Classes, entries: &[Entry]) -> Option<Problem> {
    let default = &classes.all[0];
    let is_beside_nobody = classes.all.len() == 1 || classes.is_single();
    // Limits of the whole process hold for one class too.
    let claims = Class { limits: Limits::default(), ..default.clone() } != Class::new(&default.name);
    let entry = entries.iter().find(|entry| *entry.name == *default.name).filter(|_| is_beside_nobody && claims)?;
    let expected = "another class beside it, and rules for that: alone it has no effect".to_owned();
    Some(Problem::warning(&entry.place, &entry.key(""), "the class that everybody is in".to_owned(), expected))
}

/// Whether `earlier` fits every session that `later` fits.
fn takes_all(earlier: &Rule, later: &Rule) -> bool {
    let covers = |some: &[Pattern], others: &[Pattern]| {
        others.iter().all(|other| some.iter().any(|pattern| includes(pattern, other)))
    };
    let tagged =
        |other: &TagPattern| earlier.tags.iter().any(|tag| tag.key == other.key && includes(&tag.value, &other.value));
    covers(&earlier.databases, &later.databases)
        && covers(&earlier.users, &later.users)
        && covers(&earlier.applications, &later.applications)
        && (earlier.tags.is_empty() || (!later.tags.is_empty() && later.tags.iter().all(tagged)))
}

/// Whether a pattern fits all that the other one fits.
fn includes(pattern: &Pattern, other: &Pattern) -> bool {
    match (pattern, other) {
        (Pattern::All, _) => true,
        (Pattern::BeginsWith(start), Pattern::BeginsWith(other)) => other.starts_with(start),
        (_, Pattern::Exactly(name)) => pattern.fits(name),
        (_, Pattern::All) | (Pattern::Exactly(_), Pattern::BeginsWith(_)) => false,
    }
}

/// Databases and users of a rule that no session can have.
fn strangers(settings: &Settings, rule: &Rule, place: &Place, problems: &mut Vec<Problem>) {
    if settings.fallback.is_none() {
        unknown(&rule.databases, &settings.databases, ("database", "a name of [databases]"), place, problems);
    }
    // Users that auth_file does not name cannot log in; if it names none, there is another message.
    if !settings.uses(AuthType::Any) && !settings.secrets.is_empty() {
        unknown(&rule.users, &settings.secrets, ("user", "a user of auth_file"), place, problems);
    }
}

fn unknown<T>(
    patterns: &[Pattern],
    known: &BTreeMap<String, T>,
    (key, what): (&str, &str),
    place: &Place,
    problems: &mut Vec<Problem>,
) {
    for pattern in patterns {
        let (name, star) = match pattern {
            Pattern::All => continue,
            Pattern::Exactly(name) => (String::from_utf8_lossy(name), ""),
            Pattern::BeginsWith(name) => (String::from_utf8_lossy(name), "*"),
        };
        let next = known.range::<str, _>((Bound::Included(&*name), Bound::Unbounded)).next();
        if next.is_some_and(|(next, _)| pattern.fits(next.as_bytes())) {
            continue;
        }
        let names: Vec<&str> = known.keys().take(SUGGESTED_MAX).map(String::as_str).collect();
        let expected = match settings::nearest(&name, &names) {
            Some(near) => format!("{what}; did you mean {near}?"),
            None => what.to_owned(),
        };
        problems.push(Problem::warning(place, key, quoted(&format!("{name}{star}")), expected));
        if problems.len() >= PROBLEMS_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    fn rule(line: &str) -> Rule {
        let mut problems = Vec::new();
        let rules = rules::parse("f", line.as_bytes(), &[Class::new("default")], &mut problems);
        assert_eq!(problems, [], "{line}");
        rules.into_iter().next().expect("the table's lines are rules").rule
    }

    #[test]
    fn a_rule_takes_all_of_another_or_not() {
        let table = [
            ("all all all all", "a b c d:e", true),
            ("a b c all", "a b c all", true),
            ("a,b all all all", "b u all all", true),
            ("a,b all all all", "b,c u all all", false),
            ("a* all all all", "ab,abc* all all all", true),
            ("ab* all all all", "a* all all all", false),
            ("a* all all all", "all all all all", false),
            ("a all all all", "a* all all all", false),
            ("a all all all", "A all all all", false),
            ("all all all k:*", "all all all all", false),
            ("all all all k:*", "a all all k:v", true),
            ("all all all k:*", "a all all k:v,l:v", false),
            ("all all all k:v*,l:w", "a all all l:w,k:vv", true),
            ("all all all k:v", "a all all k:v*", false),
            ("all all \"\" all", "all all \"\" all", true),
            ("all all \"\" all", "all all all all", false),
        ];
        for (earlier, later, expected) in table {
            let (first, second) = (rule(&format!("{earlier} default")), rule(&format!("{later} default")));
            assert_eq!(takes_all(&first, &second), expected, "{earlier} / {later}");
        }
    }
}
