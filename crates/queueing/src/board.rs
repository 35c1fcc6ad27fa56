//! What workers need to know of each other at once: in which pools sessions wait, and where servers are idle.
//!
//! The board is an argument of every step, read anew once a round of the loop, so it may be late; decisions taken from
//! it must be right all the same. A worker first publishes its own cell and then looks at the others' (the second
//! telling of `Event::RoundEnded`): of two workers, one with a waiter and one with an idle server, at least one sees the other.

use std::collections::BTreeMap;

use units::{PoolId, Time, WorkerId};

/// One worker's part of one pool's row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Since when its oldest waiter waits; [`Time::NEVER`]: nobody waits.
    pub waiting_since: Time,
    /// Servers without work.
    pub idle: u32,
    /// Sessions that wait, and the servers that they wait for, counted when one of the other fields changed last.
    pub waiting: u32,
    pub servers: u32,
    /// Idle servers that it will not miss: more than it has clients for.
    pub excess: u32,
}

impl Cell {
    pub const CALM: Cell = Cell { waiting_since: Time::NEVER, idle: 0, waiting: 0, servers: 0, excess: 0 };

    /// Whether nothing differs but how many wait, and that by less than half: it is not worth telling.
    #[must_use]
    pub fn is_much_like(self, shown: Cell) -> bool {
        let alike = self.waiting < 2 * shown.waiting.max(1) && 2 * self.waiting >= shown.waiting;
        alike && Cell { waiting: shown.waiting, ..self } == shown
    }
}

/// What one worker shows of one class in one pool, where the pool has classes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClassCell {
    /// Since when its oldest waiter waits that may be served; [`Time::NEVER`]: nobody does.
    pub waiting_since: Time,
    /// Server time that it has had there, in microseconds; grows, or begins again at 0 when classes change.
    pub served_us: u64,
}

impl ClassCell {
    pub const CALM: ClassCell = ClassCell { waiting_since: Time::NEVER, served_us: 0 };
}

/// One worker's classes in one pool.
#[derive(Clone, Debug, Default)]
struct ClassRow {
    /// How often they were written.
    version: u64,
    cells: Vec<ClassCell>,
}

/// The rows of all pools that live on more than one worker, as last read.
#[derive(Clone, Debug)]
pub struct Board {
    workers: usize,
    cells: Vec<Cell>,
    /// Of those that tell classes apart.
    classes: BTreeMap<(PoolId, WorkerId), ClassRow>,
}

impl Board {
    /// Pools beyond this many have a single home and no row. Bounds the memory shared between workers.
    pub const POOLS_MAX: usize = 4096;

    #[must_use]
    pub fn new(workers: u16) -> Board {
        Board { workers: usize::from(workers), cells: Vec::new(), classes: BTreeMap::new() }
    }

    /// A cell; calm where nothing was written yet.
    #[must_use]
    pub fn cell(&self, pool: PoolId, worker: WorkerId) -> Cell {
        self.cells.get(self.index(pool, worker)).copied().unwrap_or(Cell::CALM)
    }

    /// Writes a cell.
    pub fn set(&mut self, pool: PoolId, worker: WorkerId, cell: Cell) {
        let index = self.index(pool, worker);
        if self.cells.len() <= index {
            self.cells.resize((pool.0 as usize + 1) * self.workers, Cell::CALM);
        }
        self.cells[index] = cell;
    }

    /// What a worker shows of a pool's classes; empty where it has shown nothing yet. Indexed by [`crate::classes::ClassId`].
    #[must_use]
    pub fn classes(&self, pool: PoolId, worker: WorkerId) -> &[ClassCell] {
        self.classes.get(&(pool, worker)).map_or(&[], |row| &row.cells)
    }

    /// Grows when the cells may have changed; 0: the worker has shown nothing yet.
    #[must_use]
    pub fn classes_version(&self, pool: PoolId, worker: WorkerId) -> u64 {
        self.classes.get(&(pool, worker)).map_or(0, |row| row.version)
    }

    /// Writes what a worker tells of a pool's classes.
    pub fn set_classes(&mut self, pool: PoolId, worker: WorkerId, cells: impl IntoIterator<Item = ClassCell>) {
        let row = self.classes.entry((pool, worker)).or_default();
        row.version += 1;
        row.cells.clear();
        row.cells.extend(cells);
    }

    /// Nothing is shown of a worker any more.
    pub fn forget(&mut self, worker: WorkerId) {
        for cell in self.cells.iter_mut().skip(usize::from(worker.0)).step_by(self.workers) {
            *cell = Cell::CALM;
        }
        for (_, row) in self.classes.iter_mut().filter(|((_, shown_by), _)| *shown_by == worker) {
            row.version += 1;
            row.cells.clear();
        }
    }

    fn index(&self, pool: PoolId, worker: WorkerId) -> usize {
        debug_assert!(usize::from(worker.0) < self.workers);
        pool.0 as usize * self.workers + usize::from(worker.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritten_cell_is_calm() {
        let mut board = Board::new(2);
        assert_eq!(board.cell(PoolId(3), WorkerId(1)), Cell::CALM);
        let cell = Cell { waiting_since: Time(7), ..Cell::CALM };
        board.set(PoolId(3), WorkerId(1), cell);
        assert_eq!(board.cell(PoolId(3), WorkerId(1)), cell);
        assert_eq!(board.cell(PoolId(3), WorkerId(0)), Cell::CALM);
        board.forget(WorkerId(0));
        assert_eq!(board.cell(PoolId(3), WorkerId(1)), cell);
        board.forget(WorkerId(1));
        assert_eq!(board.cell(PoolId(3), WorkerId(1)), Cell::CALM);
    }
}
