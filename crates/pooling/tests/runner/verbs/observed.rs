//! What a snapshot tells of clients that are busy.

use machine::{Look, Snapshot};
use units::Time;

use crate::runner::words::Words;
use crate::runner::world::World;

/// `doing`: what each client does that a look at the busy ones shows.
pub(crate) fn doing(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Busy);
        let lines: Vec<String> = lines(world, snapshot);
        lines.into_iter().for_each(|line| world.note(line));
    }
    words.end()
}

fn lines(world: &World, snapshot: Snapshot) -> Vec<String> {
    let ago = |at: Time| format!("{:?}", world.now.since(at));
    let line = |client: machine::snapshot::ClientSnapshot| {
        let doing = client.doing;
        let socket = world.sockets.iter().find(|socket| socket.id == Some(client.conn));
        let parts = [
            doing.statement.map(|statement| format!("statement {statement:016x}")),
            doing.began_at.map(|at| format!("transaction began {} ago", ago(at))),
            (doing.waited_us > 0).then(|| format!("had waited {} us", doing.waited_us)),
            doing.idle_since.map(|at| format!("idle in transaction for {}", ago(at))),
            doing.has_failed.then(|| "failed".to_owned()),
            doing.waits_with.map(|text| format!("waits with {text:?}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let name = socket.map_or_else(String::new, |socket| socket.name.clone());
        format!("{name} is {}: {}", client.state, parts.join(", "))
    };
    snapshot.clients.into_iter().map(line).collect()
}

/// `queries`: the lines of SHOW QUERIES for each worker, what is not zero of them.
pub(crate) fn queries(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Statements);
        for row in snapshot.queries {
            let counts = row.counts;
            let shown = [
                ("calls", counts.calls),
                ("errors", counts.errors),
                ("rows", counts.rows),
                ("bytes", counts.bytes),
                ("queue_us", counts.queue_us),
                ("run_us", counts.run_us),
                ("run_max_us", counts.run_max_us),
            ];
            let shown: Vec<String> =
                shown.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}={count}")).collect();
            let text = if row.fingerprint.is_some() { format!("{:?}", row.text) } else { "others".to_owned() };
            world.note(format!("{}/{} {text}: {}", row.key.database, row.key.user, shown.join(" ")));
        }
    }
    words.end()
}
