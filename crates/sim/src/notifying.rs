//! What sessions of the model PostgreSQL say to each other on channels: who is to hear of it, and when.

use crate::world::{Happening, World};

impl World {
    /// Who listens is to hear of it.
    pub(crate) fn note_said(&mut self) {
        let said = self.postgres.shared.borrow_mut().take_said();
        for (channel, payload) in said {
            self.clients.iter_mut().flatten().for_each(|client| client.is_to_hear(&channel, &payload, self.now));
        }
    }

    /// Processes that have nothing to do tell at once what was said on their channels.
    pub(crate) fn tell_heard(&mut self) {
        if !self.postgres.shared.borrow().is_heard() {
            return;
        }
        for index in 0..self.postgres.processes.len() {
            let Some(process) = &mut self.postgres.processes[index] else { continue };
            if process.tell_heard() {
                let number = process.number;
                self.after(0, Happening::Process { index: index as u32, number });
            }
        }
    }
}
