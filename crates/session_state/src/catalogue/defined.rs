//! What clients of the pooler have defined since the catalogue was read.
//!
//! Promises: a definition is known from before it was sent until a catalogue has been read that must show it; that is one which
//! was asked for after its transaction was over. What is more than is kept is a doubt about every text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sql::Word;
use units::{ConnId, Time, limits};

use super::SideEffects;
use super::mentions::Mentions;

/// How many names that clients have defined are kept until they have been read; beyond it, every text is suspect.
pub(super) const FRESH_MAX: usize = 4096;

/// Something that a client has defined.
#[derive(Debug)]
struct Fresh {
    side_effects: SideEffects,
    /// Servers whose transactions may go on that define it.
    open: BTreeSet<ConnId>,
    /// When the last of them was over, or when it was sent.
    since: Time,
}

impl Fresh {
    fn new(now: Time) -> Fresh {
        Fresh { side_effects: SideEffects::NONE, open: BTreeSet::new(), since: now }
    }

    fn add(&mut self, side_effects: SideEffects, server: ConnId, now: Time) {
        self.side_effects |= side_effects;
        self.open.insert(server);
        self.since = self.since.max(now);
    }

    /// Whether a catalogue that was asked for then may not show it.
    fn outlasts(&self, began: Time) -> bool {
        !self.open.is_empty() || self.since >= began
    }
}

/// In one database.
#[derive(Debug, Default)]
pub(super) struct Defined {
    by_name: BTreeMap<Word, Fresh>,
    settings: BTreeSet<Box<[u8]>>,
    /// What else clients' definitions name.
    mentions: Mentions,
    /// Side effects that any text may have: more was defined than is kept, or nobody knows what, or what no text names.
    doubt: Option<Fresh>,
}

impl Defined {
    /// No name is defined.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What was defined that has one of these names.
    pub(super) fn side_effects<'w>(&self, words: impl Iterator<Item = &'w Word>) -> SideEffects {
        let found = words.filter_map(|word| self.by_name.get(&word.name()));
        found.fold(SideEffects::NONE, |sum, fresh| sum | fresh.side_effects)
    }

    /// What was defined that has any name.
    pub(super) fn all_side_effects(&self) -> SideEffects {
        self.by_name.values().fold(SideEffects::NONE, |sum, fresh| sum | fresh.side_effects)
    }

    /// Side effects that any text may have.
    #[inline]
    pub(super) fn doubt(&self) -> SideEffects {
        self.doubt.as_ref().map_or(SideEffects::NONE, |doubt| doubt.side_effects)
    }

    /// Settings with a dot in their names that bodies change.
    pub(super) fn settings(&self) -> impl Iterator<Item = &Box<[u8]>> {
        self.settings.iter()
    }

    pub(super) fn has_setting(&self, name: &[u8]) -> bool {
        self.settings.contains(name)
    }

    /// Whether a definition mentions this name.
    pub(super) fn mentions(&self, name: Word) -> bool {
        self.mentions.has(name)
    }

    /// A name is about to have these side effects. False: there are too many names.
    pub(super) fn add(&mut self, name: Word, side_effects: SideEffects, server: ConnId, now: Time) -> bool {
        let fits = self.by_name.len() < FRESH_MAX || self.by_name.contains_key(&name);
        if fits {
            self.by_name.entry(name).or_insert_with(|| Fresh::new(now)).add(side_effects, server, now);
        }
        fits
    }

    /// A body changes this setting. False: there are too many.
    pub(super) fn add_setting(&mut self, name: &[u8]) -> bool {
        let fits = self.settings.len() < limits::CATALOGUE_SETTINGS_MAX;
        if fits {
            self.settings.insert(name.into());
        }
        fits
    }

    /// A definition with these words is sent. False: there are too many, and all are forgotten.
    pub(super) fn mention(&mut self, words: impl Iterator<Item = Word>, server: ConnId, now: Time) -> bool {
        self.mentions.add(words, server, now)
    }

    /// As [`Defined::mention`], with all words of a text, in order.
    pub(super) fn mention_text(&mut self, words: &Arc<[Word]>, server: ConnId, now: Time) -> bool {
        self.mentions.add_text(words, server, now)
    }

    /// Any text may have these side effects.
    pub(super) fn doubt_of(&mut self, side_effects: SideEffects, server: ConnId, now: Time) {
        self.doubt.get_or_insert_with(|| Fresh::new(now)).add(side_effects, server, now);
    }

    /// A server's transaction is over, or is taken to be by then. Whether it has defined or mentioned anything.
    pub(super) fn settle(&mut self, server: ConnId, at: Time) -> bool {
        let mut is_known = self.mentions.settled(server, at);
        for fresh in self.by_name.values_mut().chain(&mut self.doubt) {
            if fresh.open.remove(&server) {
                fresh.since = fresh.since.max(at);
                is_known = true;
            }
        }
        is_known
    }

    /// A catalogue was read that was asked for then.
    pub(super) fn read(&mut self, began: Time) {
        self.by_name.retain(|_, fresh| fresh.outlasts(began));
        self.doubt.take_if(|fresh| !fresh.outlasts(began));
        self.mentions.read(began);
        if self.by_name.is_empty() {
            self.settings.clear();
        }
    }

    /// Something was defined that can be read. What a transaction defines that goes on is no reason to ask.
    pub(super) fn has_settled(&self) -> bool {
        self.by_name.values().chain(&self.doubt).any(|fresh| fresh.open.is_empty())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use units::Kind;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn name(name: &str) -> Word {
        Word::of(name.as_bytes())
    }

    fn server(slot: u32) -> ConnId {
        ConnId::new(Kind::Server, 0, slot, 0)
    }

    #[test]
    fn a_definition_is_known_until_a_catalogue_shows_it() {
        let mut defined = Defined::default();
        assert!(defined.add(name("f"), SideEffects::SETTINGS, server(1), at(1)) && defined.add_setting(b"app.user"));
        assert_eq!(defined.side_effects([name("f"), name("g")].iter()), SideEffects::SETTINGS);
        defined.read(at(2));
        assert!(!defined.is_empty() && !defined.has_settled(), "its transaction goes on");
        assert!(defined.settle(server(1), at(3)) && !defined.settle(server(1), at(3)));
        defined.read(at(3));
        assert!(defined.has_settled() && defined.has_setting(b"app.user"), "it was asked for in the same moment");
        defined.read(at(4));
        assert!(defined.is_empty() && !defined.has_settled() && defined.settings().next().is_none());
    }

    #[test]
    fn a_doubt_is_about_every_text_and_ends_as_a_definition_does() {
        let mut defined = Defined::default();
        defined.doubt_of(SideEffects::DYNAMIC, server(1), at(1));
        defined.doubt_of(SideEffects::LISTEN, server(2), at(1));
        assert_eq!(defined.doubt(), SideEffects::DYNAMIC | SideEffects::LISTEN);
        assert!(defined.settle(server(1), at(2)));
        defined.read(at(3));
        assert!(!defined.doubt().is_empty(), "the other server's transaction goes on");
        assert!(defined.settle(server(2), at(3)));
        defined.read(at(4));
        assert!(defined.doubt().is_empty());
    }

    #[test]
    fn names_and_settings_are_bounded() {
        let mut defined = Defined::default();
        let names =
            (0..).take_while(|n: &usize| defined.add(name(&format!("f{n}")), SideEffects::HOLD, server(1), at(1)));
        assert_eq!(names.count(), FRESH_MAX);
        assert!(defined.add(name("f0"), SideEffects::LISTEN, server(1), at(1)), "a name that is there");
        let settings = (0..).take_while(|n: &usize| defined.add_setting(format!("a.b{n}").as_bytes()));
        assert_eq!(settings.count(), limits::CATALOGUE_SETTINGS_MAX);
    }
}
