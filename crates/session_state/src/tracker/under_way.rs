//! What the messages under way will do to their session, until their command tags confirm it.
//!
//! Promises: it takes no more than [`limits::EFFECTS_LEN_MAX`], however many messages are sent ahead. Of those beyond it nothing
//! is noted: each of their tags is taken for that of an unknown statement.

use std::collections::VecDeque;

use units::limits;

use crate::state::{Effect, Effects};

/// What a Query or an Execute will do.
#[derive(Debug)]
struct Sent {
    /// Beside each effect, whether it is its statement's last.
    effects: VecDeque<(Effect, bool)>,
    len: usize,
}

#[derive(Debug, Default)]
pub struct UnderWay {
    /// Oldest first, in the order of the server's ledger.
    sent: VecDeque<Sent>,
    len: usize,
}

impl UnderWay {
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn has_room_for(&self, effects: &Effects) -> bool {
        self.len + effects.len() <= limits::EFFECTS_LEN_MAX
    }

    pub(super) fn push(&mut self, effects: Effects) {
        let effects = if self.has_room_for(&effects) { effects } else { Effects::default() };
        let (len, effects) = (effects.len(), effects.into_queue());
        self.len += len;
        self.sent.push_back(Sent { effects, len });
    }

    /// The next effect of the oldest message, and whether it is its statement's last.
    pub(super) fn next_effect(&mut self) -> Option<(Effect, bool)> {
        self.sent.front_mut()?.effects.pop_front()
    }

    /// The oldest message has been answered, or will not be.
    pub fn finished(&mut self) {
        let sent = self.sent.pop_front();
        self.len -= sent.map_or(0, |sent| sent.len);
    }

    /// The oldest message does nothing that is noted.
    pub fn void_front(&mut self) {
        if let Some(sent) = self.sent.front_mut() {
            sent.effects.clear();
        }
    }

    /// A statement prepares or deallocates: which names there are after it is not known.
    pub fn is_naming(&self) -> bool {
        let names = |effect: &Effect| {
            matches!(effect, Effect::Prepare(_) | Effect::Deallocate(_) | Effect::DeallocateAll | Effect::DiscardAll)
        };
        self.any(names)
    }

    /// A statement under way ends some of its session's subscriptions.
    pub fn is_unlistening(&self) -> bool {
        self.any(|effect| matches!(effect, Effect::Unlisten(_) | Effect::DiscardAll))
    }

    pub(super) fn clear(&mut self) {
        *self = UnderWay::default();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.sent.iter().flat_map(|sent| sent.effects.iter().map(|(effect, _)| effect))
    }

    pub(super) fn any(&self, is_it: impl Fn(&Effect) -> bool) -> bool {
        self.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_has_a_bound() {
        let mut under_way = UnderWay::default();
        let name = vec![b'p'; 64 * 1024];
        let effects = || Effects::of_one(Effect::Execute(name.as_slice().into()));
        (0..1000).for_each(|_| under_way.push(effects()));
        let noted = under_way.iter().count();
        assert!(noted > 10 && noted * name.len() <= limits::EFFECTS_LEN_MAX, "{noted}");
        for index in 0..1000 {
            assert_eq!(under_way.next_effect().is_some(), index < noted);
            under_way.finished();
        }
        assert!(under_way.is_empty() && under_way.has_room_for(&effects()));
    }
}
