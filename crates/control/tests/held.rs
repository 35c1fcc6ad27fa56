//! `SHOW WHY` begins with databases that are held because no host of theirs may be written to.

mod world;

use std::sync::Arc;

use connections::databases::{Address, Host, TargetSessionAttrs};
use control::Show;
use machine::primaries::Writes;
use machine::{HostRole, HostState, Primary, Upstream};
use settings::PoolMode;
use units::Time;
use world::World;

const NAMES: [&str; 3] = ["db1", "db2", "db3"];
const SECOND: u64 = 1_000_000;

fn address(name: &str) -> Address {
    Address { host: Host::Name(name.to_owned()), port: 5432 }
}

/// The database shop, and another one with the same hosts that wants standbys. 100 s after the start its hosts have been in these states for
/// 7 s, and `waiting` clients wait for it.
fn seen(states: [HostState; 3], decided: Option<Writes>, waiting: u32) -> World {
    let mut world = World::new();
    let hosts = NAMES.map(address).to_vec();
    for (name, attrs) in [("shop", TargetSessionAttrs::ReadWrite), ("reports", TargetSessionAttrs::Standby)] {
        let mut database = world::database(name, hosts.iter().map(|address| address.host.clone()).collect());
        database.target_session_attrs = attrs;
        world.settings.databases.insert(name.to_owned(), Arc::new(database));
    }
    let since = Time(93 * SECOND);
    let snapshot = &mut world.snapshots[0];
    snapshot.now = Time(100 * SECOND);
    snapshot.hosts = hosts.iter().cloned().zip(states.map(|state| Upstream::new(since, state))).collect();
    if let Some(writes) = decided {
        let mut primary = Primary::default();
        (primary.writes, primary.since, primary.epoch) = (writes, since, 3);
        snapshot.primaries = vec![(hosts.into(), primary)];
    }
    let mut pool = world::pool(90, world::key("shop", "web"), PoolMode::Transaction);
    (pool.clients.waiting, pool.maxwait_us) = (waiting, 6_500_000);
    snapshot.pools.push(pool);
    world
}

/// The rows that are no verdict on the pool of another database.
fn rows(world: &World) -> Vec<Vec<Option<String>>> {
    let table = Show::Why.table(&world.show_input()).expect("a table");
    let owned = |row: Vec<Option<&str>>| row.into_iter().map(|value| value.map(str::to_owned)).collect();
    table.rows().map(owned).filter(|row: &Vec<Option<String>>| row[0].as_deref() != Some("app")).collect()
}

fn sentence(world: &World) -> Option<String> {
    rows(world).first().and_then(|row| row[5].clone())
}

const STANDBY: HostState = HostState::Alive { role: Some(HostRole::Standby) };
const PRIMARY: HostState = HostState::Alive { role: Some(HostRole::Primary) };
const UNKNOWN: HostState = HostState::Alive { role: None };

fn at(name: &str) -> Option<Writes> {
    Some(Writes::At(Arc::new(address(name))))
}

#[test]
fn a_database_without_a_primary_is_said_with_its_hosts_and_clients() {
    let world = seen([HostState::Silent, STANDBY, HostState::Failed { until: Time(200 * SECOND) }], at("db1"), 20);
    let expected = "shop: no host accepts writes, for 7 s (db1:5432: it does not answer, db2:5432: a standby, db3:5432: a connection has failed). \
                    20 clients wait, until failover_wait is over. Promoting a standby is for Patroni, repmgr or you: SHOW HOSTS;";
    let rows = rows(&world);
    assert_eq!(rows.len(), 1, "reports needs no primary: {rows:?}");
    let value = |at: usize| rows[0][at].as_deref();
    assert_eq!(value(5), Some(expected));
    assert_eq!([value(0), value(1), value(2), value(3)], [Some("shop"), None, Some("20"), Some("6.500")]);
    assert_eq!([value(4), value(9)], [Some("consequence"), Some("no primary")]);
}

#[test]
fn two_that_accept_writes_are_named() {
    let world = seen([PRIMARY, PRIMARY, STANDBY], Some(Writes::Disputed), 1);
    let expected = "shop: two hosts accept writes, for 7 s (db1:5432, db2:5432), and split_brain is hold. \
                    1 client waits, until failover_wait is over. Stop one of them, or name the right one: PROMOTED host;";
    assert_eq!(sentence(&world).as_deref(), Some(expected));
    assert_eq!(rows(&world)[0][9].as_deref(), Some("two primaries"));
}

#[test]
fn where_a_primary_is_known_or_nobody_misses_one_nothing_is_said() {
    let failed = HostState::Failed { until: Time(200 * SECOND) };
    let over = HostState::Failed { until: Time(99 * SECOND) };
    let table = [
        ("all is well", [PRIMARY, STANDBY, STANDBY], at("db1"), 20, false),
        ("an old primary wakes up", [PRIMARY, PRIMARY, STANDBY], at("db2"), 20, false),
        ("only the old primary accepts writes", [PRIMARY, failed, STANDBY], at("db2"), 0, true),
        ("nothing was looked at", [UNKNOWN; 3], Some(Writes::Unknown), 0, false),
        ("nothing was looked at, and a client waits", [UNKNOWN; 3], Some(Writes::Unknown), 1, true),
        ("standbys only", [STANDBY; 3], Some(Writes::Unknown), 0, true),
        ("the primary may be back", [over, STANDBY, STANDBY], at("db1"), 0, false),
        ("there is no decision, and a primary", [STANDBY, PRIMARY, STANDBY], None, 1, false),
        ("there is no decision, and no primary", [STANDBY, failed, STANDBY], None, 0, true),
    ];
    for (what, states, decided, waiting, is_said) in table {
        assert_eq!(sentence(&seen(states, decided, waiting)).is_some(), is_said, "{what}");
    }
}

#[test]
fn many_databases_of_the_same_hosts_are_one_row() {
    let mut world = seen([STANDBY; 3], at("db1"), 0);
    let shop = Arc::clone(&world.settings.databases["shop"]);
    for name in ["a", "b", "c"] {
        world.settings.databases.insert(name.to_owned(), Arc::clone(&shop));
    }
    let rows = rows(&world);
    assert_eq!(rows.iter().map(|row| row[0].as_deref()).collect::<Vec<_>>(), [Some("a, b, c and 1 more")]);
    assert!(rows[0][5].as_deref().is_some_and(|text| text.contains("No client waits for that yet.")), "{rows:?}");
}
