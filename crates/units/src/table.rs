//! Connections by id: slots in fixed blocks, each with a generation, so that a stale id finds nothing.
//!
//! Blocks instead of one vector: growing neither moves what is there nor doubles the memory of idle clients.
//!
//! `get` is for an id that may be stale: it came with an event, a message or a deadline. `table[id]` is for the id of a
//! connection that is in the table by the caller's knowledge; it panics where that is wrong.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::id::{ConnId, Kind, Life};

const BLOCK: usize = 64;

#[derive(Debug)]
struct Slot<T> {
    /// Of what is here, or of what will be put here next: one comparison tells a stale id, and one of another table.
    id: ConnId,
    value: Option<T>,
}

/// A table of one kind of connection.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    owner: u16,
    blocks: Vec<Box<[Slot<T>; BLOCK]>>,
    /// Least recently used first: what a stale id names stays free for long.
    free: VecDeque<u32>,
    len: usize,
    /// Of the first id in a new slot: above all that slots had that were given back.
    generation: u32,
}

/// Blocks that are kept when a table has become empty.
const KEPT: usize = 8;

impl<T> Table<T> {
    pub fn new(kind: Kind, owner: u16) -> Table<T> {
        Table { kind, owner, blocks: Vec::new(), free: VecDeque::new(), len: 0, generation: 0 }
    }

    /// What it gives out from now on was not given out in an earlier life.
    ///
    /// # Panics
    /// If it has given out ids in this life.
    pub fn begin_life(&mut self, life: Life) {
        assert!(self.blocks.is_empty(), "a life begins with an empty table");
        self.generation = ConnId::first_generation(life);
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a value in, made with the id it gets.
    pub fn insert_with(&mut self, make: impl FnOnce(ConnId) -> T) -> ConnId {
        if self.free.is_empty() {
            self.grow();
        }
        let slot = self.free.pop_front().expect("a block was just added");
        let entry = &mut self.blocks[slot as usize / BLOCK][slot as usize % BLOCK];
        debug_assert!(entry.value.is_none());
        entry.value = Some(make(entry.id));
        self.len += 1;
        entry.id
    }

    fn grow(&mut self) {
        let first = self.blocks.len() * BLOCK;
        assert!(first + BLOCK <= ConnId::SLOTS_MAX, "descriptors run out long before slots do");
        let id = |slot| ConnId::new(self.kind, self.owner, (first + slot) as u32, self.generation);
        let block: Box<[Slot<T>]> = (0..BLOCK).map(|slot| Slot { id: id(slot), value: None }).collect();
        self.blocks.push(block.try_into().ok().expect("a block was made of that many slots"));
        self.free.extend(first as u32..(first + BLOCK) as u32);
    }

    /// Gives the memory of a large table back that nobody uses. No id that it has given out comes again.
    pub fn shrink_if_empty(&mut self) {
        if self.len > 0 || self.blocks.len() <= KEPT {
            return;
        }
        let slots = self.blocks.iter().flat_map(|block| block.iter());
        self.generation = slots.map(|slot| slot.id.generation()).max().unwrap_or(0) + 1;
        self.blocks = Vec::new();
        self.free = VecDeque::new();
    }

    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&T> {
        let slot = &self.blocks.get(id.slot() / BLOCK)?[id.slot() % BLOCK];
        if slot.id == id { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let slot = &mut self.blocks.get_mut(id.slot() / BLOCK)?[id.slot() % BLOCK];
        if slot.id == id { slot.value.as_mut() } else { None }
    }

    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        let slot = &mut self.blocks.get_mut(id.slot() / BLOCK)?[id.slot() % BLOCK];
        if slot.id != id {
            return None;
        }
        let value = slot.value.take()?;
        slot.id = id.next_in_slot();
        self.free.push_back(id.slot() as u32);
        self.len -= 1;
        Some(value)
    }

    /// How many slots there are, empty ones too.
    pub fn slots(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// The id of whatever is in a slot now.
    pub fn id_at(&self, slot: usize) -> Option<ConnId> {
        let entry = &self.blocks.get(slot / BLOCK)?[slot % BLOCK];
        entry.value.as_ref().map(|_| entry.id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        let slots = self.blocks.iter().flat_map(|block| block.iter());
        slots.filter_map(|slot| slot.value.as_ref().map(|value| (slot.id, value)))
    }

    pub fn ids(&self) -> Vec<ConnId> {
        self.iter().map(|(id, _)| id).collect()
    }
}

impl<T> Index<ConnId> for Table<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, id: ConnId) -> &T {
        match self.get(id) {
            Some(value) => value,
            None => panic!("{id:?} is not in its table"),
        }
    }
}

impl<T> IndexMut<ConnId> for Table<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, id: ConnId) -> &mut T {
        match self.get_mut(id) {
            Some(value) => value,
            None => panic!("{id:?} is not in its table"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_an_earlier_life_finds_nothing() {
        let mut before: Table<&str> = Table::new(Kind::Client, 3);
        let stale = before.insert_with(|_| "before");
        let mut after: Table<&str> = Table::new(Kind::Client, 3);
        after.begin_life(Life::default().next());
        let fresh = after.insert_with(|_| "after");
        assert_eq!((stale.slot(), fresh.slot()), (0, 0));
        assert_eq!((after.get(stale), after.get(fresh)), (None, Some(&"after")));
    }

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut table: Table<&str> = Table::new(Kind::Server, 3);
        let first = table.insert_with(|_| "first");
        assert_eq!(table.remove(first), Some("first"));
        let ids: Vec<ConnId> = (1..BLOCK).map(|_| table.insert_with(|_| "between")).collect();
        let second = table.insert_with(|_| "second");
        assert_eq!(first.slot(), second.slot(), "slots take turns");
        ids.into_iter().for_each(|id| assert!(table.remove(id).is_some()));
        assert_eq!((table.get(first), table.get(second)), (None, Some(&"second")));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_stale_id_is_no_index() {
        let mut table: Table<&str> = Table::new(Kind::Server, 3);
        let id = table.insert_with(|_| "first");
        table[id] = "again";
        assert_eq!(table[id], "again");
        table.remove(id);
        assert!(std::panic::catch_unwind(|| table[id]).is_err());
    }

    #[test]
    fn ids_of_other_tables_find_nothing() {
        let mut table: Table<u8> = Table::new(Kind::Server, 3);
        let mut other: Table<u8> = Table::new(Kind::Client, 3);
        let mut elsewhere: Table<u8> = Table::new(Kind::Server, 4);
        let id = table.insert_with(|_| 1);
        assert!(other.get_mut(id).is_none() && elsewhere.remove(id).is_none());
        other.insert_with(|_| 2);
        elsewhere.insert_with(|_| 3);
        assert_eq!(table.get(id), Some(&1));
    }

    #[test]
    fn slots_are_used_again_before_the_table_grows() {
        let mut table: Table<u32> = Table::new(Kind::Client, 0);
        for round in 0..1000 {
            let id = table.insert_with(|_| round);
            assert_eq!(table.id_at(id.slot()), Some(id));
            table.remove(id);
        }
        assert_eq!(table.blocks.len(), 1);
    }

    #[test]
    fn an_empty_table_gives_its_memory_back_and_no_id_twice() {
        let mut table: Table<u32> = Table::new(Kind::Login, 0);
        let ids: Vec<ConnId> = (0..1000).map(|number| table.insert_with(|_| number)).collect();
        for (number, id) in ids.iter().enumerate() {
            assert_eq!(table.remove(*id), Some(number as u32));
            table.shrink_if_empty();
            assert_eq!(table.blocks.is_empty(), number == 999);
        }
        for _ in 0..2000 {
            assert!(!ids.contains(&table.insert_with(|_| 0)));
        }
        assert!(ids.iter().all(|id| table.get(*id).is_none()));
    }
}
