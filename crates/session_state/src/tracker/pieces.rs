//! Texts that are too long to be at hand at once: what they may leave is known when their end has passed.

use sql::{Marks, Pieces};
use units::limits;

use super::{Pins, Reading, Tracker};
use crate::catalogue::{Hidden, Known};

impl Tracker {
    /// A text begins that will pass in pieces.
    pub fn gather(&mut self, pieces: Box<Pieces>, text: &[u8]) {
        self.pieces = Some(pieces);
        self.gathered.clear();
        self.gathered.extend_from_slice(&text[..text.len().min(limits::PIN_TEXT_LEN_MAX)]);
    }

    /// More of it; all of it if this is the last.
    pub fn add_piece(&mut self, piece: &[u8], is_last: bool) -> Option<Box<Pieces>> {
        self.pieces.as_mut()?.add(piece);
        if is_last { self.pieces.take() } else { None }
    }

    /// A long text has passed of which nothing is known, or more than can be noted: whose rights it has set, and which
    /// settings of the application's own, nobody can list.
    pub fn suspect_unread(&mut self) {
        self.suspects |= Pins::ANYTHING | Pins::DYNAMIC;
        self.reasons.note(Pins::ANYTHING | Pins::DYNAMIC, &self.gathered);
    }

    /// As [`Tracker::suspect`], of the text that was gathered.
    pub fn suspect_again(&mut self, reading: Reading, known: &Known) {
        let gathered = std::mem::take(&mut self.gathered);
        // A block's body is not there any more.
        let hidden = if reading.marks.any(Marks::BLOCK) { reading.hidden | Hidden::DYNAMIC } else { reading.hidden };
        self.suspect(Reading { marks: reading.marks.without(Marks::BLOCK), hidden }, &gathered, known);
    }
}
