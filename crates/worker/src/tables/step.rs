//! A step of this worker.

use std::ops::{Deref, DerefMut};

use link::caches::Caches;

use crate::tables::agenda::Agenda;
use crate::tables::owners::Plan;

/// What every rule works with besides the state that it is about: the time, the board and the actions of
/// [`machine::Step`], the worker's plan, its caches, and the agenda for what follows.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) machine: machine::Step<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) caches: &'a mut Caches,
    pub(crate) agenda: &'a mut Agenda,
}

impl<'a> Deref for Step<'a> {
    type Target = machine::Step<'a>;

    #[inline(always)]
    fn deref(&self) -> &machine::Step<'a> {
        &self.machine
    }
}

impl<'a> DerefMut for Step<'a> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut machine::Step<'a> {
        &mut self.machine
    }
}
