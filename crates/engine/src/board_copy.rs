//! A thread's own copy of the board, and which of its rows are known to be up to date.

use machine::Place;
use queueing::board::{Board, Cell, ClassCell};
use units::PoolId;

use crate::residents::Residents;
use crate::shared::Shared;
use crate::shared_board::SharedBoard;

/// The board as last read.
pub(crate) struct BoardCopy {
    board: Board,
    /// The versions of the rows that were read.
    seen: Vec<u64>,
}

impl BoardCopy {
    pub(crate) fn new(workers: u16) -> BoardCopy {
        BoardCopy { board: Board::new(workers), seen: Vec::new() }
    }

    #[inline]
    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Reads the rows that a thread's machines need. A single worker needs none.
    #[inline]
    pub(crate) fn read(&mut self, shared: &Shared, residents: &Residents) {
        if shared.workers > 1 {
            self.read_rows(shared, residents);
        }
    }

    #[inline(never)]
    fn read_rows(&mut self, shared: &Shared, residents: &Residents) {
        for resident in residents.iter() {
            for &pool in resident.machine().shared_pools() {
                self.refresh(&shared.board, pool);
            }
        }
    }

    /// Reads a pool's row, if it has changed.
    fn refresh(&mut self, shared: &SharedBoard, pool: PoolId) {
        let index = pool.0 as usize;
        if self.seen.len() <= index {
            self.seen.resize(index + 1, 0);
        }
        self.seen[index] = shared.refresh(pool, self.seen[index], &mut self.board);
    }

    /// Writes a cell of this thread's worker to the shared board and to the copy.
    pub(crate) fn publish(&mut self, shared: &SharedBoard, pool: PoolId, place: Place, cell: Cell) {
        if let Place::Worker(worker) = place {
            let before = shared.publish(pool, worker, cell);
            self.board.set(pool, worker, cell);
            self.wrote_row(pool, before);
        }
    }

    /// Like [`BoardCopy::publish`], for the cells of classes.
    pub(crate) fn publish_classes(
        &mut self,
        shared: &SharedBoard,
        pool: PoolId,
        place: Place,
        cells: Box<[ClassCell]>,
    ) {
        if let Place::Worker(worker) = place {
            let before = shared.publish_classes(pool, worker, &cells);
            self.board.set_classes(pool, worker, cells);
            self.wrote_row(pool, before);
        }
    }

    /// This thread has written a cell to a row that had version `before`. If that is the version it had read, no other
    /// thread has written since, and the row is up to date.
    fn wrote_row(&mut self, pool: PoolId, before: Option<u64>) {
        if let (Some(before), Some(seen)) = (before, self.seen.get_mut(pool.0 as usize))
            && *seen == before
        {
            *seen = before + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use units::WorkerId;

    use super::*;

    const POOL: PoolId = PoolId(3);

    #[test]
    fn what_others_write_is_read_and_what_was_written_here_is_known() {
        let shared = SharedBoard::new(2);
        let (mut one, mut two) = (BoardCopy::new(2), BoardCopy::new(2));
        let [first, second] = [WorkerId(0), WorkerId(1)];
        one.refresh(&shared, POOL);
        one.publish(&shared, POOL, Place::Worker(first), Cell { idle: 5, ..Cell::CALM });
        assert_eq!(one.board().cell(POOL, first).idle, 5);
        assert_eq!(two.board().cell(POOL, first).idle, 0, "it was not read again");
        two.refresh(&shared, POOL);
        assert_eq!(two.board().cell(POOL, first).idle, 5);
        two.publish(&shared, POOL, Place::Worker(second), Cell { idle: 7, ..Cell::CALM });
        assert_eq!(two.seen[POOL.0 as usize], 2, "no other worker has written meanwhile");
        one.refresh(&shared, POOL);
        assert_eq!(one.board().cell(POOL, second).idle, 7);
        two.publish(&shared, POOL, Place::Coordinator, Cell { idle: 9, ..Cell::CALM });
        assert_eq!(two.board().cell(POOL, second).idle, 7, "only workers have cells");
    }
}
