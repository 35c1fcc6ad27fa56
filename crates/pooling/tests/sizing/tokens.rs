//! The coordinator with a pool whose size is found, and two workers that do as they are told: what becomes of tokens.

use std::sync::Arc;

use connections::databases::{Address, Database, Host};
use machine::mail::{Applicant, Application, Counted};
use machine::{Action, Actions, Event, Machine, Mail, Peer, Settings, ToCoordinator, ToWorker};
use pooling::Coordinator;
use queueing::board::Board;
use queueing::classes::ClassSet;
use settings::{PoolMode, PoolSize};
use units::{ConnId, DoorId, PoolId, PoolKey, Time, WorkerId};

use crate::model::{Chance, Curve};

const WORKERS: u16 = 2;

/// Two workers of a pool that everybody waits for, and the coordinator that gives them servers.
pub(crate) struct Stage {
    coordinator: Coordinator,
    curve: Curve,
    chance: Chance,
    now: Time,
    /// By worker: servers, those still to be closed, transactions, microseconds in them and waited for them.
    held: [u32; 2],
    counts: [(f64, u64, u64); 2],
    pub(crate) granted: u32,
    pub(crate) freed: u32,
}

const POOL: PoolId = PoolId(1);
const TICK_US: u64 = 20_000;

impl Stage {
    pub(crate) fn new(curve: Curve, seed: u64) -> Stage {
        let host = Address { host: Host::Unix("/tmp".to_owned()), port: 5432 };
        let mut settings = Settings { workers: WORKERS, ..Settings::default() };
        settings.global.pools.pool_mode = PoolMode::Transaction;
        settings.global.pools.default_pool_size = PoolSize::Auto;
        settings.databases.insert("app".to_owned(), Arc::new(Database::new("app", vec![host])));
        let mut stage = Stage {
            coordinator: Coordinator::new(WORKERS, Arc::new(settings)),
            curve,
            chance: Chance(seed),
            now: Time::ZERO,
            held: [0; 2],
            counts: [(0.0, 0, 0); 2],
            granted: 0,
            freed: 0,
        };
        let key = PoolKey { database: "app".into(), user: "ann".into() };
        let login = ConnId::from_bits(0);
        let peer = Peer::Unix { pid: 1, uid: 1 };
        let user = "ann".into();
        let application = Application {
            applicant: Applicant::Login { door: DoorId(0), login },
            key,
            user,
            console: false,
            exempt: false,
            peer,
            class: queueing::classes::DEFAULT,
            proved: Arc::default(),
        };
        stage.tell(Event::Mail(Mail::ToCoordinator(ToCoordinator::Apply(Box::new(application)))));
        (0..WORKERS).for_each(|worker| stage.ask(WorkerId(worker)));
        stage
    }

    pub(crate) fn size(&self) -> u32 {
        self.coordinator.size(POOL)
    }

    pub(crate) fn held(&self) -> u32 {
        self.held.iter().sum()
    }

    fn ask(&mut self, worker: WorkerId) {
        self.tell(Event::Mail(Mail::ToCoordinator(ToCoordinator::RequestServer {
            pool: POOL,
            holder: worker.into(),
            reserve: false,
            classes: ClassSet::default(),
        })));
    }

    /// So many seconds pass; the mean of noiseless throughput in them.
    pub(crate) fn run(&mut self, seconds: u64) -> f64 {
        let (mut sum, mut ticks) = (0.0, 0.0);
        let end = self.now.0 + seconds * 1_000_000;
        while self.now.0 < end {
            self.now = Time(self.now.0 + TICK_US);
            self.work();
            if self.coordinator.next_deadline().is_some_and(|at| at <= self.now) {
                self.tell(Event::DeadlineReached);
            }
            self.coordinator.check().expect("I5, I12");
            sum += self.curve.at(self.held());
            ticks += 1.0;
        }
        sum / ticks
    }

    fn work(&mut self) {
        let busy = self.held();
        let noise = 1.0 + 0.05 * self.chance.normal();
        let done = self.curve.at(busy) * TICK_US as f64 / 1e6 * noise.max(0.0);
        for (held, counts) in self.held.iter().zip(&mut self.counts) {
            counts.0 += done * f64::from(*held) / f64::from(busy.max(1));
            counts.1 += TICK_US * u64::from(*held);
            counts.2 += TICK_US * 100;
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut actions = Actions::new();
        self.coordinator.step(self.now, &Board::new(WORKERS), event, &mut actions);
        for action in actions.take() {
            if let Action::Post { mail: Mail::ToWorker(worker, mail), .. } = action {
                self.deliver(worker, mail);
            }
        }
    }

    fn deliver(&mut self, worker: WorkerId, mail: ToWorker) {
        let at = usize::from(worker.0);
        match mail {
            ToWorker::Granted(_) => {
                self.held[at] += 1;
                self.granted += 1;
                self.tell(Event::Mail(Mail::ToCoordinator(ToCoordinator::Opened {
                    pool: POOL,
                    holder: worker.into(),
                })));
                self.ask(worker);
            }
            ToWorker::Shrink { count, .. } => {
                for _ in 0..count {
                    self.held[at] -= 1;
                    self.freed += 1;
                    self.tell(Event::Mail(Mail::ToCoordinator(ToCoordinator::Freed {
                        pool: POOL,
                        holder: worker.into(),
                        fresh: false,
                    })));
                }
            }
            ToWorker::Count { pool, .. } => {
                let (transactions, transaction_us, wait_us) = self.counts[at];
                let counted = Counted {
                    pool,
                    worker,
                    at: self.now,
                    transactions: transactions as u64,
                    transaction_us,
                    wait_us,
                    waiting: 100,
                    open: self.held[at],
                    wait_events: None,
                };
                self.tell(Event::Mail(Mail::ToCoordinator(ToCoordinator::Counted(Box::new(counted)))));
            }
            _ => {}
        }
    }
}
