//! The connections that a door opens: to databases in which users are looked up, and to peers; and the cancel requests that it passes on.

use connections::flow::Flow;
use machine::Settings;
use machine::event::Event;
use settings::TlsSettings;
use units::random::Random;
use units::{ConnId, DoorId, Kind, Life, Time};

use super::cancels::Cancels;
use super::lookup::{Lookups, Turn};
use super::peers::Peers;

#[derive(Debug)]
pub(super) struct Outward {
    pub(super) lookups: Lookups,
    pub(super) peers: Peers,
    pub(super) cancels: Cancels,
}

impl Outward {
    pub(super) fn new(door: DoorId, settings: &Settings, random: &mut Random) -> Outward {
        Outward {
            lookups: Lookups::new(door, settings),
            peers: Peers::new(door, settings),
            cancels: Cancels::new(door, settings, random),
        }
    }

    /// Notes which cancel requests peers have carried out.
    pub(super) fn note_passed_on(&mut self) {
        while let Some(number) = self.peers.next_over() {
            self.cancels.carried_out(number);
        }
    }

    pub(super) fn begin_life(&mut self, life: Life) {
        self.lookups.begin_life(life);
        self.peers.begin_life(life);
    }

    /// An event of one of them.
    pub(super) fn event(&mut self, turn: &mut Turn<'_>, conn: ConnId, event: Event<'_>) {
        match conn.kind() {
            Kind::Peer => self.peers.event(turn, conn, event),
            _ => self.lookups.event(turn, conn, event),
        }
    }

    /// The settings have changed.
    pub(super) fn configure(&mut self, turn: &mut Turn<'_>, old: &TlsSettings) {
        self.lookups.configure(turn, old);
        self.peers.configure(turn);
        self.cancels.configure(turn.settings);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.lookups.next_deadline(), self.peers.next_deadline(), self.cancels.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn deadline_reached(&mut self, turn: &mut Turn<'_>) {
        self.lookups.deadline_reached(turn);
        self.peers.deadline_reached(turn);
        self.cancels.deadline_reached(turn.now);
    }

    pub(super) fn backlog(&self, conn: ConnId) -> &[u8] {
        match conn.kind() {
            Kind::Peer => self.peers.backlog(conn),
            _ => self.lookups.backlog(conn),
        }
    }

    pub(super) fn flow_mut(&mut self, conn: ConnId) -> Option<&mut Flow> {
        match conn.kind() {
            Kind::Peer => self.peers.flow_mut(conn),
            _ => self.lookups.flow_mut(conn),
        }
    }
}
