//! `pool_idle_timeout` with the program: a pool that nobody uses goes from the console and from memory, and comes back.

use outer::{Client, Stage, Wishes, eventually};

/// The rows of a table of the console that are about a database.
fn rows(console: &mut Client, table: &str, database: &str) -> Vec<Vec<Option<String>>> {
    let answer = console.query(&format!("show {table}")).expect("the console answers");
    answer.rows.into_iter().filter(|row| row[0].as_deref() == Some(database)).collect()
}

#[test]
fn a_pool_that_nobody_uses_is_forgotten_and_its_counts_are_not() {
    let settings = [("pool_idle_timeout", "1"), ("server_idle_timeout", "0.3"), ("workers", "2")].into_iter();
    let settings = settings.map(|(name, value)| (name, value.to_owned())).collect();
    let mut stage = Stage::set(&Wishes { pool: 16, aliases: 1, settings, ..Wishes::default() });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let login = |stage: &Stage| Client::login(stage.pooler.address(), "postgres", "alias_0").expect("let in");
    // While one is connected the pool is used, however long the steps take.
    let keeper = login(&stage);
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..8).map(|_| login(&stage)).collect();
        clients.iter_mut().for_each(|client| drop(client.query("select 1").expect("served")));
    }
    assert_eq!(rows(&mut console, "pools", "alias_0").len(), 1);
    let counted = rows(&mut console, "stats_totals", "alias_0");
    drop(keeper);
    eventually("the pool is forgotten", || rows(&mut console, "pools", "alias_0").is_empty());
    // The log is written by a thread of its own.
    let told = |stage: &Stage| stage.pooler.log().matches("cleaning up idle pool alias_0/postgres").count();
    eventually("the log says so", || told(&stage) > 0);
    assert_eq!(told(&stage), 1, "{}", stage.pooler.log());
    assert_eq!(rows(&mut console, "stats_totals", "alias_0"), counted, "what it counted counts on");
    // Nothing else was forgotten, and it comes back as if nothing had been.
    let mut back = login(&stage);
    assert_eq!(back.query("select 'back'").expect("served").value(), Some("back"));
    assert_eq!(rows(&mut console, "pools", "alias_0").len(), 1);
    let queries = |rows: &[Vec<Option<String>>]| rows[0][3].as_deref().and_then(|text| text.parse::<u64>().ok());
    let now = rows(&mut console, "stats_totals", "alias_0");
    assert_eq!(queries(&now), queries(&counted).map(|before| before + 1), "{now:?}");
    stage.assert_healthy();
}
