//! Side effects in a catalogue that an older one of the same database did not have.

use super::{Catalogue, SideEffects};
use sql::Word;
use units::Time;

/// Side effects that nobody knew: servers that have run anything since may have what they leave behind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub side_effects: SideEffects,
    /// The last time at which it is certain that they were not there.
    pub since: Time,
}

/// What has been found in one database that nobody knew.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Not logged and not passed to other pools yet.
    unreported: Option<News>,
    /// When the last news were found, and what they were.
    last: Option<(Time, News)>,
}

impl Findings {
    pub(super) fn add(&mut self, news: News, now: Time) {
        (self.unreported, self.last) = (Some(news), Some((now, news)));
    }

    /// Once.
    pub(super) fn take(&mut self) -> Option<News> {
        self.unreported.take()
    }

    /// What a server may have that has worked last then, and that was found here meanwhile.
    pub(super) fn since(&self, worked_at: Time) -> Option<News> {
        self.last.filter(|(found, news)| (news.since..=*found).contains(&worked_at)).map(|(_, news)| news)
    }
}

impl Catalogue {
    /// `known`: what clients of the pooler have defined meanwhile, by name.
    pub(super) fn news(&self, older: &Catalogue, known: impl Fn(Word) -> SideEffects) -> SideEffects {
        if older.is_unknown() {
            return SideEffects::NONE;
        }
        if self.is_unknown() {
            return SideEffects::UNKNOWN;
        }
        let mut news = self.everywhere.without(older.everywhere) | self.definitions.without(older.definitions);
        for entry in &self.entries {
            let before = older.entry(entry.name).map(|entry| entry.finding).unwrap_or_default();
            let defined = known(entry.name);
            let pairs = [
                (entry.finding.called, before.called),
                (entry.finding.named, before.named),
                (entry.finding.writing, before.writing),
                (entry.finding.filling, before.filling),
            ];
            for (now, before) in pairs {
                news |= now.without(before | defined);
            }
        }
        // These leave nothing that is anybody's.
        news.without(SideEffects::UNKEPT)
    }

    /// Whether it names settings that the older one does not, and `known` does not either: nobody has asked for these.
    pub(super) fn has_other_settings(&self, older: &Catalogue, known: impl Fn(&[u8]) -> bool) -> bool {
        self.settings.iter().any(|name| older.settings.binary_search(name).is_err() && !known(name))
    }
}
