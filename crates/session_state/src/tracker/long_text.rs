//! A text that is too long to be at hand at once: what it may leave is known when its end has passed.

use sql::Pieces;
use units::limits;

/// The one that passes, or has passed last.
#[derive(Debug, Default)]
pub struct LongText {
    /// `None`: its end has passed.
    pieces: Option<Box<Pieces>>,
    beginning: Vec<u8>,
}

impl LongText {
    /// A text begins that will pass in pieces.
    pub fn begin(&mut self, pieces: Box<Pieces>, text: &[u8]) {
        self.pieces = Some(pieces);
        self.beginning.clear();
        self.beginning.extend_from_slice(&text[..text.len().min(limits::PIN_TEXT_LEN_MAX)]);
    }

    /// More of it; all of it if this is the last.
    pub fn add(&mut self, piece: &[u8], is_last: bool) -> Option<Box<Pieces>> {
        self.pieces.as_mut()?.add(piece);
        if is_last { self.pieces.take() } else { None }
    }

    /// Its end has not passed yet.
    pub(super) fn is_passing(&self) -> bool {
        self.pieces.is_some()
    }

    pub(super) fn beginning(&self) -> &[u8] {
        &self.beginning
    }

    pub(super) fn take_beginning(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.beginning)
    }
}
