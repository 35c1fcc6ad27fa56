//! Resolves host names on threads of its own, since `getaddrinfo` may take seconds.
//!
//! Every request is answered through the mailbox of the thread that sent it. An answer is kept for [`KEPT`], a failure
//! for [`FAILURE_KEPT`] (`//= pgbouncer config.md#dns_max_ttl`), since `getaddrinfo` does not return the record's own
//! TTL.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use units::ConnId;

use crate::letter::{Letter, Letterbox, Resolved};

/// PgBouncer's default.
const KEPT: Duration = Duration::from_secs(15);

/// A failure is tried again sooner, since clients are waiting meanwhile.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

/// Names kept. Names come from the settings, so there are few; the bound guards against a `*` entry with very many.
const NAMES_MAX: usize = 1024;

/// Two, so that one name server that does not answer does not block all names.
const THREADS: usize = 2;

struct LookupRequest {
    conn: ConnId,
    name: String,
    answer: Arc<Letterbox>,
}

/// The queue for requests. The threads end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Resolver {
    queue: Sender<LookupRequest>,
    cache: Arc<Mutex<Cache>>,
}

impl Resolver {
    pub(crate) fn start() -> io::Result<Resolver> {
        let (queue, asked) = channel();
        let asked = Arc::new(Mutex::new(asked));
        let cache = Arc::new(Mutex::new(Cache::default()));
        for _ in 0..THREADS {
            let (asked, cache) = (Arc::clone(&asked), Arc::clone(&cache));
            std::thread::Builder::new().name("resolve".to_owned()).spawn(move || resolve(&asked, &cache))?;
        }
        Ok(Resolver { queue, cache })
    }

    /// Names that are known, how long still, and their addresses; none for a name that could not be resolved.
    pub(crate) fn known(&self) -> Vec<(String, Duration, Vec<IpAddr>)> {
        let now = Instant::now();
        let cache = self.cache.lock().expect("the cache does not panic");
        let known = cache.names.iter().filter(|(_, (until, _))| *until > now);
        let addresses = |resolved: &Resolved| resolved.as_ref().map(|found| found.to_vec()).unwrap_or_default();
        known.map(|(name, (until, resolved))| (name.clone(), *until - now, addresses(resolved))).collect()
    }

    pub(crate) fn submit(&self, conn: ConnId, name: String, answer: &Arc<Letterbox>) {
        let asked = LookupRequest { conn, name, answer: Arc::clone(answer) };
        // The threads live as long as this queue, and looking a name up does not panic.
        let _ = self.queue.send(asked);
    }
}

#[derive(Default)]
struct Cache {
    names: BTreeMap<String, (Instant, Resolved)>,
}

impl Cache {
    fn get(&mut self, name: &str, now: Instant) -> Option<Resolved> {
        let (until, resolved) = self.names.get(name)?;
        (now < *until).then(|| resolved.clone())
    }

    fn put(&mut self, name: String, resolved: Resolved, now: Instant) {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let kept = if resolved.is_ok() { KEPT } else { FAILURE_KEPT };
        self.names.insert(name, (now + kept, resolved));
    }
}

fn resolve(queue: &Mutex<Receiver<LookupRequest>>, cache: &Mutex<Cache>) {
    loop {
        // The guard lives for the wait only: the other thread takes the next name while this one looks up.
        let next = queue.lock().expect("receiving does not panic").recv();
        let Ok(LookupRequest { conn, name, answer }) = next else { return };
        let known = cache.lock().expect("the cache does not panic").get(&name, Instant::now());
        let resolved = known.unwrap_or_else(|| {
            let found = look_up(&name);
            cache.lock().expect("the cache does not panic").put(name, found.clone(), Instant::now());
            found
        });
        answer.insist(Letter::Resolved { conn, resolved });
    }
}

fn look_up(name: &str) -> Resolved {
    let found: Vec<IpAddr> = match (name, 0).to_socket_addrs() {
        Ok(found) => found.map(|address: SocketAddr| address.ip()).collect(),
        Err(error) => return Err(format!("server DNS lookup failed: {name}: {error}")),
    };
    if found.is_empty() {
        return Err(format!("server DNS lookup failed: {name} has no address"));
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_this_machine() {
        let found = look_up("localhost").expect("every machine knows itself");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[test]
    fn a_failure_is_forgotten_sooner_than_an_answer() {
        let (now, mut cache) = (Instant::now(), Cache::default());
        cache.put("down".to_owned(), Err("no".to_owned()), now);
        cache.put("up".to_owned(), Ok([IpAddr::from([127, 0, 0, 1])].into()), now);
        assert!(cache.get("down", now).is_some() && cache.get("up", now).is_some());
        let later = now + Duration::from_secs(2);
        assert!(cache.get("down", later).is_none() && cache.get("up", later).is_some());
        assert!(cache.get("up", now + KEPT).is_none());
    }
}
