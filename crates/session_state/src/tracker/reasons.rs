//! Which statement each kind of state may have come by, for SHOW PINS: why a session keeps its server.
//!
//! Promises: of each kind the statement that was first, as long as the kind may be there; at most one text a kind.

use units::limits;

use crate::state::Pins;

/// Oldest first.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Reasons {
    known: Vec<(Pins, Box<[u8]>)>,
}

impl Reasons {
    /// `text` is sent, and may leave this.
    pub(crate) fn note(&mut self, pins: Pins, text: &[u8]) {
        let news = self.known.iter().fold(pins, |news, (kinds, _)| news & !*kinds);
        if !news.is_empty() {
            self.known.push((news, text[..text.len().min(limits::PIN_TEXT_LEN_MAX)].into()));
        }
    }

    /// Nothing else is there any more.
    pub(crate) fn keep_only(&mut self, pins: Pins) {
        self.known.retain_mut(|(kinds, _)| {
            *kinds = *kinds & pins;
            !kinds.is_empty()
        });
    }

    /// The beginning of the oldest that is known for any of these; empty if none is.
    pub(crate) fn first(&self, pins: Pins) -> &[u8] {
        self.known.iter().find(|(kinds, _)| kinds.any(pins)).map_or(b"", |(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_kind_is_kept_as_long_as_the_kind() {
        let mut reasons = Reasons::default();
        reasons.note(Pins::NONE, b"select 1");
        reasons.note(Pins::TEMPORARY | Pins::HOLD, b"create temp table");
        reasons.note(Pins::TEMPORARY, b"another");
        reasons.note(Pins::ADVISORY | Pins::HOLD, b"lock");
        let of = |reasons: &Reasons, pins| String::from_utf8_lossy(reasons.first(pins)).into_owned();
        assert_eq!(of(&reasons, Pins::TEMPORARY | Pins::ADVISORY), "create temp table");
        assert_eq!(of(&reasons, Pins::ADVISORY), "lock");
        assert_eq!(of(&reasons, Pins::LISTEN), "");
        reasons.keep_only(Pins::ADVISORY);
        assert_eq!(of(&reasons, Pins::TEMPORARY | Pins::ADVISORY), "lock");
        reasons.note(Pins::TEMPORARY, b"another");
        assert_eq!(of(&reasons, Pins::TEMPORARY), "another");
        reasons.keep_only(Pins::NONE);
        assert!(reasons.known.is_empty());
    }

    #[test]
    fn of_a_long_text_the_beginning_is_kept() {
        let mut reasons = Reasons::default();
        reasons.note(Pins::LOAD, &[b'x'; 2 * limits::PIN_TEXT_LEN_MAX]);
        assert_eq!(reasons.first(Pins::LOAD).len(), limits::PIN_TEXT_LEN_MAX);
    }
}
