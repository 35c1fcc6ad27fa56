//! The keys of an identity provider, from a file or by HTTPS.
//!
//! They are read again when they are [`OLD`], and when a token names one that is not among them, at most every
//! [`PAUSE`]: tokens with made-up names of keys cost the provider next to nothing. Where they cannot be had anew, those of
//! before serve for [`KEPT`].
//!
//! ```text
//!   token ─► a kept key that is not OLD ─► there it is
//!                │ none
//!                ▼
//!            a thread of its own reads ◄── whoever comes meanwhile waits too: for MOMENT after its beginning where keys are
//!                │                         kept that serve, else until its own deadline
//!                ▼
//!            what is kept by then
//! ```
//!
//! Promises that a provider who takes its time keeps nobody waiting for longer, and that one thread at a time reads. Each
//! who waits here is a thread of the office's that others wait for, too.
//!
//! //= rfc7517#section-5

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use http_client::{Client, Encryption, certificates};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

use crate::trust::CA_FILE;

const OLD: Duration = Duration::from_secs(300);
/// From the end of one try to the next.
const PAUSE: Duration = Duration::from_secs(10);
const KEPT: Duration = Duration::from_secs(3600);
/// How long a provider may take for its keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long new keys are waited for where old ones serve: longer than a provider takes that is well, so that a key which it
/// has taken back lets nobody in.
const MOMENT: Duration = Duration::from_secs(2);
/// Providers have some ten keys, of half a kilobyte each.
const BYTES_MAX: u64 = 1 << 20;
const KEYS_MAX: usize = 100;

/// A file or a URL, and the file with the CAs for that.
type Source<'a> = (&'a str, Option<&'a Arc<str>>);

/// The keys that were read last.
#[derive(Default)]
pub(crate) struct Keys(Arc<Reading>);

#[derive(Default)]
struct Reading {
    kept: Mutex<KeySet>,
    has_tried: Condvar,
}

#[derive(Default)]
struct KeySet {
    source: String,
    keys: Vec<Key>,
    read_at: Option<Instant>,
    /// How often this source was tried, and until when it is not tried again.
    tries: u64,
    pause_until: Option<Instant>,
    /// Why the last try has failed.
    failure: Option<String>,
    /// Since when a thread reads, from this source or from the one before it.
    asking_since: Option<Instant>,
}

#[derive(Clone)]
struct Key {
    name: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Keys {
    /// The key of that name, or the only one for the algorithm where the token names none. `None`: there is no such key.
    ///
    /// # Errors
    /// There are no keys, in words for the log.
    pub(crate) fn find(
        &self,
        source: Source<'_>,
        name: Option<&str>,
        algorithm: Algorithm,
        until: Instant,
    ) -> Result<Option<DecodingKey>, String> {
        let Keys(reading) = self;
        let mut kept = reading.lock();
        kept.turn_to(source.0);
        let tries = kept.tries;
        // One try more than were is enough, whatever it has brought.
        while kept.tries == tries && (kept.is_old() || kept.get(name, algorithm).is_none()) {
            let now = Instant::now();
            let since = match kept.asking_since {
                Some(since) => since,
                None if kept.pause_until.is_some_and(|until| now < until) => break,
                None => {
                    kept.failure = Reading::begin(reading, source).err();
                    if kept.failure.is_some() {
                        break;
                    }
                    kept.asking_since = Some(now);
                    now
                }
            };
            let limit = if kept.serves() { until.min(since + MOMENT) } else { until };
            let left = limit.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            let woken = reading.has_tried.wait_timeout(kept, left);
            kept = woken.unwrap_or_else(PoisonError::into_inner).0;
            // Meanwhile there may be other settings, and who came under these.
            kept.turn_to(source.0);
        }
        if kept.serves() {
            return Ok(kept.get(name, algorithm));
        }
        Err(kept.failure.clone().unwrap_or_else(|| "no answer in time".to_owned()))
    }
}

impl Reading {
    /// What is kept is whole after each statement that changes it: a panic between two of them is no reason to refuse all
    /// tokens from then on.
    fn lock(&self) -> MutexGuard<'_, KeySet> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that reads the keys. Who waits for it may have less time than it needs, so it is none of theirs.
    fn begin(reading: &Arc<Reading>, (name, ca_file): Source<'_>) -> Result<(), String> {
        let (reading, name, ca_file) = (Arc::clone(reading), name.to_owned(), ca_file.cloned());
        let work = move || {
            let began = Instant::now();
            // A panic is a bug in what reads, and must not look like a try that goes on.
            let found = catch_unwind(AssertUnwindSafe(|| read((&name, ca_file.as_ref()))));
            let found = found.unwrap_or_else(|_| Err("reading them has failed".to_owned()));
            reading.lock().take(&name, found, began.elapsed());
            reading.has_tried.notify_all();
        };
        let started = thread::Builder::new().name("keys".to_owned()).spawn(work);
        started.map(|_| ()).map_err(|error| format!("there is no thread to read them: {error}"))
    }
}

impl KeySet {
    /// Forgets the keys of another source.
    fn turn_to(&mut self, source: &str) {
        if self.source != source {
            *self = KeySet { source: source.to_owned(), asking_since: self.asking_since, ..KeySet::default() };
        }
    }

    fn is_old(&self) -> bool {
        self.read_at.is_none_or(|at| at.elapsed() >= OLD)
    }

    /// Whether there are keys to go by.
    fn serves(&self) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() < KEPT)
    }

    /// A try has come to its end. Where there is nothing to go by, the next one may begin after as much time as this has
    /// taken: a provider that is not there says so at once, and is noticed soon after it has come.
    fn take(&mut self, source: &str, found: Result<Vec<Key>, String>, took: Duration) {
        self.asking_since = None;
        // Otherwise those who ask want other keys by now.
        if self.source != source {
            return;
        }
        let now = Instant::now();
        self.tries += 1;
        match found {
            Ok(keys) => (self.keys, self.read_at) = (keys, Some(now)),
            Err(why) => self.failure = Some(why),
        }
        let pause = if self.serves() { PAUSE } else { took.min(PAUSE) };
        self.pause_until = Some(now + pause);
    }

    fn get(&self, name: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let mut fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
        if name.is_some() {
            return fitting.find(|key| key.name.as_deref() == name).map(|key| key.key.clone());
        }
        fitting.next().filter(|_| fitting.next().is_none()).map(|key| key.key.clone())
    }
}

fn read(source: Source<'_>) -> Result<Vec<Key>, String> {
    let (name, ca_file) = source;
    let bytes = match name.starts_with("https://") {
        true => fetch(name, ca_file)?,
        false => {
            let len = std::fs::metadata(name).map_err(|error| format!("\"{name}\": {error}"))?.len();
            if len > BYTES_MAX {
                return Err(format!("\"{name}\" is too long"));
            }
            std::fs::read(name).map_err(|error| format!("\"{name}\": {error}"))?
        }
    };
    let set: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("\"{name}\" is no set of keys: {error}"))?;
    let list = set.get("keys").and_then(Value::as_array).ok_or_else(|| format!("\"{name}\" is no set of keys"))?;
    // Keys of other kinds may stand beside those that we can use.
    Ok(list.iter().take(KEYS_MAX).filter_map(usable).collect())
}

fn usable(value: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    // A key for another algorithm of its kind is for that only.
    let named = value.get("alg").and_then(Value::as_str);
    let is_for = named.is_none_or(|name| name == format!("{algorithm:?}"));
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| signs && is_for)?;
    Some(Key { name: jwk.common.key_id, algorithm, key })
}

fn fetch(url: &str, ca_file: Option<&Arc<str>>) -> Result<Vec<u8>, String> {
    let certificates = certificates(ca_file.map(|file| (CA_FILE, &**file)))?;
    let client = Client::new(&certificates, None, Encryption::Demanded, PATIENCE);
    let answer = client.get(url, std::iter::empty(), BYTES_MAX).map_err(|why| format!("\"{url}\": {}", why.words))?;
    if answer.status != 200 {
        return Err(format!("\"{url}\" says {}", answer.status));
    }
    Ok(answer.body)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Only a defect takes this long.
    const LONG: Duration = Duration::from_secs(120);

    fn file(name: &str) -> String {
        std::env::temp_dir().join(format!("keys-{}-{name}", std::process::id())).display().to_string()
    }

    fn write(file: &str, names: &[&str]) {
        // Any 32 bytes may be a key of this kind.
        let key = |name: &&str| {
            format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"{name}\",\"x\":\"{}\"}}", "A".repeat(43))
        };
        let keys: Vec<String> = names.iter().map(key).collect();
        std::fs::write(file, format!("{{\"keys\":[{}]}}", keys.join(","))).expect("a temporary file");
    }

    fn find(keys: &Keys, file: &str, name: &str) -> Result<bool, String> {
        let find = || keys.find((file, None), Some(name), Algorithm::EdDSA, Instant::now() + LONG);
        // With old keys that serve, `Keys::find` waits only a MOMENT: so wait for the end of the reading, however long, and ask again.
        let _ = find();
        let reads = |kept: &mut KeySet| kept.asking_since.is_some();
        drop(keys.0.has_tried.wait_while(keys.0.lock(), reads).unwrap_or_else(PoisonError::into_inner));
        find().map(|key| key.is_some())
    }

    /// Makes the kept keys older, as if this time had passed.
    fn age(keys: &Keys, by: Duration) {
        let mut kept = keys.0.lock();
        let kept = &mut *kept;
        for at in [&mut kept.read_at, &mut kept.pause_until] {
            *at = at.and_then(|at| at.checked_sub(by));
        }
    }

    #[test]
    fn a_new_key_is_found_after_a_pause_and_an_old_one_forgotten() {
        let (keys, file) = (Keys::default(), file("turns"));
        write(&file, &["a"]);
        assert_eq!(find(&keys, &file, "a"), Ok(true));
        write(&file, &["b"]);
        assert_eq!(find(&keys, &file, "b"), Ok(false), "it has just been read");
        age(&keys, PAUSE);
        assert_eq!(find(&keys, &file, "b"), Ok(true));
        write(&file, &["c"]);
        age(&keys, OLD);
        assert_eq!(find(&keys, &file, "b"), Ok(false), "it is taken back");
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn what_was_read_serves_for_a_while_only() {
        let (keys, file) = (Keys::default(), file("serves"));
        write(&file, &["a"]);
        assert_eq!(find(&keys, &file, "a"), Ok(true));
        std::fs::remove_file(&file).expect("it is there");
        age(&keys, OLD);
        assert_eq!(find(&keys, &file, "a"), Ok(true), "the provider is away");
        age(&keys, KEPT);
        assert!(find(&keys, &file, "a").is_err_and(|why| why.contains(&file)));
        write(&file, &["a"]);
        age(&keys, PAUSE);
        assert_eq!(find(&keys, &file, "a"), Ok(true), "it is back");
        std::fs::remove_file(&file).expect("it is there");
    }

    /// Replaces the file by one whose reader waits until the test writes.
    fn make_slow(file: &str) {
        std::fs::remove_file(file).expect("it is there");
        let made = std::process::Command::new("mkfifo").arg(file).status().expect("every Unix has it");
        assert!(made.success());
    }

    /// Lets all go on who wait for such a file.
    fn answer(file: &str, names: &[&str]) {
        let path = format!("{file}-answer");
        write(&path, names);
        let answer = std::fs::read(&path).expect("it was just written");
        // This waits for a reader.
        std::fs::write(file, answer).expect("somebody reads");
        std::fs::remove_file(path).expect("it is there");
    }

    /// What is found by somebody who has so much time; on a thread, so that a test ends if that does not.
    fn find_within(keys: &Arc<Keys>, file: &str, name: &'static str, time: Duration) -> Receiver<Result<bool, String>> {
        let (sender, found) = channel();
        let (keys, file) = (Arc::clone(keys), file.to_owned());
        std::thread::spawn(move || {
            let until = Instant::now() + time;
            let key = keys.find((&file, None), Some(name), Algorithm::EdDSA, until);
            sender.send(key.map(|key| key.is_some()))
        });
        found
    }

    #[test]
    fn kept_keys_serve_while_the_provider_takes_its_time() {
        let (keys, file) = (Arc::new(Keys::default()), file("slow"));
        write(&file, &["a"]);
        assert_eq!(find(&keys, &file, "a"), Ok(true));
        make_slow(&file);
        age(&keys, OLD);
        for time in [1, 3600].map(Duration::from_secs) {
            let found = find_within(&keys, &file, "a", time).recv_timeout(LONG);
            assert_eq!(found, Ok(Ok(true)), "the kept one is good for an hour");
        }
        let unknown = find_within(&keys, &file, "b", Duration::from_secs(3600)).recv_timeout(LONG);
        assert_eq!(unknown, Ok(Ok(false)), "a made-up name holds its thread for a moment only");
        answer(&file, &["b"]);
        let reads = |kept: &mut KeySet| kept.asking_since.is_some();
        drop(keys.0.has_tried.wait_while(keys.0.lock(), reads).expect("nothing panicked"));
        let found = find_within(&keys, &file, "b", Duration::from_secs(3600));
        assert_eq!(found.recv_timeout(LONG), Ok(Ok(true)));
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn who_has_nothing_to_go_by_waits_until_its_own_deadline() {
        let (keys, file) = (Arc::new(Keys::default()), file("first"));
        write(&file, &[]);
        make_slow(&file);
        let patient = find_within(&keys, &file, "a", Duration::from_secs(3600));
        let hasty = find_within(&keys, &file, "a", Duration::from_millis(50));
        assert_eq!(hasty.recv_timeout(LONG), Ok(Err("no answer in time".to_owned())));
        assert!(patient.try_recv().is_err(), "it has time");
        answer(&file, &["a"]);
        assert_eq!(patient.recv_timeout(LONG), Ok(Ok(true)), "both waited for the same keys");
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn a_panic_does_not_end_the_keys_for_good() {
        let (keys, file) = (Arc::new(Keys::default()), file("panic"));
        write(&file, &["a"]);
        let held = Arc::clone(&keys);
        let panicked = std::thread::spawn(move || {
            let _kept = held.0.kept.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(find(&keys, &file, "a"), Ok(true));
        std::fs::remove_file(&file).expect("it is there");
    }
}
