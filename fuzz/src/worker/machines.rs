//! The machines under test: a door, the coordinator, workers, and the board between these.

use std::sync::Arc;

use machine::observe::Peer;
use machine::{Actions, Event, Look, Machine, Place, Settings};
use pooling::{Coordinator, Door, Worker};
use queueing::board::Board;
use units::{ConnId, DoorId, Kind, Time, WorkerId};

const DOOR: Place = Place::Door(DoorId(0));

pub(super) struct Machines {
    door: Door,
    coordinator: Coordinator,
    workers: Vec<Worker>,
    board: Board,
}

/// The machine that a connection belongs to.
pub(super) fn place(conn: ConnId) -> Place {
    match conn.kind() {
        Kind::Login | Kind::Lookup => DOOR,
        _ => Place::Worker(WorkerId(conn.owner())),
    }
}

impl Machines {
    pub(super) fn new(settings: &Arc<Settings>) -> Machines {
        let count = settings.workers;
        let worker = |number: u16| Worker::new(WorkerId(number), count, Arc::clone(settings), [number as u8 + 1; 32]);
        Machines {
            door: Door::new(DoorId(0), Arc::clone(settings), [0; 32]),
            coordinator: Coordinator::new(count, Arc::clone(settings)),
            workers: (0..count).map(worker).collect(),
            board: Board::new(count),
        }
    }

    pub(super) fn workers(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn has_worker(&self, worker: WorkerId) -> bool {
        usize::from(worker.0) < self.workers.len()
    }

    fn worker_places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.workers.len()).map(|worker| Place::Worker(WorkerId(worker as u16)))
    }

    /// In the order in which all are told something.
    pub(super) fn places(&self) -> Vec<Place> {
        [DOOR, Place::Coordinator].into_iter().chain(self.worker_places()).collect()
    }

    pub(super) fn board(&mut self) -> &mut Board {
        &mut self.board
    }

    pub(super) fn get(&mut self, place: Place) -> &mut dyn Machine {
        match place {
            Place::Door(_) => &mut self.door,
            Place::Coordinator => &mut self.coordinator,
            Place::Worker(worker) => &mut self.workers[usize::from(worker.0)],
        }
    }

    /// A client comes to the door.
    pub(super) fn accept(&mut self, now: Time, peer: Peer) -> Option<ConnId> {
        self.door.accept(now, peer)
    }

    /// One step, and the invariants that a worker and the coordinator know of themselves.
    pub(super) fn step(&mut self, now: Time, place: Place, event: Event<'_>, actions: &mut Actions) {
        let board = std::mem::replace(&mut self.board, Board::new(1));
        self.get(place).step(now, &board, event, actions);
        self.board = board;
        match place {
            Place::Worker(worker) => self.workers[usize::from(worker.0)].check(),
            Place::Coordinator => self.coordinator.check(),
            Place::Door(_) => Ok(()),
        }
        .unwrap_or_else(|violation| panic!("an invariant does not hold: {violation}"));
    }

    /// The first deadline of the coordinator and the workers.
    pub(super) fn next_deadline(&self) -> Option<(Time, Place)> {
        let workers = self.worker_places().zip(&self.workers).map(|(place, worker)| (worker.next_deadline(), place));
        let all = std::iter::once((self.coordinator.next_deadline(), Place::Coordinator)).chain(workers);
        all.filter_map(|(at, place)| at.map(|at| (at, place))).min()
    }

    /// I8: all deadlines have passed.
    pub(super) fn check_nobody_waits(&self, now: Time) {
        for worker in &self.workers {
            let snapshot = worker.snapshot(now, Look::Connections);
            let waits = snapshot.clients.iter().find(|client| client.state == "waiting");
            assert!(waits.is_none(), "I8: {waits:?} waits beyond every deadline");
        }
    }

    /// I12: all clients have left.
    pub(super) fn check_places_are_free(&self) {
        assert_eq!(self.coordinator.clients(), 0, "I12: places are taken by nobody");
    }

    /// I12: all servers are closed.
    pub(super) fn check_tokens_are_back(&self) {
        let held: u32 = self.coordinator.pools().map(|(pool, _)| self.coordinator.held(pool)).sum();
        assert_eq!(held, 0, "I12: tokens are lost");
    }
}
