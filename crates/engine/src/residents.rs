//! The machines of one thread, and which of them owns which connections.
//!
//! Promises: one owner at most for each kind of connection. A machine that is unsound is made anew in its place.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use machine::{Actions, Place, Settings};
use units::{ConnId, Kind, Time};

use crate::shared::Builder;
use crate::tenant::Tenant;

/// A machine and its list of actions.
pub(crate) struct Resident {
    pub(crate) place: Place,
    pub(crate) machine: Box<dyn Tenant>,
    pub(crate) actions: Actions,
}

/// All of a thread's, by number.
pub(crate) struct Residents {
    all: Vec<Resident>,
    /// Which of them owns connections, by kind.
    owners: [Option<usize>; 4],
    builder: Builder,
}

impl Residents {
    pub(crate) fn new(places: &[Place], builder: Builder, settings: &Arc<Settings>) -> Residents {
        let resident = |place| Resident { place, machine: builder(place, settings), actions: Actions::new() };
        let all = places.iter().copied().map(resident).collect();
        Residents { all, owners: owners(places), builder }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Resident> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Resident> {
        self.all.iter_mut()
    }

    /// The machine that a connection belongs to: a thread has one of each kind at most.
    #[inline]
    pub(crate) fn owner_of(&self, conn: ConnId) -> Option<usize> {
        self.owners[conn.kind() as usize]
    }

    pub(crate) fn at(&self, place: Place) -> Option<usize> {
        self.all.iter().position(|resident| resident.place == place)
    }

    /// When each of them wants to be told of the time.
    #[inline]
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.all.iter().filter_map(|resident| resident.machine.next_deadline())
    }

    /// Makes a machine anew, empty.
    pub(crate) fn renew(&mut self, who: usize, settings: &Arc<Settings>) {
        self.all[who].machine = (self.builder)(self.all[who].place, settings);
    }
}

impl Index<usize> for Residents {
    type Output = Resident;

    #[inline]
    fn index(&self, who: usize) -> &Resident {
        &self.all[who]
    }
}

impl IndexMut<usize> for Residents {
    #[inline]
    fn index_mut(&mut self, who: usize) -> &mut Resident {
        &mut self.all[who]
    }
}

/// Which resident owns connections, by kind.
fn owners(places: &[Place]) -> [Option<usize>; 4] {
    let mut owners = [None; 4];
    for (who, place) in places.iter().enumerate() {
        for &kind in kinds_of(*place) {
            debug_assert!(owners[kind as usize].is_none(), "a thread has one door and one worker at most");
            owners[kind as usize] = Some(who);
        }
    }
    owners
}

/// The connections that a machine owns.
pub(crate) fn kinds_of(place: Place) -> &'static [Kind] {
    match place {
        Place::Door(_) => &[Kind::Login],
        Place::Worker(_) => &[Kind::Client, Kind::Server, Kind::Cancel],
        Place::Coordinator => &[],
    }
}
