//! An administrator who gives orders during the work, whatever consoles order at the same time, and takes back what pauses the pooler.
//!
//! ```text
//!   Order ─► the desk ─► orders ─► every machine          Review ─► Look ─► every worker ─► the desk: PAUSE is answered
//! ```
//!
//! Whoever types PAUSE must be answered, and then no server may be there (I16). What is paused is resumed within two seconds: then everybody
//! who waits must be served, or the world does not end.

use std::collections::BTreeMap;

use machine::{Mail, Question, ToWorker, snapshot::PoolSnapshot};
use units::{ConnId, Kind, PoolKey, Time, WorkerId};

use super::World;
use crate::agenda::Happening;
use crate::desk::{REVIEW_US, Served};
use control::Asker;
use machine::mail::Place;

/// Orders that are given, with the most frequent more than once. `DB` stands for a database's name.
const ORDERS: [&str; 14] = [
    "pause",
    "pause DB",
    "pause DB",
    "resume",
    "resume DB",
    "reconnect",
    "reconnect DB",
    "wait_close",
    "wait_close DB",
    "disable DB",
    "enable DB",
    "kill DB",
    "kill_client ID",
    "reload",
];

/// How long something stays paused or disabled, at most.
const PAUSED_MAX_US: u64 = 2_000_000;

/// How long after RESUME clients that wait must have a server.
const SERVED_US: u64 = 1_000_000;

/// Who gives the orders: no connection has this id.
fn nobody() -> Asker {
    Asker { worker: WorkerId(0), conn: ConnId::new(Kind::Client, 0, (1 << 20) - 1, 0) }
}

impl World {
    /// Gives one order, and plans the next.
    pub(super) fn order(&mut self) {
        if !self.course.is_working() {
            return;
        }
        let order = *self.orders.pick(&ORDERS);
        let text = self.filled(order);
        self.course.census.world.orders += 1;
        self.serve_order(&text);
        let pause = self.orders.skewed(10_000, 1_000_000);
        self.course.after(pause, Happening::Order);
        let until = self.orders.skewed(1_000, PAUSED_MAX_US);
        self.course.after(until, Happening::Relief);
    }

    /// Takes back all that keeps clients from being served.
    pub(super) fn relieve(&mut self) {
        let names: Vec<String> = self.course.plan.databases.iter().map(|database| database.name.clone()).collect();
        for name in names {
            self.serve_order(&format!("resume \"{name}\""));
            self.serve_order(&format!("enable \"{name}\""));
        }
        self.serve_order("resume");
        let now = self.course.now();
        self.course.after(SERVED_US, Happening::Relieved(now));
    }

    /// I16: a second after everything was resumed, a pool whose clients wait has servers, unless something else has happened meanwhile or
    /// pools share a cap.
    pub(super) fn check_relieved(&mut self, since: u64) {
        let (plan, pools) = (&self.course.plan, &self.course.plan.settings.global.pools);
        let databases = plan.settings.databases.values().chain(&plan.settings.fallback);
        let is_capped = pools.max_user_connections > 0
            || pools.max_db_connections > 0
            || pools.max_server_connections > 0
            || plan.settings.users.values().any(|user| user.max_user_connections.is_some())
            || databases.into_iter().any(|database| database.settings.max_db_connections.is_some());
        let has_changed = self.ordered_at > since || self.desk.awaits_servers();
        let is_troubled = self.course.trouble_at().is_some() || self.course.fault_at().is_some();
        let is_slow = plan.weather.pieces > 0 || plan.weather.late > 0 || plan.weather.delay_max > 20_000;
        if is_capped || has_changed || is_troubled || is_slow || plan.is_limited() {
            return;
        }
        let mut pools: BTreeMap<PoolKey, (u32, u32)> = BTreeMap::new();
        for pool in self.snapshots(false).flat_map(|shown| shown.pools) {
            let (waiting, open) = pools.entry(pool.key).or_default();
            (*waiting, *open) = (*waiting + pool.clients.waiting, *open + pool.open_servers);
        }
        self.course.census.world.reliefs += 1;
        if let Some((key, (waiting, _))) = pools.into_iter().find(|(_, (waiting, open))| *waiting > 0 && *open == 0) {
            self.course.fail(16, format!("{key:?}: a second after RESUME {waiting} wait and no server is open"));
        }
    }

    /// An order with a database and a client that are there.
    fn filled(&mut self, order: &str) -> String {
        let database = self.orders.pick(&self.course.plan.databases).name.clone();
        let id = order.contains("ID").then(|| {
            let ids: Vec<i32> =
                self.snapshots(true).flat_map(|shown| shown.clients).map(|client| client.serial.0).collect();
            if ids.is_empty() { 1 } else { *self.orders.pick(&ids) }
        });
        let text = order.replace("DB", &format!("\"{database}\""));
        text.replace("ID", &id.unwrap_or_default().to_string())
    }

    fn serve_order(&mut self, text: &str) {
        self.note_order(text);
        self.ordered_at = self.course.now();
        let question = Question { text: text.as_bytes().to_vec(), user: "operator".into(), admin: true };
        let shown: Vec<_> = self.snapshots(true).collect();
        let served = self.desk.serve_at_once(nobody(), question, shown, &self.course.plan.settings);
        self.course.note(|| format!("the operator: {text}"));
        self.obey(served);
    }

    /// What an order may do to clients from now on.
    pub(super) fn note_order(&mut self, text: &str) {
        let text = text.trim().to_ascii_lowercase();
        let ordered = &mut self.course.plan.ordered;
        let of = |word: &str| text.split([' ', ';']).next() == Some(word);
        ordered.changes |= !of("show");
        ordered.pauses |= of("pause") || of("kill") || of("reconnect");
        ordered.kills |= of("kill");
        ordered.client_kills |= of("kill_client");
        ordered.disables |= of("disable");
    }

    /// Carries out what an order has led to, and answers whoever has waited.
    fn obey(&mut self, served: Served) {
        if let Some(settings) = served.configured {
            self.course.plan.settings = settings;
            self.checks.note_reload(self.course.now());
            self.pooler.configure(&mut self.course);
        }
        for (worker, conn, serial) in served.killed {
            let mail = Mail::ToWorker(worker, ToWorker::KillClient { conn, serial });
            if let Some(node) = self.pooler.machines.find(Place::Worker(worker)) {
                self.pooler.machines.deliver_from_desk(&mut self.course, node, mail);
            }
        }
        for (asker, bytes, close) in served.answers {
            self.hand_over(asker, bytes, close);
        }
        self.plan_review();
    }

    /// Has it looked soon whether what commands wait for has come.
    pub(super) fn plan_review(&mut self) {
        if self.desk.awaits_servers() && !std::mem::replace(&mut self.is_reviewing, true) {
            self.course.after(REVIEW_US, Happening::Review);
        }
    }

    /// Looks whether what commands wait for has come.
    pub(super) fn review(&mut self) {
        self.is_reviewing = false;
        let ticket = self.desk.ask_for_review();
        self.look_for(ticket);
    }

    /// The snapshots for a review have come. For these databases (`None`: all) PAUSE is answered.
    pub(super) fn reviewed(&mut self, served: Served, paused: &[Option<String>]) {
        self.course.census.world.reviews += 1;
        for database in paused {
            self.course.census.world.pauses += 1;
            if let Err(text) = self.check_paused(database.as_deref()) {
                return self.course.fail(16, text);
            }
        }
        self.obey(served);
    }

    /// I16: what is paused has no servers when PAUSE is answered.
    fn check_paused(&self, database: Option<&str>) -> Result<(), String> {
        let concerns = |pool: &PoolSnapshot| database.is_none_or(|name| name == &*pool.key.database);
        let open = |pool: &PoolSnapshot| concerns(pool) && pool.open_servers > 0;
        match self.snapshots(false).flat_map(|shown| shown.pools).find(open) {
            Some(pool) => Err(format!("PAUSE is answered, and {:?} has {} servers", pool.key, pool.open_servers)),
            None => Ok(()),
        }
    }

    fn snapshots(&self, detail: bool) -> impl Iterator<Item = machine::Snapshot> {
        let now = Time(self.course.now());
        let workers = (0..self.course.plan.workers).filter_map(|worker| self.pooler.machines.worker(worker));
        workers.map(move |worker| worker.snapshot(now, detail))
    }
}
