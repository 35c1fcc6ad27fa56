//! `SHOW HOSTS`: the hosts of databases that have several, whether connections to them succeed, and which is the primary. PgBouncer has no such table.
//!
//! Of all workers' observations the latest is shown. A host that has failed is up again, in its turn, once `server_login_retry` is over; until
//! somebody has tried it then, nothing is known of it. The role is what the last server that logged in has reported: PostgreSQL before 14 reports
//! none. What Patroni says of a host is beside it, where `patroni_urls` has it asked.

use std::collections::BTreeMap;
use std::time::Duration;

use connections::databases::Address;
use machine::{HostState, Upstream};

use crate::show_input::{ShowInput, host};
use crate::table::{Column, Table, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("host"),
    int("port"),
    int("up"),
    int("observed"),
    int("retry_in"),
    text("role"),
    int("primary"),
    text("patroni"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut latest: BTreeMap<(String, u16), (Upstream, Option<&String>)> = BTreeMap::new();
    for (address, upstream) in input.snapshots.iter().flat_map(|snapshot| &snapshot.hosts) {
        let Address { host: at, port } = address;
        let patroni = input.patroni_roles.get(address);
        let (known, _) = latest.entry((host(at), *port)).or_insert((*upstream, patroni));
        *known = (*known).max(*upstream);
    }
    let now = input.snapshots.iter().map(|snapshot| snapshot.now).max().unwrap_or_default();
    let mut table = Table::new(COLUMNS);
    for ((host, port), (upstream, patroni)) in latest {
        let tried = (upstream != Upstream::UNTRIED).then_some(upstream);
        let up = tried.and_then(|tried| match tried.state {
            HostState::Alive { .. } => Some(1),
            HostState::Failed { .. } | HostState::Silent => tried.has_failed(now).then_some(0),
        });
        let retry_in = match upstream.state {
            HostState::Failed { until } if now < until => Some(seconds(until.since(now))),
            HostState::Failed { .. } | HostState::Silent | HostState::Alive { .. } => None,
        };
        let role = upstream.role();
        let observed = tried.map(|tried| now.since(tried.at).as_secs());
        table.push(vec![
            words(host),
            count(port),
            up.and_then(count),
            observed.and_then(count),
            retry_in.and_then(count),
            role.map(|role| role.as_str().into()),
            role.and_then(|role| count(u8::from(!role.is_standby()))),
            patroni.cloned().and_then(words),
        ]);
    }
    table
}

/// Rounded up: 0 is over.
fn seconds(span: Duration) -> u64 {
    span.as_micros().div_ceil(1_000_000) as u64
}
