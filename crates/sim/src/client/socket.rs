//! A client's end of its connection: bytes read but not handled, and bytes to write.

use wire::frontend;

use super::Wants;
use super::habits::Habits;
use crate::link::{Leaving, Link};

#[derive(Debug, Default)]
pub(super) struct Socket {
    pub(super) inbox: Vec<u8>,
    outbox: Vec<u8>,
    outbox_at: usize,
    /// How much was written in all.
    sent: u64,
    said_goodbye: bool,
}

impl Socket {
    /// Bytes to write are appended to this.
    pub(super) fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// How much is still to be written.
    pub(super) fn unsent(&self) -> usize {
        self.outbox.len() - self.outbox_at
    }

    pub(super) fn is_all_sent(&self) -> bool {
        self.outbox_at == self.outbox.len()
    }

    /// How much was written in all.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// The pooler may have read the client's Terminate.
    pub(super) fn has_sent_goodbye(&self) -> bool {
        self.said_goodbye && self.is_all_sent()
    }

    /// Ends the connection with Terminate, or by closing it.
    pub(super) fn say_goodbye(&mut self, habits: &Habits, wants: &mut Wants) {
        if habits.impolite || self.has_sent_goodbye() {
            wants.leave = Some(Leaving::Orderly);
        } else if !self.said_goodbye {
            self.said_goodbye = true;
            frontend::encode_terminate(&mut self.outbox);
            wants.again = Some(1);
        }
    }

    pub(super) fn read(&mut self, link: &mut Link, pace: usize, wants: &mut Wants) {
        let available = link.down.readable().len();
        let count = if pace > 0 { available.min(pace) } else { available };
        self.inbox.extend_from_slice(&link.down.readable()[..count]);
        link.down.consume(count);
        if count < available {
            wants.again = Some(300);
        }
    }

    pub(super) fn write(&mut self, link: &mut Link, habits: &Habits, wants: &mut Wants) {
        let mut rest = &self.outbox[self.outbox_at..];
        if habits.pace > 0 {
            rest = &rest[..rest.len().min(habits.pace)];
        }
        if let Some(limit) = habits.vanishes_after {
            rest = &rest[..rest.len().min(limit.saturating_sub(self.sent) as usize)];
        }
        let count = link.up.write(rest);
        let paced = habits.pace > 0 && count == rest.len();
        self.outbox_at += count;
        self.sent += count as u64;
        if self.outbox_at == self.outbox.len() {
            self.outbox.clear();
            self.outbox_at = 0;
        } else if paced {
            wants.again = Some(700);
        }
    }
}
