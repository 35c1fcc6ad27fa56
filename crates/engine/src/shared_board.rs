//! The board that workers share: who is hungry in which pool, and who has idle servers.
//!
//! Promises publish-then-look: a worker that writes its cell and then reads a row sees every cell whose writer did not
//! see its own (all stores and loads that matter are sequentially consistent). A row that nobody wrote since the last
//! look costs one load. A cell's two halves may be of different writings: whoever reads the board must be right all the
//! same (`pooling::board`).
//!
//! Memory: a row is made when it is first written, [`Board::POOLS_MAX`] rows at most.

use std::sync::OnceLock;

use pooling::{Board, Cell, PoolId, Time, WorkerId};

use super::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) struct SharedBoard {
    workers: u16,
    rows: Box<[OnceLock<Row>]>,
}

struct Row {
    /// Grows with every writing of a cell of this row.
    version: AtomicU64,
    cells: Box<[SharedCell]>,
}

struct SharedCell {
    hungry_since: AtomicU64,
    idle: AtomicU32,
}

impl SharedCell {
    fn calm() -> SharedCell {
        SharedCell { hungry_since: AtomicU64::new(Cell::CALM.hungry_since.0), idle: AtomicU32::new(Cell::CALM.idle) }
    }
}

impl SharedBoard {
    pub(crate) fn new(workers: u16) -> SharedBoard {
        SharedBoard { workers, rows: (0..Board::POOLS_MAX).map(|_| OnceLock::new()).collect() }
    }

    /// Writes a worker's cell. Returns the row's version before. A pool beyond [`Board::POOLS_MAX`] has one home and no
    /// row: nothing to do.
    pub(crate) fn publish(&self, pool: PoolId, worker: WorkerId, cell: Cell) -> Option<u64> {
        let row = self.rows.get(pool.0 as usize)?;
        let row = row.get_or_init(|| Row {
            version: AtomicU64::new(0),
            cells: (0..self.workers).map(|_| SharedCell::calm()).collect(),
        });
        let shared = &row.cells[usize::from(worker.0)];
        shared.hungry_since.store(cell.hungry_since.0, Ordering::SeqCst);
        shared.idle.store(cell.idle, Ordering::SeqCst);
        Some(row.version.fetch_add(1, Ordering::SeqCst))
    }

    /// Reads a pool's row into a worker's own copy, if it has changed since `seen`; returns the version read.
    pub(crate) fn refresh(&self, pool: PoolId, seen: u64, board: &mut Board) -> u64 {
        let Some(row) = self.rows.get(pool.0 as usize).and_then(OnceLock::get) else { return seen };
        // Taken before the cells: what is written while we read them is read again next time.
        let version = row.version.load(Ordering::SeqCst);
        if version == seen {
            return seen;
        }
        for (worker, shared) in (0..self.workers).zip(&*row.cells) {
            let hungry_since = Time(shared.hungry_since.load(Ordering::SeqCst));
            let cell = Cell { hungry_since, idle: shared.idle.load(Ordering::SeqCst) };
            board.set(pool, WorkerId(worker), cell);
        }
        version
    }
}
