//! Which servers are asked where `observe_when` is `trouble`: those that clients wait for or whose statements are slow, and those that somebody
//! wants to see.
//!
//! Promises: a server without clients is never asked; one is left a minute after the last trouble.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::snapshot::ClientSnapshot;
use machine::{Settings, Snapshot};

/// The time after which a client that waits, or a statement under way, counts as trouble.
const TROUBLE: Duration = Duration::from_secs(1);

/// The time for which a server is asked after the last trouble or look.
const STAYS: Duration = Duration::from_secs(60);

/// By the address of a server, as people write it.
#[derive(Debug, Default)]
pub(super) struct Need {
    /// The page sets it each time that somebody looks.
    pub(super) is_looked_at: Arc<AtomicBool>,
    /// Those with clients.
    used: BTreeSet<String>,
    asked_until: BTreeMap<String, Instant>,
}

/// Databases, by what the workers have of them now.
#[derive(Debug, Default)]
pub(super) struct Signs<'s> {
    used: BTreeSet<&'s str>,
    troubled: BTreeSet<&'s str>,
}

impl<'s> Signs<'s> {
    pub(super) fn of(snapshots: &'s [Snapshot]) -> Signs<'s> {
        let mut signs = Signs::default();
        for snapshot in snapshots {
            for pool in &snapshot.pools {
                if pool.clients.active > 0 || pool.clients.waiting > 0 {
                    signs.used.insert(&*pool.key.database);
                }
                if Duration::from_micros(pool.maxwait_us) >= TROUBLE {
                    signs.troubled.insert(&*pool.key.database);
                }
            }
            let slow = snapshot.clients.iter().filter(|client| is_slow(snapshot, client));
            signs.troubled.extend(slow.map(|client| &*client.key.database));
        }
        signs
    }
}

impl Need {
    /// Decides anew. `is_looked_at`: somebody at the console wants to see all servers.
    pub(super) fn see(&mut self, signs: &Signs<'_>, settings: &Settings, is_looked_at: bool, now: Instant) {
        let is_looked_at = self.is_looked_at.swap(false, Ordering::Relaxed) || is_looked_at;
        self.used = addresses(&signs.used, settings);
        let wanted = if is_looked_at { self.used.clone() } else { addresses(&signs.troubled, settings) };
        self.asked_until.retain(|_, until| *until > now);
        self.asked_until.extend(wanted.into_iter().map(|address| (address, now + STAYS)));
    }

    pub(super) fn is_asked(&self, address: &str) -> bool {
        self.used.contains(address) && self.asked_until.contains_key(address)
    }
}

/// Whether its statement has been under way for long, or one of a transaction that has. What replicates always is.
fn is_slow(snapshot: &Snapshot, client: &ClientSnapshot) -> bool {
    let began_at = client.doing.began_at.filter(|_| client.doing.has_request && client.ties.replication.is_none());
    began_at.is_some_and(|began_at| snapshot.now.since(began_at) >= TROUBLE)
}

fn addresses(databases: &BTreeSet<&str>, settings: &Settings) -> BTreeSet<String> {
    let found = databases.iter().filter_map(|name| settings.database(name));
    found.flat_map(|database| database.hosts.iter().map(ToString::to_string).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use connections::databases::{Address, Database, Host};

    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        for (name, port) in [("shop", 1), ("blog", 2)] {
            let hosts = vec![Address { host: Host::Ip([127, 0, 0, 1].into()), port }];
            settings.databases.insert(name.to_owned(), Arc::new(Database::new(name, hosts)));
        }
        settings
    }

    #[test]
    fn a_server_is_asked_in_trouble_or_when_somebody_looks_and_for_a_minute_more() {
        let (settings, mut need, now) = (settings(), Need::default(), Instant::now());
        let [shop, blog] = ["127.0.0.1:1", "127.0.0.1:2"];
        let mut see = |used: &[&'static str], troubled: &[&'static str], is_looked_at, seconds| {
            let signs = Signs { used: used.iter().copied().collect(), troubled: troubled.iter().copied().collect() };
            need.see(&signs, &settings, is_looked_at, now + Duration::from_secs(seconds));
            [shop, blog].map(|address| need.is_asked(address))
        };
        let both = ["shop", "blog"];
        assert_eq!(see(&both, &[], false, 0), [false, false]);
        assert_eq!(see(&both, &["shop"], false, 1), [true, false], "a client has waited");
        assert_eq!(see(&both, &[], false, 60), [true, false]);
        assert_eq!(see(&both, &[], false, 61), [false, false], "a minute is over");
        assert_eq!(see(&["shop"], &[], true, 62), [true, false], "nobody uses the other");
        assert_eq!(see(&["blog"], &[], false, 63), [false, false], "nobody uses the first any more");
        assert_eq!(see(&both, &[], true, 64), [true, true]);
    }
}
