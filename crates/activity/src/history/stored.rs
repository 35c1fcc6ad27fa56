//! A second as bytes, and back: what is kept on disk.
//!
//! Promises: each second stands for itself, whatever came before it; bytes that nobody has written are an error with words, and nothing is kept
//! of them. Texts stand once in a second, since who does one thing is counted many times.
//!
//! Deliberately does not do: framing, which is `frames`, and any promise that a later version reads it: [`super::frames::HEADER`] says which
//! this is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machine::Peer;
use serde::{Deserialize, Serialize};
use units::{PoolKey, Serial};

use super::keys::{Key, KeyId, Who};
use super::locks::{LockLine, LockSeen};
use super::second::{Busy, Exact, PoolSecond, Sample, Second, WhySecond};
use super::{At, History, Span};
use crate::tags::Tags;

/// Of one second. What is written has less; more is an error.
const COUNT_MAX: usize = 4096;

#[derive(Serialize, Deserialize)]
struct Stored {
    at: u64,
    hosts_missing: u16,
    texts: Vec<Box<str>>,
    whos: Vec<StoredWho>,
    keys: Vec<StoredKey>,
    /// The key's place, and how many.
    samples: Vec<(u32, u32)>,
    worst: Vec<StoredRow>,
    /// The session, and the key's place.
    busy: Vec<(Serial, u32)>,
    pools: Vec<(PoolKey, PoolSecond)>,
    whys: Vec<WhySecond>,
    /// The key's place, and the line.
    locks: Vec<(u32, LockSeen)>,
}

/// Numbers are places among the texts.
#[derive(Serialize, Deserialize)]
struct StoredWho {
    database: u32,
    user: u32,
    class: u32,
    tags: Vec<(u32, u32)>,
    fingerprint: Option<u64>,
    statement: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    who: u32,
    class: u32,
    event: u32,
    blocker: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct StoredRow {
    key: u32,
    session: Option<(Serial, Peer)>,
    application_name: Box<str>,
    pid: Option<i32>,
    tags: Vec<(Box<str>, Box<str>)>,
    /// In milliseconds, as the next four: what is below is chance, and cannot be packed.
    waiting: Option<u64>,
    queued: u64,
    transaction: Option<u64>,
    idle: Option<u64>,
    query: Option<u64>,
    blocker: Option<i32>,
    root: Option<i32>,
    behind: u32,
}

impl History {
    /// The last second, as bytes. `None`: there is none.
    ///
    /// # Panics
    /// Never: writing to memory cannot fail.
    #[must_use]
    pub fn stored(&self) -> Option<(At, Vec<u8>)> {
        let second = self.seconds.back()?;
        let stored =
            Writing { history: self, texts: Vec::new(), places: BTreeMap::new(), whos: Vec::new() }.all(second);
        Some((second.at, rmp_serde::to_vec(&stored).expect("memory takes all")))
    }

    /// Keeps a second that was stored, if it lies within a span and is later than all that are kept. Whether it is kept.
    ///
    /// # Errors
    /// These are not the bytes of a second, and why.
    pub fn restore(&mut self, bytes: &[u8], within: Span) -> Result<bool, String> {
        let stored: Stored = rmp_serde::from_slice(bytes).map_err(|error| error.to_string())?;
        let second = At(stored.at).second();
        let is_later = self.seconds.back().is_none_or(|last| last.at.second() < second);
        if !is_later || second < within.from.second() || second > within.to.second() {
            return Ok(false);
        }
        stored.check()?;
        let second = SecondReader { history: self, texts: stored.texts.iter().map(|text| (&**text).into()).collect() }
            .all(&stored)?;
        self.weight += second.weight();
        self.seconds.push_back(second);
        self.fit();
        Ok(true)
    }
}

impl Stored {
    fn check(&self) -> Result<(), String> {
        let lens = [self.texts.len(), self.whos.len(), self.keys.len(), self.samples.len(), self.worst.len()];
        let most = lens
            .into_iter()
            .chain([self.busy.len(), self.whys.len(), self.locks.len(), self.pools.len() / 16])
            .max()
            .unwrap_or(0);
        if most > COUNT_MAX { Err(format!("a second has {most} things of a kind")) } else { Ok(()) }
    }
}

/// A second that is being written.
struct Writing<'h> {
    history: &'h History,
    texts: Vec<Box<str>>,
    places: BTreeMap<Box<str>, u32>,
    whos: Vec<StoredWho>,
}

impl Writing<'_> {
    fn all(mut self, second: &Second) -> Stored {
        let mut places: BTreeMap<KeyId, u32> = BTreeMap::new();
        let (history, mut keys) = (self.history, Vec::new());
        for id in second.keys() {
            places.entry(id).or_insert_with(|| {
                keys.push(self.key(history.key(id)));
                place(keys.len() - 1)
            });
        }
        Stored {
            at: second.at.0,
            hosts_missing: second.hosts_missing,
            samples: second.samples.iter().map(|sample| (places[&sample.key], sample.count)).collect(),
            worst: second.worst.iter().map(|exact| stored_row(exact, places[&exact.key])).collect(),
            busy: second.busy.iter().map(|busy| (busy.session, places[&busy.key])).collect(),
            pools: second.pools.to_vec(),
            whys: second.whys.to_vec(),
            locks: second.locks.iter().map(|line| (places[&line.key], line.seen.clone())).collect(),
            keys,
            texts: self.texts,
            whos: self.whos,
        }
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        self.texts.push(text.into());
        let place = place(self.texts.len() - 1);
        self.places.insert(text.into(), place);
        place
    }

    fn key(&mut self, key: &Key) -> StoredKey {
        let blocker = key.blocker.as_ref().map(|who| self.who(who));
        StoredKey { who: self.who(&key.who), class: self.text(&key.class), event: self.text(&key.event), blocker }
    }

    fn who(&mut self, who: &Who) -> u32 {
        let tags = who.tags.iter().map(|(key, value)| (self.text(key), self.text(value))).collect();
        let stored = StoredWho {
            database: self.text(&who.database),
            user: self.text(&who.user),
            class: self.text(&who.class),
            tags,
            fingerprint: who.fingerprint,
            statement: self.text(&who.statement),
        };
        self.whos.push(stored);
        place(self.whos.len() - 1)
    }
}

/// A second that is being read.
struct SecondReader<'h> {
    history: &'h mut History,
    texts: Vec<Arc<str>>,
}

impl SecondReader<'_> {
    fn all(&mut self, stored: &Stored) -> Result<Second, String> {
        let whos: Vec<Who> = stored.whos.iter().map(|who| self.who(who)).collect::<Result<_, _>>()?;
        let who = |place: u32| whos.get(place as usize).cloned().ok_or("there is no such name");
        let mut keys: Vec<Key> = Vec::new();
        for key in &stored.keys {
            let (class, event) = (self.text(key.class)?, self.text(key.event)?);
            let blocker = key.blocker.map(who).transpose()?;
            keys.push(Key { who: who(key.who)?, class, event, blocker });
        }
        // All places are looked at first: what is taken has to be given back.
        let samples = stored.samples.iter().map(|(key, _)| *key);
        let used = samples.chain(stored.worst.iter().map(|row| row.key)).chain(stored.busy.iter().map(|(_, key)| *key));
        let mut used = used.chain(stored.locks.iter().map(|(key, _)| *key));
        if used.any(|place| place as usize >= keys.len()) {
            return Err("there is no such key".to_owned());
        }
        let pools = stored.pools.iter().map(|(key, pool)| (self.pool_key(key), *pool)).collect();
        // Looked up once; most are used again.
        let mut ids: Vec<Option<KeyId>> = vec![None; keys.len()];
        let mut take = |place: u32| match ids[place as usize] {
            Some(id) => {
                self.history.keys.take_again(id);
                id
            }
            None => *ids[place as usize].insert(self.history.keys.take(keys[place as usize].clone())),
        };
        Ok(Second {
            at: At(stored.at),
            samples: stored.samples.iter().map(|(key, count)| Sample { key: take(*key), count: *count }).collect(),
            worst: stored.worst.iter().map(|row| exact(row, take(row.key))).collect(),
            busy: stored.busy.iter().map(|(session, key)| Busy { session: *session, key: take(*key) }).collect(),
            pools,
            whys: stored.whys.iter().cloned().collect(),
            locks: stored.locks.iter().map(|(key, seen)| LockLine { key: take(*key), seen: seen.clone() }).collect(),
            hosts_missing: stored.hosts_missing,
        })
    }

    fn text(&self, place: u32) -> Result<Arc<str>, String> {
        self.texts.get(place as usize).cloned().ok_or_else(|| "there is no such text".to_owned())
    }

    fn who(&self, who: &StoredWho) -> Result<Who, String> {
        let tags = who.tags.iter().map(|(key, value)| Ok::<_, String>((self.text(*key)?, self.text(*value)?)));
        let tags: Vec<(Arc<str>, Arc<str>)> = tags.collect::<Result<_, _>>()?;
        Ok(Who {
            database: self.text(who.database)?,
            user: self.text(who.user)?,
            class: self.text(who.class)?,
            tags: Tags::of_pairs(tags.iter().map(|(key, value)| (&**key, &**value))),
            fingerprint: who.fingerprint,
            statement: (&*self.text(who.statement)?).into(),
        })
    }

    /// The same one as a second before, so that its names are kept once.
    fn pool_key(&self, key: &PoolKey) -> PoolKey {
        let last = self.history.seconds.back();
        let known = last.and_then(|last| last.pools.iter().find(|(known, _)| known == key));
        known.map_or_else(|| key.clone(), |(known, _)| known.clone())
    }
}

fn stored_row(exact: &Exact, key: u32) -> StoredRow {
    StoredRow {
        key,
        session: exact.session,
        application_name: exact.application_name.clone(),
        pid: exact.pid,
        tags: exact.tags.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        waiting: exact.waiting.map(ms),
        queued: ms(exact.queued),
        transaction: exact.transaction.map(ms),
        idle: exact.idle.map(ms),
        query: exact.query.map(ms),
        blocker: exact.blocker,
        root: exact.root,
        behind: exact.behind,
    }
}

fn exact(row: &StoredRow, key: KeyId) -> Exact {
    Exact {
        key,
        session: row.session,
        application_name: row.application_name.clone(),
        pid: row.pid,
        tags: Tags::of_pairs(row.tags.iter().map(|(key, value)| (&**key, &**value))),
        waiting: row.waiting.map(Duration::from_millis),
        queued: Duration::from_millis(row.queued),
        transaction: row.transaction.map(Duration::from_millis),
        idle: row.idle.map(Duration::from_millis),
        query: row.query.map(Duration::from_millis),
        blocker: row.blocker,
        root: row.root,
        behind: row.behind,
    }
}

fn ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

fn place(place: usize) -> u32 {
    u32::try_from(place).expect("a second has some hundred things")
}
