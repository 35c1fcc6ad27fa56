//! How a transcript shows that a statement is traced.

use machine::About;
use machine::trace::TracedStatement;

use crate::runner::world::World;

/// `trace a: queue 1.2 ms, opening 0.3 ms, execute 0.5 ms of "select 1", failed, in 4bf9…/00f0…`
pub(crate) fn note(world: &mut World, traced: &TracedStatement) {
    let millis = |micros: u64| format!("{}.{:03} ms", micros / 1_000, micros % 1_000);
    let hex = |bytes: &[u8]| bytes.iter().take(2).map(|byte| format!("{byte:02x}")).collect::<String>();
    let About::Client { conn, .. } = &traced.client else { return };
    let who = world.by_id.get(conn).map_or_else(String::new, |&socket| world.sockets[socket].name.clone());
    let opened = traced.opened_us.map(|micros| format!(" opening {}", millis(micros))).unwrap_or_default();
    let failed = if traced.has_failed { " failed" } else { "" };
    let trace = match &traced.origin.parent {
        Some((parent, state)) => format!("{}/{} {state}", hex(&parent.trace_id), hex(&parent.span_id)),
        None => format!("a trace of its own, begun at {}", millis(traced.origin.begun_at.0)),
    };
    let text = String::from_utf8_lossy(&traced.text).into_owned();
    let (queued, ran) = (millis(traced.queued_us), millis(traced.ran_us));
    world.note(format!("trace {who}: queue {queued}{opened} execute {ran}{failed} {text:?} in {}", trace.trim_end()));
}
