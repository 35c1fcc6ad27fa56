//! The machines of one thread, and which of them owns which connections.
//!
//! Each kind of connection has at most one owner. A machine whose invariants do not hold is replaced.

use std::ops::Index;
use std::sync::Arc;

use machine::{Action, Actions, LogFilter, Piece, Place, Settings};
use units::{ConnId, Kind, Life, Time};

use crate::shared::Builder;
use crate::tenant::Tenant;

/// A machine and its list of actions.
pub(crate) struct Resident {
    pub(crate) place: Place,
    life: Life,
    machine: Box<dyn Tenant>,
    pub(crate) actions: Actions,
    /// `None`: it was stepped since it was asked.
    awaits: Option<Awaits>,
}

impl Resident {
    #[inline]
    pub(crate) fn machine(&self) -> &dyn Tenant {
        &*self.machine
    }

    #[inline]
    fn awaits(&mut self) -> Awaits {
        let Resident { machine, awaits, .. } = self;
        *awaits.get_or_insert_with(|| {
            let (deadline, round_end) = machine.awaits();
            Awaits { deadline: deadline.unwrap_or(Time::NEVER), round_end }
        })
    }
}

/// What machines wait for besides events of their connections.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Awaits {
    /// [`Time::NEVER`]: no deadline.
    pub(crate) deadline: Time,
    pub(crate) round_end: bool,
}

/// All machines of a thread, by number.
pub(crate) struct Residents {
    all: Vec<Resident>,
    /// Which of them owns connections, by kind.
    owners: [Option<usize>; Kind::COUNT],
    builder: Builder,
    /// The earliest deadline of all, and whether one waits for the end of the round. `None`: to be asked again, since
    /// one was stepped.
    awaits: Option<Awaits>,
    /// The filter for log lines that their actions have.
    log_filter: Option<LogFilter>,
}

impl Residents {
    pub(crate) fn new(places: &[Place], builder: Builder, settings: &Arc<Settings>) -> Residents {
        let resident = |place| Resident {
            place,
            life: Life::default(),
            machine: builder(place, settings),
            actions: Actions::new(),
            awaits: None,
        };
        let all = places.iter().copied().map(resident).collect();
        Residents { all, owners: owners(places), builder, awaits: None, log_filter: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Resident> {
        self.all.iter()
    }

    /// A machine to be stepped, and its list of actions.
    #[inline]
    pub(crate) fn stepping(&mut self, resident: usize) -> (&mut dyn Tenant, &mut Actions) {
        self.awaits = None;
        let Resident { machine, actions, awaits, .. } = &mut self.all[resident];
        *awaits = None;
        (&mut **machine, actions)
    }

    /// The door of this thread, to be stepped.
    pub(crate) fn door(&mut self) -> Option<&mut dyn Tenant> {
        let resident = self.all.iter().position(|resident| matches!(resident.place, Place::Door(_)))?;
        Some(self.stepping(resident).0)
    }

    /// Sets which log lines are written from now on.
    #[inline]
    pub(crate) fn set_log_filter(&mut self, filter: LogFilter) {
        if self.log_filter != Some(filter) {
            self.log_filter = Some(filter);
            self.all.iter_mut().for_each(|resident| resident.actions.set_log_filter(filter));
        }
    }

    /// The action at this place of a step's list, if it sends something, and the next one does not send to the same connection.
    #[inline]
    pub(crate) fn lone_send(&self, resident: usize, at: usize) -> Option<(ConnId, Piece)> {
        let actions = self.all[resident].actions.as_slice();
        let Some(&Action::Send { conn, piece }) = actions.get(at) else { return None };
        let goes_on = matches!(actions.get(at + 1), Some(Action::Send { conn: next, .. }) if *next == conn);
        (!goes_on).then_some((conn, piece))
    }

    /// The actions of a step that did not come to its end.
    pub(crate) fn take_actions(&mut self, resident: usize) -> Vec<Action> {
        self.all[resident].actions.take()
    }

    /// Drops actions that were not carried out.
    pub(crate) fn drop_actions(&mut self) {
        self.all.iter_mut().for_each(|resident| resident.actions = Actions::new());
        self.log_filter = None;
    }

    /// The machine that owns a connection.
    #[inline]
    pub(crate) fn owner_of(&self, conn: ConnId) -> Option<usize> {
        self.owners[conn.kind() as usize]
    }

    pub(crate) fn at(&self, place: Place) -> Option<usize> {
        self.all.iter().position(|resident| resident.place == place)
    }

    /// The earliest deadline of all, and whether one of them waits for the end of the round.
    #[inline]
    pub(crate) fn await_all(&mut self) -> Awaits {
        let Residents { all, awaits, .. } = self;
        *awaits.get_or_insert_with(|| {
            let none = Awaits { deadline: Time::NEVER, round_end: false };
            all.iter_mut().map(Resident::awaits).fold(none, |first, next| Awaits {
                deadline: first.deadline.min(next.deadline),
                round_end: first.round_end || next.round_end,
            })
        })
    }

    /// What this machine waits for.
    pub(crate) fn awaits(&mut self, resident: usize) -> Awaits {
        self.all[resident].awaits()
    }

    /// Replaces a machine by an empty one. Returns the life of the new one.
    pub(crate) fn renew(&mut self, resident: usize, settings: &Arc<Settings>) -> Life {
        let entry = &mut self.all[resident];
        entry.machine = (self.builder)(entry.place, settings);
        entry.life = entry.life.next();
        (entry.awaits, self.awaits) = (None, None);
        self.all[resident].life
    }
}

impl Index<usize> for Residents {
    type Output = Resident;

    #[inline]
    fn index(&self, resident: usize) -> &Resident {
        &self.all[resident]
    }
}

/// Which resident owns connections, by kind.
fn owners(places: &[Place]) -> [Option<usize>; Kind::COUNT] {
    let mut owners = [None; Kind::COUNT];
    for (resident, place) in places.iter().enumerate() {
        for &kind in kinds_of(*place) {
            debug_assert!(owners[kind as usize].is_none(), "a thread has one door and one worker at most");
            owners[kind as usize] = Some(resident);
        }
    }
    owners
}

/// The connections that a machine owns.
pub(crate) fn kinds_of(place: Place) -> &'static [Kind] {
    match place {
        Place::Door(_) => &[Kind::Login, Kind::Lookup, Kind::Peer],
        Place::Worker(_) => &[Kind::Client, Kind::Server, Kind::Cancel],
        Place::Coordinator => &[],
    }
}
