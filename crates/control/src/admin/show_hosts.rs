//! `SHOW HOSTS`: the hosts of databases that have several, or that were probed: whether connections to them succeed, which is the primary, and why
//! clients are sent there or not. PgBouncer has no such table.
//!
//! Of all workers' observations the latest is shown. A host that has failed is up again, in its turn, once `server_login_retry` is over; until
//! somebody has tried it then, nothing is known of it. The role is what the last server that logged in, or the last probe, has shown. The findings of
//! the prober and of Patroni are beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use connections::databases::Address;
use machine::primaries::Writes;
use machine::{HostRole, HostState, Primary, Upstream};
use units::Time;

use crate::plane::HostProbe;
use crate::show_input::{ShowInput, host};
use crate::table::{Column, Table, Value, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("host"),
    int("port"),
    int("up"),
    int("observed"),
    int("retry_in"),
    text("role"),
    int("primary"),
    text("patroni"),
    int("timeline"),
    int("lag"),
    int("epoch"),
    int("no_primary"),
    int("disputed"),
    int("probed"),
    text("why"),
    text("databases"),
];

/// Each host as it was observed last by any worker.
pub(super) fn latest<'i>(input: &ShowInput<'i>) -> BTreeMap<(String, u16), (&'i Address, Upstream)> {
    let mut latest: BTreeMap<(String, u16), (&Address, Upstream)> = BTreeMap::new();
    for (address, upstream) in input.snapshots.iter().flat_map(|snapshot| &snapshot.hosts) {
        let Address { host: at, port } = address;
        let (_, known) = latest.entry((host(at), *port)).or_insert((address, *upstream));
        *known = (*known).max(*upstream);
    }
    latest
}

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let latest = latest(input);
    let now = input.now_in_snapshots();
    let decided = input.snapshots.first().map(|snapshot| &snapshot.primaries[..]).unwrap_or_default();
    let written_to = latest.values().filter(|(_, upstream)| upstream.role() == Some(HostRole::Primary));
    let accepts_writes: Vec<&Address> = written_to.map(|(address, _)| *address).collect();
    let position = |address: &Address| input.hosts_seen.get(address)?.probe.as_ref()?.position;
    let written = accepts_writes.iter().filter_map(|address| position(address)).max();
    let mut table = Table::new(COLUMNS);
    for ((host, port), (address, upstream)) in latest {
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
        let seen = input.hosts_seen.get(address);
        let probe = seen.and_then(|seen| seen.probe.as_ref());
        let own = decided.iter().filter(|(hosts, _)| hosts.contains(address)).map(|(_, primary)| primary);
        let epoch =
            own.clone().filter(|one| one.host().is_some_and(|host| **host == *address)).map(|one| one.epoch).max();
        let is_decided = own.clone().next().is_some();
        let no_primary = own.clone().any(|one| one.host().is_none_or(|host| !accepts_writes.contains(&&**host)));
        let is_disputed = own.clone().any(|one| one.writes == Writes::Disputed) && accepts_writes.contains(&address);
        table.push(vec![
            words(host),
            count(port),
            up.and_then(count),
            observed.and_then(count),
            retry_in.and_then(count),
            role.map(|role| role.as_str().into()),
            role.and_then(|role| count(u8::from(!role.is_standby()))),
            seen.and_then(|seen| seen.patroni.clone()).and_then(words),
            probe.and_then(|probe| probe.timeline).and_then(count),
            position(address).zip(written).and_then(|(own, written)| count(written.saturating_sub(own))),
            epoch.and_then(count),
            is_decided.then(|| u8::from(no_primary)).and_then(count),
            is_decided.then(|| u8::from(is_disputed)).and_then(count),
            probe.and_then(|probe| count(probe.ago.as_millis() as u64)),
            words(why(upstream, own.max_by_key(|one| one.since), address, probe, now)),
            databases(input, address),
        ]);
    }
    table
}

/// The databases that have it among their hosts.
fn databases(input: &ShowInput<'_>, address: &Address) -> Value {
    let own = input.settings.databases.iter().map(|(name, database)| (name.as_str(), database));
    let any = input.settings.fallback.iter().map(|database| ("*", database));
    let names = own.chain(any).filter(|(_, database)| database.hosts.contains(address)).map(|(name, _)| name);
    words(names.collect::<Vec<_>>().join(","))
}

/// Why clients that want to write are sent there, or are not.
pub(super) fn why(
    upstream: Upstream,
    decided: Option<&Primary>,
    address: &Address,
    probe: Option<&HostProbe>,
    now: Time,
) -> String {
    // The reader knows which host it is.
    let place = format!("cannot connect to {address}: ");
    let trouble = probe.and_then(|probe| probe.trouble.as_deref());
    let trouble = trouble.map(|words| words.strip_prefix(&*place).unwrap_or(words));
    match (upstream.state, decided.map(|one| &one.writes)) {
        (HostState::Silent, _) => "it does not answer".to_owned(),
        (HostState::Failed { .. }, _) if upstream.has_failed(now) => {
            trouble.unwrap_or("a connection has failed").to_owned()
        }
        (_, Some(Writes::At(host))) if **host == *address => "the primary".to_owned(),
        (HostState::Alive { role: Some(HostRole::Standby) }, _) => "a standby".to_owned(),
        (HostState::Alive { role: Some(HostRole::Primary) }, Some(Writes::Disputed)) => {
            "one of two primaries".to_owned()
        }
        (HostState::Alive { role: Some(HostRole::Primary) }, Some(Writes::At(_))) => {
            let was_passed_over = decided.is_some_and(|one| one.was_passed_over(address));
            if was_passed_over { "another host was named" } else { "another host is the primary" }.to_owned()
        }
        (HostState::Alive { role: Some(HostRole::Primary) }, _) => "it accepts writes".to_owned(),
        (HostState::Failed { .. } | HostState::Alive { role: None }, _) => {
            trouble.unwrap_or("nothing is known").to_owned()
        }
    }
}

/// Rounded up: 0 is over.
fn seconds(span: Duration) -> u64 {
    span.as_micros().div_ceil(1_000_000) as u64
}
