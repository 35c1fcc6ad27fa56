//! The board that workers share: which pools have waiters and idle servers on which worker.
//!
//! If two workers each write a cell and then read the row, at least one sees the other's cell: the stores and loads
//! that matter are sequentially consistent. Reading a row that has not changed costs one load. The parts of a cell may
//! come from different writes; readers of the board must allow for that (`queueing::board`).
//!
//! A row is allocated when it is first written; there are at most [`Board::POOLS_MAX`] rows.

use std::sync::OnceLock;

use queueing::board::{Board, Cell, ClassCell};
use queueing::classes::CLASSES_MAX;
use units::{PoolId, Time, WorkerId};

use super::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) struct SharedBoard {
    workers: u16,
    rows: Box<[OnceLock<Row>]>,
}

struct Row {
    /// Grows with every write to a cell of this row.
    version: AtomicU64,
    cells: Box<[SharedCell]>,
    /// By worker; allocated when that worker first publishes classes.
    classes: Box<[OnceLock<SharedClasses>]>,
}

struct SharedClasses {
    /// How many of the cells are in use.
    count: AtomicU32,
    cells: [SharedClass; CLASSES_MAX],
}

struct SharedClass {
    waiting_since: AtomicU64,
    served_us: AtomicU64,
}

impl SharedClasses {
    fn calm() -> SharedClasses {
        let calm = || SharedClass {
            waiting_since: AtomicU64::new(ClassCell::CALM.waiting_since.0),
            served_us: AtomicU64::new(ClassCell::CALM.served_us),
        };
        SharedClasses { count: AtomicU32::new(0), cells: std::array::from_fn(|_| calm()) }
    }

    fn read(&self) -> impl Iterator<Item = ClassCell> {
        let count = self.count.load(Ordering::SeqCst) as usize;
        self.cells[..count.min(CLASSES_MAX)].iter().map(|cell| ClassCell {
            waiting_since: Time(cell.waiting_since.load(Ordering::SeqCst)),
            served_us: cell.served_us.load(Ordering::SeqCst),
        })
    }
}

impl Row {
    fn calm(workers: u16) -> Row {
        Row {
            version: AtomicU64::new(0),
            cells: (0..workers).map(|_| SharedCell::calm()).collect(),
            classes: (0..workers).map(|_| OnceLock::new()).collect(),
        }
    }
}

struct SharedCell {
    waiting_since: AtomicU64,
    idle: AtomicU32,
    waiting: AtomicU32,
    servers: AtomicU32,
    excess: AtomicU32,
}

impl SharedCell {
    fn calm() -> SharedCell {
        let Cell { waiting_since, idle, waiting, servers, excess } = Cell::CALM;
        let [idle, waiting, servers, excess] = [idle, waiting, servers, excess].map(AtomicU32::new);
        SharedCell { waiting_since: AtomicU64::new(waiting_since.0), idle, waiting, servers, excess }
    }
}

impl SharedBoard {
    pub(crate) fn new(workers: u16) -> SharedBoard {
        SharedBoard { workers, rows: (0..Board::POOLS_MAX).map(|_| OnceLock::new()).collect() }
    }

    /// Writes a worker's cell. Returns the row's version before. A pool beyond [`Board::POOLS_MAX`] has one home and no
    /// row, so nothing is done.
    pub(crate) fn publish(&self, pool: PoolId, worker: WorkerId, cell: Cell) -> Option<u64> {
        let row = self.rows.get(pool.0 as usize)?;
        let row = row.get_or_init(|| Row::calm(self.workers));
        let shared = &row.cells[usize::from(worker.0)];
        shared.waiting_since.store(cell.waiting_since.0, Ordering::SeqCst);
        shared.idle.store(cell.idle, Ordering::SeqCst);
        shared.waiting.store(cell.waiting, Ordering::SeqCst);
        shared.servers.store(cell.servers, Ordering::SeqCst);
        shared.excess.store(cell.excess, Ordering::SeqCst);
        Some(row.version.fetch_add(1, Ordering::SeqCst))
    }

    /// Writes a worker's cells of a pool's classes. Returns the row's version before, like [`SharedBoard::publish`].
    pub(crate) fn publish_classes(&self, pool: PoolId, worker: WorkerId, cells: &[ClassCell]) -> Option<u64> {
        let row = self.rows.get(pool.0 as usize)?;
        let row = row.get_or_init(|| Row::calm(self.workers));
        let shared = row.classes[usize::from(worker.0)].get_or_init(SharedClasses::calm);
        for (shared, cell) in shared.cells.iter().zip(cells) {
            shared.waiting_since.store(cell.waiting_since.0, Ordering::SeqCst);
            shared.served_us.store(cell.served_us, Ordering::SeqCst);
        }
        shared.count.store(cells.len() as u32, Ordering::SeqCst);
        Some(row.version.fetch_add(1, Ordering::SeqCst))
    }

    /// A worker was replaced: resets its cells.
    pub(crate) fn forget(&self, worker: WorkerId) {
        for (pool, row) in (0..).zip(&self.rows) {
            let Some(row) = row.get() else { continue };
            self.publish(PoolId(pool), worker, Cell::CALM);
            if row.classes[usize::from(worker.0)].get().is_some() {
                self.publish_classes(PoolId(pool), worker, &[]);
            }
        }
    }

    /// Reads a pool's row into a worker's own copy, if it has changed since `seen`; returns the version read.
    pub(crate) fn refresh(&self, pool: PoolId, seen: u64, board: &mut Board) -> u64 {
        let Some(row) = self.rows.get(pool.0 as usize).and_then(OnceLock::get) else { return seen };
        // Read before the cells, so that what is written meanwhile is read again next time.
        let version = row.version.load(Ordering::SeqCst);
        if version == seen {
            return seen;
        }
        for (worker, shared) in (0..self.workers).zip(&*row.cells) {
            let waiting_since = Time(shared.waiting_since.load(Ordering::SeqCst));
            let counts = [&shared.idle, &shared.waiting, &shared.servers, &shared.excess];
            let [idle, waiting, servers, excess] = counts.map(|count| count.load(Ordering::SeqCst));
            let cell = Cell { waiting_since, idle, waiting, servers, excess };
            board.set(pool, WorkerId(worker), cell);
        }
        for (worker, classes) in (0..self.workers).zip(&*row.classes) {
            if let Some(classes) = classes.get() {
                board.set_classes(pool, WorkerId(worker), classes.read());
            }
        }
        version
    }
}
