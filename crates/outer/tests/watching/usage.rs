//! Memory and processors of backends, where PostgreSQL runs beside the pooler.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use outer::{Client, Stage, Wishes, binary, eventually, frontend};

const MEGABYTE: f64 = 1_048_576.0;

type Shown = BTreeMap<String, Option<String>>;

fn activity(stage: &Stage) -> Vec<Shown> {
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query("show activity").expect("connected");
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    answer.rows.iter().map(|row| answer.names.iter().cloned().zip(row.iter().cloned()).collect()).collect()
}

fn number(row: &Shown, name: &str) -> Option<f64> {
    row[name].as_deref()?.parse().ok()
}

#[test]
fn a_backend_that_takes_memory_and_one_that_computes_are_seen() {
    // It observes where a setting of the observer's is given.
    let settings = vec![("observe_memory", "67108864".to_owned())];
    let stage = Stage::set(&Wishes { pool: 4, settings, ..Wishes::default() });
    let mut large = stage.client();
    // Five million numbers of eight bytes are kept while it sleeps.
    let hoards = "select array_length(array_agg(g::bigint), 1), pg_sleep(3600) from generate_series(1, 5000000) g";
    large.send(&frontend::query(hoards)).expect("connected");
    let mut computes = stage.client();
    computes
        .send(&frontend::query(
            "select sum(length(md5(g::text))) from (select generate_series(1, 1000000000) as g) as computes",
        ))
        .expect("connected");
    let of = |text: &str| {
        activity(&stage).into_iter().find(|row| row["query"].as_deref().is_some_and(|sql| sql.contains(text)))
    };
    eventually("the memory is seen", || {
        of("array_agg").is_some_and(|row| number(&row, "memory").is_some_and(|bytes| bytes > 40.0 * MEGABYTE))
    });
    eventually("it computes", || {
        of("computes").is_some_and(|row| number(&row, "cpu").is_some_and(|percent| percent > 1.0 && percent < 200.0))
    });
    let row = of("computes").expect("it still does");
    assert!(number(&row, "cpu_time").is_some_and(|seconds| seconds > 0.0), "{row:?}");
    assert!(number(&row, "memory").is_some_and(|bytes| bytes > 100_000.0 && bytes < 40.0 * MEGABYTE), "{row:?}");
    // Pages of shared_buffers do not count as a backend's own memory, so a backend that has read much has little.
    let status =
        |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is a process of this machine");
    assert!(status(row["pid"].as_deref().expect("it has one")).contains("Name:\tpostgres"));

    let url = stage.url_of("pgbouncer");
    let shown = || {
        let top =
            Command::new(binary()).args(["top", &url, "--once", "--view", "clients"]).stdin(Stdio::null()).output();
        String::from_utf8(top.expect("it starts").stdout).expect("UTF-8")
    };
    eventually("top shows it", || {
        let text = shown();
        let line = text.lines().find(|line| line.contains("array_agg")).unwrap_or_default();
        text.contains("memory") && line.contains(" MB")
    });
}
