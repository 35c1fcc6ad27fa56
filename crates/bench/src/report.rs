//! The table made from a record.
//!
//! Promises: every threshold is in it, reached, missed or not measured; every scenario that failed is in it.

use std::fmt::Write;

use measure::statistics::{Estimate, Verdict};
use serde_json::Value;

use crate::figures::{
    self, Ceiling, Judgement, Quantity, calls_each, calls_more, calls_sum, client_bytes, cpu_ns_each,
    instructions_more, latency_p50_us, latency_p99_us, lends_each, middle, more, ratio, servers_cpu_ns_each,
    servers_sleeps_each, speed, switches_each,
};
use crate::instructions::FIDELITY;
use crate::scenario::{self, CLASSIC};
use crate::{logins_table, rates_table, sizing_table, storm_table, upkeep_table};

/// The whole report, in Markdown.
pub fn table(record: &Value) -> String {
    let mut out = String::new();
    head(&mut out, record);
    failures(&mut out, record);
    if scenarios(record).next().is_some() && scenarios(record).all(|one| one["kind"] == "sizing") {
        sizing_table::write(&mut out, record);
        return out;
    }
    if scenarios(record).next().is_some() && scenarios(record).all(|one| one["kind"] == "rates") {
        rates_table::write(&mut out, record);
        return out;
    }
    if scenarios(record).next().is_some() && scenarios(record).all(|one| one["kind"] == "login") {
        logins_table::write(&mut out, record);
        return out;
    }
    if scenarios(record).next().is_some() && scenarios(record).all(|one| one["kind"] == "storm") {
        storm_table::write(&mut out, record);
        return out;
    }
    if scenarios(record).next().is_some() && scenarios(record).all(|one| one["kind"] == "upkeep") {
        upkeep_table::write(&mut out, record);
        return out;
    }
    thresholds(&mut out, record);
    costs(&mut out, record);
    calls(&mut out, record);
    idle(&mut out, record);
    fidelity(&mut out, record);
    half_load(&mut out, record);
    pgbench(&mut out, record);
    few(&mut out, record);
    instructions(&mut out, record);
    out
}

/// A line of text; writing to a String cannot fail.
macro_rules! line {
    ($out:expr, $($text:tt)*) => { writeln!($out, $($text)*).expect("a String takes everything") };
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("unknown")
}

fn head(out: &mut String, record: &Value) {
    let (machine, tree, run) = (&record["machine"], &record["tree"], &record["run"]);
    let changed = if tree["changed"] == true { " with uncommitted changes" } else { "" };
    line!(out, "# Measured {}\n", text(record, "date"));
    line!(out, "Made by `make bench` from the raw samples beside it; do not edit.\n");
    line!(out, "* tree: {}{changed}", text(tree, "commit"));
    line!(
        out,
        "* machine: {}, {} cores, {}, {}",
        text(machine, "processor"),
        machine["cores"],
        text(machine, "memory"),
        text(machine, "kernel")
    );
    for contestant in record["contestants"].as_array().into_iter().flatten() {
        line!(out, "* {}: {}", text(contestant, "name"), text(contestant, "version"));
    }
    line!(out, "* pinning: {}", text(run, "placement_words"));
    if let Some(words) = run["order_words"].as_str() {
        line!(out, "* {words}; load average {} when it began", text(machine, "load_average"));
        return;
    }
    line!(
        out,
        "* {} rounds, {} ms a slice after {} ms of warm-up; order of the contestants shuffled in every round (seed {}); \
         load average {} when it began\n",
        run["rounds"],
        run["slice_ms"],
        run["warm_up_ms"],
        run["seed"],
        text(machine, "load_average"),
    );
    line!(out, "Ratios are medians of ratios within a round, in brackets the 95 % bootstrap interval of that median.");
}

fn scenarios(record: &Value) -> impl Iterator<Item = &Value> {
    record["scenarios"].as_array().into_iter().flatten()
}

fn failures(out: &mut String, record: &Value) {
    for scenario in scenarios(record).filter(|one| one["error"].is_string()) {
        line!(out, "\n**{} was not measured**: {}", text(scenario, "name"), text(scenario, "error"));
    }
    for scenario in scenarios(record) {
        for note in scenario["notes"].as_array().into_iter().flatten() {
            line!(out, "\nNote on {}: {}", text(scenario, "name"), note.as_str().unwrap_or_default());
        }
    }
}

/// `1.52 [1.48, 1.57]`, or a dash.
fn interval(figure: Option<Estimate>, decimals: usize) -> String {
    match figure {
        Some(Estimate { median, low, high, .. }) => {
            format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
        }
        None => "–".to_owned(),
    }
}

fn number(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

fn thresholds(out: &mut String, record: &Value) {
    if !scenarios(record).any(|one| figures::names(one).iter().any(|name| name.starts_with("pgweir"))) {
        line!(out, "\npgweir was not among the contestants: no threshold is judged.");
        return;
    }
    line!(
        out,
        "\n## Thresholds\n\n| scenario | figure | measured | must | | should | | ceiling: a relay that only copies |\n|---|---|--:|--:|---|--:|---|---|"
    );
    for judgement in figures::judgements(record) {
        let Judgement { scenario, what, threshold, figure, ceiling } = &judgement;
        let sign = if threshold.at_most { "≤" } else { "≥" };
        let words = |verdict: Option<Verdict>, value: f64| {
            let above = if judgement.is_above_ceiling(value) { ", above the ceiling" } else { "" };
            format!("{}{above}", verdict.map_or("not measured", Verdict::words))
        };
        let none = ("–".to_owned(), "–".to_owned());
        let should =
            threshold.should.map_or(none, |value| (format!("{sign} {value}"), words(judgement.should(), value)));
        let decimals = if threshold.must >= 100.0 { 0 } else { 3 };
        let measured = match figure {
            Some(figure) if figure.samples == 1 => number(Some(figure.median), decimals),
            other => interval(*other, decimals),
        };
        let must = words(judgement.must(), threshold.must);
        let ceiling = ceiling.map_or("–".to_owned(), |Ceiling { ratio, cpu_ns }| {
            format!("{} ({cpu_ns:.0} ns)", interval(Some(ratio), decimals))
        });
        line!(
            out,
            "| {scenario} | {what} | {measured} | {sign} {} | {must} | {} | {} | {ceiling} |",
            threshold.must,
            should.0,
            should.1
        );
    }
    line!(
        out,
        "\nThe relay gives every client a server of its own and copies: recv and send, no message is read. In parentheses \
         its CPU time per transaction; the ceiling is PgBouncer's ÷ that. Poolers share twenty servers, so the bound is \
         not a strict one."
    );
}

/// CPU time, for every scenario with the fake PostgreSQL and a running load.
fn costs(out: &mut String, record: &Value) {
    line!(out, "\n## CPU time of the pooler per transaction\n");
    line!(
        out,
        "| scenario | contestant | ns | PgBouncer's ÷ its | switches | transactions/s | p50 µs | p99 µs |\n|---|---|--:|--:|--:|--:|--:|--:|"
    );
    for scenario in scenarios(record).filter(|one| one["kind"] == "closed" || one["kind"] == "logins") {
        for name in figures::names(scenario) {
            let one = |quantity: Quantity| middle(scenario, &name, quantity).map(|figure| figure.median);
            let against = if name == "pgbouncer" { None } else { ratio(scenario, "pgbouncer", &name, cpu_ns_each) };
            line!(
                out,
                "| {} | {name} | {} | {} | {} | {} | {} | {} |",
                text(scenario, "about"),
                number(one(cpu_ns_each), 0),
                interval(against, 2),
                number(one(switches_each), 2),
                number(one(speed), 0),
                number(one(latency_p50_us), 0),
                number(one(latency_p99_us), 0),
            );
        }
    }
}

fn calls(out: &mut String, record: &Value) {
    line!(out, "\n## System calls per transaction\n\n| scenario | contestant | all | by name |\n|---|---|--:|---|");
    for scenario in scenarios(record) {
        for (name, _) in scenario["system_calls"].as_object().into_iter().flatten() {
            let each = calls_each(scenario, name);
            let named =
                each.iter().filter(|(_, calls)| *calls >= 0.005).map(|(name, calls)| format!("{name} {calls:.2}"));
            let named: Vec<String> = named.collect();
            let about = text(scenario, "about");
            line!(out, "| {about} | {name} | {} | {} |", number(calls_sum(scenario, name), 2), named.join(", "));
        }
    }
}

fn idle(out: &mut String, record: &Value) {
    for scenario in scenarios(record).filter(|one| one["kind"] == "idle") {
        line!(
            out,
            "\n## User memory: {}\n\n| contestant | bytes a client, logged in | and after all have asked at once |\n|---|--:|--:|",
            text(scenario, "about")
        );
        for name in figures::names(scenario) {
            let asked: Quantity = |sample| sample["client_bytes_after_all_asked_at_once"].as_f64();
            line!(
                out,
                "| {name} | {} | {} |",
                interval(middle(scenario, &name, client_bytes), 0),
                interval(middle(scenario, &name, asked), 0)
            );
        }
    }
}

/// What looking after session state costs, where pgweir ran with and without.
fn fidelity(out: &mut String, record: &Value) {
    let mut first = true;
    for scenario in scenarios(record) {
        let cpu = ratio(scenario, "pgweir", CLASSIC, cpu_ns_each);
        let counted: Vec<_> =
            FIDELITY.iter().filter_map(|case| Some((case, instructions_more(scenario, case)?))).collect();
        if cpu.is_none() && counted.is_empty() {
            continue;
        }
        if std::mem::take(&mut first) {
            line!(
                out,
                "\n## pgweir: pool_fidelity transparent beside classic\n\n| scenario | CPU time, transparent ÷ classic | system calls more | instructions | more |\n|---|--:|--:|---|--:|"
            );
        }
        let about = text(scenario, "about");
        if cpu.is_some() {
            line!(
                out,
                "| {about} | {} | {} | – | – |",
                interval(cpu, 3),
                number(calls_more(scenario, scenario::FIDELITY), 3)
            );
        }
        for (case, more) in counted {
            let of =
                |name: &str| number(scenario["instructions"][case][name]["instructions_per_transaction"].as_f64(), 0);
            line!(out, "| {about} | – | – | {case}: {} beside {} | {more:.0} |", of("pgweir"), of(CLASSIC));
        }
    }
}

fn half_load(out: &mut String, record: &Value) {
    let mut first = true;
    for scenario in scenarios(record).filter(|one| one["kind"] == "half-load" && one["error"].is_null()) {
        if std::mem::take(&mut first) {
            line!(
                out,
                "\n## Two workers at half of one worker's speed\n\n| scenario | contestant | asked/s | transactions/s | CPU ns | switches | system calls | lends | p50 µs | p99 µs |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
            );
        }
        for name in figures::names(scenario) {
            let asked = scenario["interval_ns"].as_f64().map(|interval| 1e9 / interval);
            let one = |quantity: Quantity| middle(scenario, &name, quantity).map(|figure| figure.median);
            line!(
                out,
                "| {} | {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
                text(scenario, "about"),
                number(asked, 0),
                number(one(speed), 0),
                number(one(cpu_ns_each), 0),
                number(one(switches_each), 2),
                number(calls_sum(scenario, &name), 2),
                number(lends_each(scenario, &name), 4),
                number(one(latency_p50_us), 0),
                number(one(latency_p99_us), 0),
            );
        }
    }
}

fn pgbench(out: &mut String, record: &Value) {
    let mut first = true;
    for scenario in scenarios(record).filter(|one| one["kind"] == "pgbench" && one["error"].is_null()) {
        if std::mem::take(&mut first) {
            let cluster = &scenario["postgresql"];
            let settings: Vec<&str> =
                cluster["settings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            line!(out, "\n## pgbench, scale {}, {}\n", cluster["scale"], text(cluster, "version"));
            line!(
                out,
                "Settings of the cluster: {}. pgbench and PostgreSQL on every core, the pooler on one. {} rounds, {} s of \
                 pgbench for each contestant in each.\n",
                settings.join(" "),
                scenario["rounds"].as_array().map_or(0, Vec::len),
                number(scenario["seconds_a_run"].as_f64(), 0),
            );
            line!(
                out,
                "| scenario | contestant | transactions/s | its ÷ the direct connection's | its ÷ PgBouncer's | latency ms | pooler's CPU ns | PgBouncer's ÷ its |\n|---|---|--:|--:|--:|--:|--:|--:|"
            );
        }
        for name in figures::names(scenario) {
            let latency: Quantity = |sample| sample["latency_ms"].as_f64();
            let unless = |other: &str, above: &str, below: &str, quantity: Quantity| {
                interval(if name == other { None } else { ratio(scenario, above, below, quantity) }, 2)
            };
            line!(
                out,
                "| {} | {name} | {} | {} | {} | {} | {} | {} |",
                text(scenario, "about"),
                number(middle(scenario, &name, speed).map(|figure| figure.median), 0),
                unless("direct", &name, "direct", speed),
                unless("pgbouncer", &name, "pgbouncer", speed),
                number(middle(scenario, &name, latency).map(|figure| figure.median), 3),
                number(middle(scenario, &name, cpu_ns_each).map(|figure| figure.median), 0),
                unless("pgbouncer", "pgbouncer", &name, cpu_ns_each),
            );
        }
    }
}

fn few(out: &mut String, record: &Value) {
    let mut first = true;
    for scenario in scenarios(record).filter(|one| one["kind"] == "few" && one["error"].is_null()) {
        if std::mem::take(&mut first) {
            line!(out, "\n## Few clients: the pooler on a core of its own, pgbench and PostgreSQL on the others\n");
            line!(
                out,
                "{} rounds, {} s of pgbench for each contestant in each. What is added is the latency less that of the direct \
                 connection in the same round. CPU ns and switches are the pooler's own, all per transaction; servers are the processes of \
                 PostgreSQL, which wake the pooler.\n",
                scenario["rounds"].as_array().map_or(0, Vec::len),
                number(scenario["seconds_a_run"].as_f64(), 0),
            );
            line!(
                out,
                "| scenario | contestant | transactions/s | its ÷ PgBouncer's | latency µs | added µs | CPU ns | PgBouncer's ÷ its | switches | system calls | servers' CPU ns | servers' sleeps |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
            );
        }
        let latency: Quantity = |sample| Some(sample["latency_ms"].as_f64()? * 1e3);
        for name in figures::names(scenario) {
            let is_pooler = name != "direct";
            let median = |quantity: Quantity| middle(scenario, &name, quantity).map(|figure| figure.median);
            let added = if is_pooler { more(scenario, &name, "direct", latency) } else { None };
            let unless = |above: &str, below: &str, quantity: Quantity| {
                interval(if name == "pgbouncer" { None } else { ratio(scenario, above, below, quantity) }, 2)
            };
            line!(
                out,
                "| {} | {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                text(scenario, "about"),
                number(median(speed), 0),
                unless(&name, "pgbouncer", speed),
                number(median(latency), 1),
                interval(added, 1),
                number(median(cpu_ns_each), 0),
                unless("pgbouncer", &name, cpu_ns_each),
                number(median(switches_each), 2),
                number(calls_sum(scenario, &name), 2),
                number(median(servers_cpu_ns_each), 0),
                number(median(servers_sleeps_each), 2),
            );
        }
    }
}

fn instructions(out: &mut String, record: &Value) {
    let Some(all) = record["instructions"].as_object() else { return };
    line!(
        out,
        "\n## User-space instructions per transaction (callgrind)\n\n| load | contestant | instructions |\n|---|---|--:|"
    );
    for (case, contestants) in all {
        let known = crate::instructions::CASES.iter().find(|one| one.name == case);
        let style = known.map_or(case.as_str(), |one| one.about);
        if let Some(error) = contestants.as_str() {
            line!(out, "| {style} | not measured: {} | – |", error.lines().next().unwrap_or_default());
        }
        for (name, sample) in contestants.as_object().into_iter().flatten() {
            line!(out, "| {style} | {name} | {} |", number(sample["instructions_per_transaction"].as_f64(), 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missed_threshold_and_a_failure_are_plain_to_see() {
        let sample = |cpu: u64| json!({ "cpu_ns": cpu, "transactions": 10, "wall_ns": 1000 });
        let round = json!({ "order": [], "samples": { "pgbouncer": sample(100), "pgweir": sample(110) } });
        let record = json!({
            "scenarios": [
                { "name": "tcp-8", "about": "8 clients", "kind": "closed", "rounds": [round, round, round] },
                { "name": "unix-8", "about": "8 clients", "kind": "closed", "error": "it fell over" },
            ],
        });
        let table = table(&record);
        assert!(
            table.contains(
                "| tcp-8 | CPU, pgbouncer ÷ pgweir | 0.909 [0.909, 0.909] | ≥ 1.05 | MISSED | ≥ 1.3 | MISSED | – |"
            ),
            "{table}"
        );
        assert!(table.contains("**unix-8 was not measured**: it fell over"), "{table}");
        assert!(table.contains("| login-trust | CPU, pgbouncer ÷ pgweir | – | ≥ 1 | not measured |"), "{table}");
    }

    #[test]
    fn what_nothing_could_reach_is_plain_to_see() {
        let sample = |cpu: u64| json!({ "cpu_ns": cpu, "transactions": 10, "wall_ns": 1000 });
        let samples = json!({ "pgbouncer": sample(120), "pgweir": sample(110), "relay": sample(100) });
        let round = json!({ "order": [], "samples": samples });
        let scenario = json!({ "name": "tcp-8", "about": "8 clients", "kind": "closed", "rounds": [round] });
        let table = table(&json!({ "scenarios": [scenario] }));
        let line = table.lines().find(|line| line.starts_with("| tcp-8 |")).expect("judged");
        assert!(
            line.ends_with("≥ 1.05 | reached | ≥ 1.3 | MISSED, above the ceiling | 1.200 [1.200, 1.200] (10 ns) |"),
            "{line}"
        );
    }

    #[test]
    fn few_clients_show_what_the_servers_pay() {
        let pooler = |tps: u64, servers: u64| {
            json!({ "tps": tps, "latency_ms": 0.5, "cpu_ns": 2000, "transactions": 100, "voluntary_switches": 150,
                "involuntary_switches": 0, "servers_cpu_ns": servers, "servers_sleeps": 100 })
        };
        let direct = json!({ "tps": 2000, "latency_ms": 0.25, "transactions": 200 });
        let samples = json!({ "pgbouncer": pooler(1000, 4000), "pgweir": pooler(1100, 3000), "direct": direct });
        let round = json!({ "order": [], "samples": samples });
        let scenario = json!({ "name": "few-8", "about": "8 clients", "kind": "few", "rounds": [round] });
        let table = table(&json!({ "scenarios": [scenario] }));
        let line = |name: &str| table.lines().find(|line| line.starts_with(&format!("| 8 clients | {name} |")));
        assert_eq!(
            line("pgweir"),
            Some(
                "| 8 clients | pgweir | 1100 | 1.10 [1.10, 1.10] | 500.0 | 250.0 [250.0, 250.0] | 20 | 1.00 [1.00, 1.00] | 1.50 | – | 30 | 1.00 |"
            ),
            "{table}"
        );
        assert_eq!(
            line("direct"),
            Some("| 8 clients | direct | 2000 | 2.00 [2.00, 2.00] | 250.0 | – | – | – | – | – | – | – |"),
            "{table}"
        );
    }

    #[test]
    fn without_pgweir_nothing_is_judged() {
        assert!(table(&json!({ "scenarios": [] })).contains("no threshold is judged"));
    }
}
