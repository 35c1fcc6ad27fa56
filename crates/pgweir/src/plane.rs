//! The engine as the control plane sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use activity::History;
use control::past::Recall;
use control::{
    Asker, DoorFacts, EngineFacts, Exemplar, Exemplars, HostsSeen, KnownName, KnownNames, KnownZone, Plane, Sight,
    WorkerFacts,
};
use engine::{Counters, Handle};
use jiff::Zoned;
use machine::upgrade::ServersLeft;
use machine::{Hint, Level, Look, Orders, Settings, Snapshot, Stop, ToWorker};
use units::{ConnId, ProcessId, Serial, WorkerId};

use crate::hints::Hints;
use crate::memory;
use crate::observer::Observer;
use crate::place::Place;
use crate::probing::Probing;
use crate::supervisor::Supervisor;

/// How long a worker may take to answer. One that is busier than this is left out of what the console shows.
const LOOK: Duration = Duration::from_millis(500);

/// How long a thread may take to show that it lives.
const LIFE: Duration = Duration::from_secs(5);

/// A handle, in the control plane's words.
pub(crate) struct EnginePlane {
    handle: Handle,
    supervisor: Supervisor,
    place: Place,
    observer: Observer,
    probing: Probing,
    hints: Hints,
    /// The log was told something since the last answer.
    logged: bool,
}

impl EnginePlane {
    pub(crate) fn new(
        handle: Handle,
        supervisor: Supervisor,
        place: Place,
        (observer, probing, hints): (Observer, Probing, Hints),
    ) -> EnginePlane {
        EnginePlane { handle, supervisor, place, observer, probing, hints, logged: false }
    }

    /// Of traced statements, in the control plane's words.
    fn exemplars(&self) -> Exemplars {
        let told = |exemplar: engine::Exemplar| Exemplar {
            trace_id: exemplar.trace_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            waited_us: exemplar.waited_us,
            at: exemplar.at.duration_since(UNIX_EPOCH).unwrap_or_default(),
        };
        let of_pool = |buckets: BTreeMap<usize, engine::Exemplar>| {
            buckets.into_iter().map(|(bucket, exemplar)| (bucket, told(exemplar))).collect()
        };
        self.handle.traces.exemplars().into_iter().map(|(key, buckets)| (key, of_pool(buckets))).collect()
    }
}

impl Plane for EnginePlane {
    fn wall_clock(&self) -> Zoned {
        Zoned::now()
    }

    fn look(&mut self, look: Look) -> Vec<Snapshot> {
        let mut snapshots = self.handle.look(look, LOOK);
        snapshots.sort_by_key(|snapshot| snapshot.worker);
        snapshots
    }

    fn counters(&mut self) -> EngineFacts {
        let threads = self.handle.counters(LOOK);
        let mut sum = Counters::default();
        threads.iter().for_each(|thread| sum.add(&thread.counters));
        let workers = threads.iter().filter_map(|thread| Some(facts(thread.worker?, &thread.counters))).collect();
        let peer_pools = threads.iter().flat_map(|thread| thread.peer_pools.iter().copied()).collect();
        let door = DoorFacts { turned_away: sum.turned_away, refused: sum.refused_logins, logins: sum.logins };
        EngineFacts { workers, door, peer_pools, exemplars: self.exemplars() }
    }

    fn configure(&mut self, settings: Arc<Settings>) {
        self.observer.order(&settings.orders);
        self.probing.order(&settings);
        self.handle.configure(&settings);
    }

    fn stop(&mut self, stop: Stop) {
        self.supervisor.stopping();
        self.handle.stop(stop);
    }

    fn accept(&mut self, accepts: bool) {
        self.handle.accept(accepts);
    }

    fn hand_over(&mut self) {
        self.handle.accept(false);
        self.place.give();
        self.observer.rest(true);
        self.handle.hand_over();
    }

    fn end_what_stays(&mut self) {
        self.handle.end_what_stays();
    }

    fn take_back(&mut self, accepts: bool) {
        self.handle.process_left(ProcessId::Successor);
        self.place.take_back();
        self.observer.rest(false);
        if accepts {
            self.handle.accept(true);
        }
    }

    fn leave(&mut self) {
        self.handle.process_left(ProcessId::Successor);
        self.stop(Stop::WaitForTransactions);
    }

    fn order_predecessor(&mut self, orders: &Orders) {
        self.handle.other_control().order(orders.clone());
    }

    fn has_predecessor(&mut self) -> bool {
        self.handle.has_predecessor()
    }

    fn servers_elsewhere(&mut self) -> Option<Vec<ServersLeft>> {
        self.handle.other_control().servers()
    }

    fn tell_servers(&mut self, servers: Vec<ServersLeft>) {
        self.handle.other_control().tell_servers(servers);
    }

    fn predecessor_gone(&mut self) {
        self.place.predecessor_gone();
    }

    fn is_left(&mut self) -> bool {
        let snapshots = self.handle.look(Look::Pools, LOOK);
        let threads = self.handle.counters(LOOK);
        let logins: u64 = threads.iter().map(|thread| thread.counters.logins).sum();
        snapshots.len() < usize::from(self.handle.workers())
            || threads.is_empty()
            || logins > 0
            || snapshots.iter().any(|snapshot| snapshot.sessions > 0)
            || self.handle.has_unwritten()
            || self.handle.has_predecessor()
    }

    fn kill_client(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.handle.kill(worker, ToWorker::KillClient { conn, serial });
    }

    fn kill_query(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.handle.kill(worker, ToWorker::KillQuery { conn, serial });
    }

    fn answer(&mut self, to: Asker, bytes: Vec<u8>, close: bool) {
        // "See logs for additional details": they are there when this is read.
        if std::mem::take(&mut self.logged) {
            self.handle.log().flush();
        }
        self.handle.answer(to.worker, to.conn, bytes, close);
    }

    fn log_lines_lost(&mut self) -> u64 {
        self.handle.log().lost()
    }

    fn names(&mut self) -> KnownNames {
        let seen = self.handle.names();
        let host = |host: names::KnownName| KnownName { name: host.name, ttl: host.ttl, addresses: host.addresses };
        let zone = |zone: names::Zone| KnownZone { name: zone.name, serial: zone.serial, hosts: zone.names };
        let hosts = seen.names.into_iter().map(host).collect();
        KnownNames { hosts, zones: seen.zones.into_iter().map(zone).collect(), lookups: seen.lookups }
    }

    fn hint(&mut self, hint: Hint) {
        self.hints.hint(&hint);
    }

    fn hosts_seen(&mut self) -> HostsSeen {
        let mut seen = self.probing.seen();
        for (host, role) in self.hints.patroni_roles() {
            seen.entry(host).or_default().patroni = Some(role);
        }
        seen
    }

    fn forget_names(&mut self) {
        self.handle.forget_names();
    }

    fn show_life(&mut self) {
        if self.handle.answers(LIFE) {
            self.supervisor.alive();
        }
    }

    fn history(&mut self) -> Option<Arc<Mutex<History>>> {
        Some(Arc::clone(&self.observer.past().history))
    }

    fn recall(&mut self, number: u64, wanted: Recall) -> bool {
        self.observer.recall(number, wanted)
    }

    fn observe(&mut self, sight: Sight) -> bool {
        self.observer.look(sight)
    }

    fn give_memory_back(&mut self) {
        memory::give_back();
    }

    fn tell(&mut self, level: Level, text: String) {
        self.handle.log().say(level, text);
        self.logged = true;
    }
}

fn facts(worker: WorkerId, counters: &Counters) -> WorkerFacts {
    WorkerFacts {
        worker: worker.0,
        rounds: counters.rounds,
        recvs: counters.recvs,
        sends: counters.sends,
        epoll_ctls: counters.epoll_ctls,
        wakes: counters.wakes_sent + counters.wakes_taken,
        returned: counters.returned,
        panics: counters.panics,
    }
}
