//! Other processes of the pooler: what reaches them, and what they do with it.
//!
//! Promises that a sibling is sent only cancel requests for its own clients, counted down, no oftener than they were given to
//! the door, and over no more connections than its pool has. Siblings refuse, are silent, talk nonsense, close at once, and
//! send requests back as a badly set balancer would.

use std::collections::BTreeMap;

use machine::peering::{self, PeerId};
use units::Kind;
use wire::frontend::{Startup, parse_startup};

use super::World;
use crate::agenda::Happening;
use crate::link::{Leaving, LinkId, Peer};
use crate::random::Random;
use crate::secret::Secret;

/// The ports of siblings begin here; those of databases below.
pub(super) const FIRST_PORT: u16 = 7000;

/// What siblings may be sent.
#[derive(Debug)]
pub(super) struct Siblings {
    random: Random,
    /// How often each key may still come.
    owed: BTreeMap<(i32, Vec<u8>), u32>,
}

impl Siblings {
    pub(super) fn new(seed: u64) -> Siblings {
        Siblings { random: Random::new(seed ^ 0x7369_626c_696e_6773), owed: BTreeMap::new() }
    }

    /// The door is about to get a request with this key.
    fn expect(&mut self, pid: i32, mut secret: Secret) {
        if peering::count_down(secret.as_mut_slice()) {
            *self.owed.entry((pid, secret.as_slice().to_vec())).or_default() += 1;
        }
    }
}

/// A client cancels its query: straight, or by a sibling that it has reached instead. Sometimes a sibling's client has reached us.
/// `client`: it waits for the end of its connection.
pub(super) fn send_cancel(world: &mut World, pid: i32, mut secret: Secret, client: Option<(u32, u32)>) {
    let World { course, pooler, siblings, .. } = world;
    let others: Vec<PeerId> = course.plan.settings.peers().map(|(id, _)| id).collect();
    if others.is_empty() {
        return pooler.send_cancel(course, pid, secret, client);
    }
    let random = &mut siblings.random;
    if peering::is_ours(pid) && random.chance(400) {
        (0..random.range(1, 3)).for_each(|_| _ = peering::count_down(secret.as_mut_slice()));
        course.census.siblings.came_by += 1;
    }
    pooler.send_cancel(course, pid, secret, client);
    for _ in 0..siblings.random.below(4) {
        let random = &mut siblings.random;
        let pid = peering::new_pid(*random.pick(&others), &mut units::random::Random::new(random.bytes()));
        let seed = (random.next() as u32).to_be_bytes();
        let secret = Secret::stretched(seed, if random.chance(300) { 32 } else { 4 });
        siblings.expect(pid, secret);
        course.census.siblings.asked += 1;
        pooler.send_cancel(course, pid, secret, None);
    }
}

/// The connection of a client's CancelRequest has ended.
pub(super) fn cancel_ended(world: &mut World, (index, number): (u32, u32), is_cut: bool) {
    let World { course, crowd, .. } = world;
    let Some(client) = crowd.at_mut(index, number) else { return };
    client.cancels.end(course.now(), is_cut, &course.plan);
    world.client_awakes(index, number);
}

/// The door opens a connection to a sibling.
pub(super) fn open(world: &mut World, node: u16, conn: units::ConnId, number: u16) {
    let World { course, pooler, siblings, .. } = world;
    let (up, down) = (course.room(), course.room());
    let id = pooler.network.open(Peer::Sibling(number), up, down);
    pooler.adopt(node, conn, id);
    let peer = PeerId(number);
    let Some(most) =
        course.plan.all_settings().filter_map(|settings| settings.peer(peer)).map(|peer| peer.pool_size).max()
    else {
        return course.fail(4, format!("a connection is opened to {peer:?}, which no settings have"));
    };
    let is_its = |link: &LinkId| pooler.network.get(*link).is_some_and(|link| link.peer.who == Peer::Sibling(number));
    let open = pooler.machines.node(node).all(Kind::Peer).filter(|(_, link)| is_its(link)).count();
    if open > most as usize {
        course.fail(5, format!("{open} connections to {peer:?}, which may have {most}"));
    }
    let (delay, is_working) = (course.delay(), course.is_working());
    if is_working && siblings.random.chance(50) {
        return course.note_trouble();
    }
    let refused = is_working && siblings.random.chance(100);
    course.after(delay, Happening::Connected { link: id, stands: !refused });
}

/// Something has come to a sibling.
pub(super) fn awake(world: &mut World, id: LinkId) {
    let World { course, pooler, siblings, .. } = world;
    let Some(link) = pooler.network.get_mut(id).filter(|link| !link.peer.closed) else { return };
    let Peer::Sibling(number) = link.peer.who else { return };
    if link.down.end_arrived {
        return pooler.close_peer(course, id, Leaving::Orderly);
    }
    let (request, used) = match parse_startup(link.down.readable()) {
        Ok(Some((Startup::Cancel(request), used))) => (Some((request.pid, Secret::read(request.secret))), used),
        Ok(Some((Startup::Ssl, used))) => (None, used),
        Ok(None) => return,
        other => return course.fail(4, format!("a sibling is sent {other:?}")),
    };
    link.down.consume(used);
    let random = &mut siblings.random;
    let Some((pid, secret)) = request else {
        let answer = if random.chance(600) { b"S" } else { b"N" };
        link.up.force(answer);
        return pooler.network.pump(course, id, true);
    };
    let owed = secret.and_then(|secret| Some((secret, siblings.owed.get_mut(&(pid, secret.as_slice().to_vec()))?)));
    let Some((secret, owed)) = owed.filter(|(_, owed)| **owed > 0 && peering::owner(pid) == PeerId(number)) else {
        return course.fail(4, format!("sibling {number} is sent a cancel that is not for it, or once too often"));
    };
    *owed -= 1;
    course.census.siblings.got += 1;
    match siblings.random.below(10) {
        // It never answers.
        0 => {}
        1 => {
            link.up.force(b"R\0\0\0\x08\0\0\0\0");
            pooler.network.pump(course, id, true);
        }
        2 => pooler.close_peer(course, id, Leaving::Cut),
        3 | 4 => {
            pooler.close_peer(course, id, Leaving::Orderly);
            siblings.expect(pid, secret);
            course.census.siblings.sent_back += 1;
            pooler.send_cancel(course, pid, secret, None);
        }
        _ => pooler.close_peer(course, id, Leaving::Orderly),
    }
}
