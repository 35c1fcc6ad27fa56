//! A summary of a stored second: its pools, and the number of samples by class of wait event.
//!
//! The charts of days read it, in a tenth of the time that restoring the second takes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use units::PoolKey;

use super::At;
use super::second::PoolSecond;

/// The summary of a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Glance {
    pub at: At,
    pub hosts_missing: u16,
    /// Samples by class of wait event.
    pub classes: BTreeMap<String, u32>,
    pub pools: Vec<(PoolKey, PoolSecond)>,
}

/// The fields in the order in which `stored` writes them.
#[derive(Deserialize)]
struct Glanced<'b> {
    at: u64,
    hosts_missing: u16,
    #[serde(borrow)]
    texts: Vec<&'b str>,
    _whos: IgnoredAny,
    /// The owner, the index of the class in `texts`, the event and the blocker.
    keys: Vec<(IgnoredAny, u32, IgnoredAny, IgnoredAny)>,
    samples: Vec<(u32, u32)>,
    _worst: IgnoredAny,
    _busy: IgnoredAny,
    pools: Vec<(PoolKey, PoolSecond)>,
    _whys: IgnoredAny,
    _locks: IgnoredAny,
}

impl Glance {
    /// # Errors
    /// These are not the bytes of a second, and why.
    pub fn of(bytes: &[u8]) -> Result<Glance, String> {
        let found: Glanced<'_> = rmp_serde::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut classes: BTreeMap<String, u32> = BTreeMap::new();
        for (key, count) in found.samples {
            let key = found.keys.get(key as usize);
            let class =
                key.and_then(|(_, class, ..)| found.texts.get(*class as usize)).ok_or("there is no such key")?;
            match classes.get_mut(*class) {
                Some(known) => *known = known.saturating_add(count),
                None => _ = classes.insert((*class).to_owned(), count),
            }
        }
        Ok(Glance { at: At(found.at), hosts_missing: found.hosts_missing, classes, pools: found.pools })
    }
}
