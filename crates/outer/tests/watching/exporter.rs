//! What pgbouncer_exporter makes of our console, and what we export ourselves under the same names: dashboards and alerts see no difference.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outer::{Program, Stage, Wishes, eventually};

/// Names of the exporter itself, and of the process that it runs in.
const ITS_OWN: [&str; 4] = ["pgbouncer_exporter_build_info", "go_", "process_", "promhttp_"];

/// It needs a look at each client: docs/guide/metrics.md says that it is left out.
const LEFT_OUT: &str = "pgbouncer_client_connections";

/// Many times what it takes.
const ALIKE_WITHIN: Duration = Duration::from_secs(120);

/// Ended with the test.
struct Exporter {
    process: Child,
    port: u16,
}

impl Exporter {
    fn start(program: &Program, url: &str) -> Exporter {
        let port = demo::free_port();
        let mut command = program.command();
        command.arg(format!("--pgBouncer.connectionString={url}?sslmode=disable"));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Exporter { process: command.spawn().expect("it starts"), port }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn get(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(120))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Types by name, and values by name and labels in the order of the alphabet.
#[derive(Debug, Default, PartialEq)]
struct Metrics {
    types: BTreeMap<String, String>,
    series: BTreeMap<String, f64>,
}

/// Those whose names begin with `pgbouncer_`, but for what only the exporter has.
fn metrics(page: &str) -> Metrics {
    let is_wanted = |name: &str| {
        let is_its_own = ITS_OWN.iter().any(|its| name.starts_with(its));
        name.starts_with("pgbouncer_") && !is_its_own && !name.starts_with(LEFT_OUT)
    };
    let mut metrics = Metrics::default();
    for line in page.lines().filter(|line| !line.starts_with("# HELP")) {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|words| words.split_once(' ')) {
            if is_wanted(name) {
                metrics.types.insert(name.to_owned(), kind.to_owned());
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        if is_wanted(name) {
            // No name or value here has a comma in it, but for the host, of which there is one.
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
            labels.sort_unstable();
            metrics.series.insert(format!("{name} {}", labels.join(",")), value.parse().expect("a number"));
        }
    }
    metrics
}

#[test]
fn our_metrics_are_those_that_the_exporter_makes_of_our_console() {
    let Some(program) = Program::built_by("exporter") else { return };
    let port = demo::free_port();
    let settings = vec![("http_listen", format!("127.0.0.1:{port}")), ("max_user_connections", "70".to_owned())];
    let mut stage = Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() });
    let mut clients: Vec<_> = (0..5).map(|_| stage.client()).collect();
    for client in &mut clients {
        client.query("begin; select pg_sleep(0.01); commit").expect("served");
    }
    // Its transaction lasts until the end.
    clients[0].query("begin").expect("served");
    let exporter = Exporter::start(&program, &stage.url_of("pgbouncer"));
    eventually("the exporter answers", || get(exporter.port).is_some_and(|page| page.contains("pgbouncer_up 1")));
    let its = || metrics(&get(exporter.port).unwrap_or_default());
    let ours = || metrics(&get(port).unwrap_or_default());
    eventually("both have all workers", || its().series.len() > 40 && ours().series.len() > 40);
    let (its_names, our_names) = (its(), ours());
    assert_eq!(our_names.types, its_names.types);
    let series = |metrics: &Metrics| metrics.series.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(series(&our_names), series(&its_names));
    // Nobody works but the exporter, whose own questions are counted, too: its counts of the console are of a moment within its questions.
    let mut different = Vec::new();
    let deadline = Instant::now() + ALIKE_WITHIN;
    loop {
        let its = its();
        let ours = ours();
        let differ =
            |name: &&String| its.series.get(*name).map(|value| value.to_bits()) != Some(ours.series[*name].to_bits());
        different.clear();
        different.extend(
            ours.series
                .keys()
                .filter(differ)
                .map(|name| (name.clone(), ours.series[name], its.series.get(name).copied())),
        );
        if different.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{different:?}");
    }
    drop(clients);
    stage.assert_healthy();
}
