//! Sums over any part of the hour: SHOW WAITS, and the page's areas.

use std::collections::BTreeMap;

use super::keys::Key;
use super::second::Second;
use super::{At, History};

/// By what samples are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// `Lock:relation`.
    Event,
    /// `Lock`.
    Class,
    /// Database and user.
    Pool,
    /// Class of clients.
    ClientClass,
    Statement,
    /// The value of one tag.
    Tag(Box<str>),
    /// At the end of the chain.
    Blocker,
}

/// From the first moment to the last, both included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: At,
    pub to: At,
}

/// How many waited for one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitSum {
    /// What they have in common.
    pub name: String,
    /// Sessions × seconds.
    pub samples: u64,
    /// The most in one second.
    pub most: u32,
    /// Seconds in which there was one.
    pub seconds: u32,
}

/// The name of the sum over names for which there was no room.
pub const OTHERS: &str = "(others)";

/// Sums over several times that share no second, with a bounded number of names.
#[derive(Debug)]
pub struct WaitSums {
    by_name: BTreeMap<String, WaitSum>,
    names_max: usize,
}

impl WaitSums {
    /// Names behind the first `names_max` are summed as [`OTHERS`].
    #[must_use]
    pub fn of(names_max: usize) -> WaitSums {
        WaitSums { by_name: BTreeMap::new(), names_max }
    }

    /// Adds the samples of a history's span.
    pub fn add(&mut self, history: &History, span: Span, by: &Dimension) {
        let sums = history.waits_by(span, |key| {
            let name = name(key, by)?;
            if self.by_name.contains_key(&name) {
                return Some(name);
            }
            if self.by_name.len() >= self.names_max {
                return Some(OTHERS.to_owned());
            }
            self.by_name.insert(name.clone(), WaitSum { name: name.clone(), ..WaitSum::default() });
            Some(name)
        });
        for sum in sums {
            match self.by_name.get_mut(&sum.name) {
                Some(known) => known.add(&sum),
                None => _ = self.by_name.insert(sum.name.clone(), sum),
            }
        }
    }

    /// The sums, most samples first.
    #[must_use]
    pub fn sorted(self) -> Vec<WaitSum> {
        sorted(self.by_name.into_values().collect())
    }
}

fn sorted(mut sums: Vec<WaitSum>) -> Vec<WaitSum> {
    sums.sort_unstable_by(|one, other| other.samples.cmp(&one.samples).then_with(|| one.name.cmp(&other.name)));
    sums
}

impl WaitSum {
    fn add(&mut self, other: &WaitSum) {
        self.samples += other.samples;
        self.most = self.most.max(other.most);
        self.seconds += other.seconds;
    }

    /// Joins the sums of two times that share no second; most samples first.
    #[must_use]
    pub fn merged(one: Vec<WaitSum>, other: Vec<WaitSum>) -> Vec<WaitSum> {
        let (mut sums, added) = if one.len() >= other.len() { (one, other) } else { (other, one) };
        let mut added: BTreeMap<String, WaitSum> = added.into_iter().map(|sum| (sum.name.clone(), sum)).collect();
        for sum in &mut sums {
            if let Some(more) = added.remove(&sum.name) {
                sum.add(&more);
            }
        }
        sums.extend(added.into_values());
        sorted(sums)
    }
}

impl History {
    /// The seconds of a span.
    pub fn within(&self, span: Span) -> impl DoubleEndedIterator<Item = &Second> {
        let from = self.seconds.partition_point(|second| second.at.second() < span.from.second());
        let to = self.seconds.partition_point(|second| second.at.second() <= span.to.second());
        self.seconds.range(from..to.max(from))
    }

    /// The samples of a span, summed; most first. `fits`: only those.
    pub fn waits(&self, span: Span, by: &Dimension, fits: impl Fn(&Key) -> bool) -> Vec<WaitSum> {
        sorted(self.waits_by(span, |key| fits(key).then(|| name(key, by))?))
    }

    /// The samples of a span, summed by name. `name` is called once for each key; samples without a name are left out.
    fn waits_by(&self, span: Span, mut name: impl FnMut(&Key) -> Option<String>) -> Vec<WaitSum> {
        // By key first: names are made once for each.
        let mut by_key: BTreeMap<super::KeyId, Option<usize>> = BTreeMap::new();
        let mut sums: Vec<WaitSum> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut counts: Vec<u32> = Vec::new();
        for second in self.within(span) {
            counts.iter_mut().for_each(|count| *count = 0);
            for sample in &second.samples {
                let place = *by_key.entry(sample.key).or_insert_with(|| {
                    let name = name(self.key(sample.key))?;
                    Some(*places.entry(name.clone()).or_insert_with(|| {
                        sums.push(WaitSum { name, ..WaitSum::default() });
                        counts.push(0);
                        sums.len() - 1
                    }))
                });
                if let Some(place) = place {
                    counts[place] = counts[place].saturating_add(sample.count);
                }
            }
            for (sum, count) in sums.iter_mut().zip(&counts).filter(|(_, count)| **count > 0) {
                sum.samples += u64::from(*count);
                sum.most = sum.most.max(*count);
                sum.seconds += 1;
            }
        }
        sums
    }

    /// The samples of each second by what `by` says: names as they come, and for each second as many counts.
    pub fn series(&self, span: Span, by: &Dimension) -> (Vec<String>, Vec<(At, Vec<u32>)>) {
        let mut names: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        let mut by_key: BTreeMap<super::KeyId, Option<usize>> = BTreeMap::new();
        for second in self.within(span) {
            let mut counts = vec![0_u32; names.len()];
            for sample in &second.samples {
                let place = *by_key.entry(sample.key).or_insert_with(|| {
                    let name = name(self.key(sample.key), by)?;
                    Some(names.iter().position(|known| *known == name).unwrap_or_else(|| {
                        names.push(name);
                        names.len() - 1
                    }))
                });
                let Some(place) = place else { continue };
                counts.resize(names.len().max(counts.len()), 0);
                counts[place] = counts[place].saturating_add(sample.count);
            }
            rows.push((second.at, counts));
        }
        rows.iter_mut().for_each(|(_, counts)| counts.resize(names.len(), 0));
        (names, rows)
    }
}

/// `None`: it has no such thing.
fn name(key: &Key, by: &Dimension) -> Option<String> {
    Some(match by {
        Dimension::Event if key.class == key.event => key.class.to_string(),
        Dimension::Event => format!("{}:{}", key.class, key.event),
        Dimension::Class => key.class.to_string(),
        Dimension::Pool => format!("{}/{}", key.who.database, key.who.user),
        Dimension::ClientClass => key.who.class.to_string(),
        Dimension::Statement => key.who.statement.to_string(),
        Dimension::Tag(tag) => key.who.tags.get(tag)?.to_owned(),
        Dimension::Blocker => key.blocker.as_ref()?.to_string(),
    })
}
