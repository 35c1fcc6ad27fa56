//! Findings as text for people, and as JSON for machines.
//!
//! Promises that neither has control characters of others.

use serde_json::{Value, json as object};

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::words::plain;

/// Lines are no longer, where a word allows it.
const WIDTH: usize = 110;
/// What stands before a line of a finding.
const MARGIN: &str = "          ";

/// For people.
#[must_use]
pub fn text(facts: &Facts, findings: &[Finding]) -> String {
    let mut out = String::new();
    for line in looked_at(facts) {
        block(&mut out, "looked at", &line);
    }
    for finding in findings {
        out.push('\n');
        let Finding { rule, weight, title, evidence, reason, source, mend } = finding;
        block(&mut out, &weight.as_str().to_uppercase(), &format!("{title} [{rule}]"));
        evidence.iter().for_each(|line| block(&mut out, "  found", line));
        block(&mut out, "  why", &format!("{reason} ({source})"));
        // A command is not broken: it is to be copied.
        for (index, line) in mend.iter().enumerate() {
            let label = if index == 0 { "  mend" } else { "" };
            out.push_str(&format!("{label:<10}{}\n", plain(line)));
        }
    }
    if !facts.unseen.is_empty() {
        out.push_str("\nnot seen\n");
    }
    for unseen in &facts.unseen {
        block(&mut out, "  -", &format!("{}: {}", unseen.what, unseen.why));
        if let Some(mend) = &unseen.mend {
            out.push_str(&format!("{MARGIN}{}\n", plain(mend)));
        }
    }
    out.push_str(&format!("\n{}\n", summary(findings)));
    out
}

fn looked_at(facts: &Facts) -> Vec<String> {
    let postgres = facts.postgres.as_ref().map(|postgres| &postgres.identity);
    let postgres = postgres
        .map(|own| format!("PostgreSQL {} at {}, database {}, as {}", own.version, own.place, own.database, own.role));
    let pooler = facts.pooler.as_ref().map(|pooler| format!("the pooler at {}", pooler.place));
    let machine = facts.machine.as_ref().map(|_| "this machine, on which PostgreSQL runs".to_owned());
    [pooler, postgres, machine].into_iter().flatten().collect()
}

fn summary(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing found".to_owned();
    }
    let count = |weight: Weight| findings.iter().filter(|finding| finding.weight == weight).count();
    let counts = [Weight::Critical, Weight::Warning, Weight::Notice]
        .map(|weight| format!("{} {}", count(weight), weight.as_str()));
    format!("found: {}", counts.join(", "))
}

/// A label, and words beside it.
fn block(out: &mut String, label: &str, words: &str) {
    let words = plain(words);
    let mut line = format!("{label:<10}");
    let mut is_empty = true;
    for word in words.split(' ') {
        if !is_empty && line.chars().count() + word.chars().count() >= WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = MARGIN.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// For machines: an object with `looked_at`, `findings` and `unseen`.
#[must_use]
pub fn json(facts: &Facts, findings: &[Finding]) -> String {
    let lines = |lines: &[String]| lines.iter().map(|line| Value::String(plain(line))).collect::<Vec<_>>();
    let finding = |finding: &Finding| {
        object!({
            "rule": finding.rule,
            "weight": finding.weight.as_str(),
            "title": plain(&finding.title),
            "evidence": lines(&finding.evidence),
            "reason": plain(&finding.reason),
            "source": finding.source,
            "mend": lines(&finding.mend),
        })
    };
    let unseen = facts.unseen.iter().map(|unseen| {
        object!({"what": plain(&unseen.what), "why": plain(&unseen.why), "mend": unseen.mend.as_deref().map(plain)})
    });
    let report = object!({
        "looked_at": lines(&looked_at(facts)),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "unseen": unseen.collect::<Vec<_>>(),
    });
    format!("{report:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Unseen;

    fn finding() -> Finding {
        Finding {
            rule: "a-rule",
            weight: Weight::Warning,
            title: "an evil \x1b[31mname".to_owned(),
            evidence: vec!["word ".repeat(50), "<script>\u{9b}".to_owned()],
            reason: "It matters.".to_owned(),
            source: "somewhere",
            mend: vec!["DROP INDEX \"a\nb\"; -- now".to_owned(), "REINDEX".to_owned()],
        }
    }

    fn facts() -> Facts {
        let unseen = Unseen { what: "x".to_owned(), why: "no\trights".to_owned(), mend: Some("GRANT y".to_owned()) };
        Facts { unseen: vec![unseen], ..Facts::default() }
    }

    #[test]
    fn texts_of_others_are_visible_in_both_forms() {
        for report in [text(&facts(), &[finding()]), json(&facts(), &[finding()])] {
            assert!(report.chars().all(|c| c == '\n' || !c.is_control()), "{report:?}");
        }
        let parsed: Value = serde_json::from_str(&json(&facts(), &[finding()])).expect("it is JSON");
        assert_eq!(parsed["findings"][0]["title"], "an evil \\u{1b}[31mname");
        assert_eq!(parsed["findings"][0]["weight"], "warning");
        assert_eq!(parsed["unseen"][0]["mend"], "GRANT y");
    }

    #[test]
    fn text_is_within_its_width_and_commands_are_whole() {
        let report = text(&facts(), &[finding()]);
        assert!(report.lines().all(|line| line.chars().count() <= WIDTH), "{report}");
        assert!(report.contains("  mend    DROP INDEX \"a\\nb\"; -- now\n          REINDEX\n"), "{report}");
        assert!(report.ends_with("found: 0 critical, 1 warning, 0 notice\n"), "{report}");
        assert!(text(&Facts::default(), &[]).ends_with("nothing found\n"));
    }
}
