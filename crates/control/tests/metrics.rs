//! Metrics as Prometheus reads them, from hand-made snapshots: `tests/metrics.txt`, which `UPDATE=1 cargo test -p control` writes anew.

mod world;

use std::collections::BTreeSet;
use std::path::Path;

use control::metrics::Format;
use control::{Detail, ShowInput};

#[test]
fn metrics_of_the_world() {
    let mut world = world::World::new();
    for snapshot in &mut world.snapshots {
        snapshot.clients.clear();
        snapshot.servers.clear();
    }
    let input = ShowInput { detail: Detail::Pools, ..world.show_input() };
    let text = control::metrics::text(&input, Format::Text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("our own file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "UPDATE=1 writes it anew");
    let series: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').expect("a value").0)
        .collect();
    let different: BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(series.len(), different.len(), "each series once");
    assert!(text.contains("pgbouncer_pools_client_active_connections{database=\"app\",user=\"app_owner\"} "));
    assert!(text.contains("pgweir_blocked_backends{server=\"db.example:5432\"} 2\n"), "{text}");
    // Statements and tags are for administrators at the console.
    for private in ["select", "orders", "carts"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

/// What a single look has seen would stay for ever.
#[test]
fn what_is_observed_is_left_out_while_nobody_observes() {
    let mut world = world::World::new();
    world.settings.global.observing.observe_interval = None;
    let text = control::metrics::text(&world.show_input(), Format::Text);
    assert!(text.contains("pgweir_history_seconds 1\n"), "{text}");
    for name in ["pgweir_observer", "pgweir_blocked", "pgweir_waits", "pgweir_holders"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
}
