//! `pool_size = auto` in front of PostgreSQL: it finds some size, and tells what PostgreSQL says that the pool's servers wait for.

use outer::{Client, Pgbench, Stage, Wishes, eventually};

/// All want the same row, and whoever has it holds it for a while.
const SCRIPT: &str = "begin;\nupdate one set n = n + 1;\nselect pg_sleep(0.002);\ncommit;\n";

#[test]
fn what_servers_wait_for_is_told() {
    let settings = vec![("default_pool_size", "auto".to_owned()), ("auto_pool_size_min", "6".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    assert_eq!(stage.direct("create table one (n int)"), "");
    assert_eq!(stage.direct("insert into one values (0)"), "");
    let script = stage.pooler.dir().join("one.sql");
    std::fs::write(&script, SCRIPT).expect("our own directory");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let path = script.display().to_string();
    let run = std::thread::scope(|scope| {
        let load = scope.spawn(|| Pgbench::run(&stage, &["-f", &path, "-c", "24", "-j", "2", "-T", "5"]));
        eventually("it tells of locks", || told(&mut console).contains(" wait for Lock t"));
        load.join().expect("it ends")
    });
    let run = run.unwrap_or_else(|wrote| panic!("{wrote}"));
    println!("{}; {:.0} tps", told(&mut console), run.tps);
    assert_eq!((run.failed, run.complaints.as_str()), (0, ""));
    assert_eq!(stage.direct("select n from one"), run.transactions.to_string());
    stage.assert_healthy();
}

/// The column `waits` of the one pool whose size is found; empty: nothing.
fn told(console: &mut Client) -> String {
    let answer = console.query("show sizing").expect("an answer");
    let at = answer.names.iter().position(|name| name == "waits").expect("a column of its own");
    answer.rows.first().and_then(|row| row[at].clone()).unwrap_or_default()
}
