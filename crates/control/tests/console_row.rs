//! The console is in SHOW POOLS and SHOW DATABASES even if no worker counts it, since the client that asks is on it.

mod world;

use control::Show;

#[test]
fn the_console_has_one_row_and_at_least_one_client() {
    let mut world = world::World::new();
    for snapshot in &mut world.snapshots {
        snapshot.pools.retain(|pool| &*pool.key.database != "pgbouncer");
        snapshot.clients.clear();
    }
    let rows_of = |world: &world::World, show: Show, column: usize| {
        let table = show.table(&world.show_input()).expect("a table");
        let rows = table.rows().filter(|row| row[0] == Some("pgbouncer"));
        rows.map(|row| row[column].expect("a number").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rows_of(&world, Show::Pools, 2), ["1"]);
    assert_eq!(rows_of(&world, Show::Databases, 14), ["1"]);
    // Administrators under their own names, on two workers, share the row.
    for (snapshot, user) in world.snapshots.iter_mut().zip(["adm", "sta"]) {
        snapshot.pools.push(world::pool(7, world::key("pgbouncer", user), Default::default()));
    }
    assert_eq!(rows_of(&world, Show::Pools, 2), ["1"]);
}
