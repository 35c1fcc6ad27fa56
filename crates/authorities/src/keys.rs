//! The keys of an identity provider, from a file or by HTTPS.
//!
//! They are read again when they are [`OLD`], and when a token names one that is not among them, at most every
//! [`PAUSE`]: tokens with made-up names of keys cost the provider next to nothing. Where they cannot be had anew, those of
//! before serve for [`KEPT`].
//!
//! //= rfc7517#section-5

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::trust::{Trust, provider};

const OLD: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(10);
const KEPT: Duration = Duration::from_secs(3600);
/// How long a provider may take for its keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// Providers have some ten keys, of half a kilobyte each.
const BYTES_MAX: u64 = 1 << 20;
const KEYS_MAX: usize = 100;

/// A file or a URL, and the file with the CAs for that.
type Source<'a> = (&'a str, Option<&'a Arc<str>>);

/// The keys that were read last.
#[derive(Default)]
pub(crate) struct Keys(Mutex<KeySet>);

#[derive(Default)]
struct KeySet {
    source: String,
    keys: Vec<Key>,
    read_at: Option<Instant>,
    tried_at: Option<Instant>,
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
        trust: &Trust,
    ) -> Result<Option<DecodingKey>, String> {
        // Whoever waits here waits for the same keys.
        let mut kept = self.0.lock().expect("nothing panics while it holds this lock");
        if kept.source != source.0 {
            *kept = KeySet { source: source.0.to_owned(), ..KeySet::default() };
        }
        let age = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        let is_needed = age(kept.read_at) >= OLD || kept.get(name, algorithm).is_none();
        if is_needed && age(kept.tried_at) >= PAUSE {
            kept.tried_at = Some(Instant::now());
            match read(source, until, trust) {
                Ok(keys) => (kept.keys, kept.read_at) = (keys, Some(Instant::now())),
                Err(why) if age(kept.read_at) >= KEPT => {
                    // The next token may try at once: there is nothing else to go by.
                    kept.tried_at = None;
                    return Err(why);
                }
                Err(_) => {}
            }
        }
        if age(kept.read_at) >= KEPT {
            return Err("they are too old".to_owned());
        }
        Ok(kept.get(name, algorithm))
    }
}

impl KeySet {
    fn get(&self, name: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let mut fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
        if name.is_some() {
            return fitting.find(|key| key.name.as_deref() == name).map(|key| key.key.clone());
        }
        fitting.next().filter(|_| fitting.next().is_none()).map(|key| key.key.clone())
    }
}

fn read(source: Source<'_>, until: Instant, trust: &Trust) -> Result<Vec<Key>, String> {
    let (name, ca_file) = source;
    let bytes = match name.starts_with("https://") {
        true => fetch(name, ca_file, until, trust)?,
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

fn fetch(url: &str, ca_file: Option<&Arc<str>>, until: Instant, trust: &Trust) -> Result<Vec<u8>, String> {
    let certificates = trust.certificates(ca_file)?;
    let roots: Vec<Certificate<'static>> =
        certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider())
        .root_certs(RootCerts::new_with_certs(&roots))
        .build();
    let patience = until.saturating_duration_since(Instant::now()).min(PATIENCE);
    let agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .https_only(true)
        // Keys come from where the settings say.
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(patience))
        .build()
        .new_agent();
    let mut response = agent.get(url).call().map_err(|error| format!("\"{url}\": {error}"))?;
    if response.status() != 200 {
        return Err(format!("\"{url}\" says {}", response.status()));
    }
    response.body_mut().with_config().limit(BYTES_MAX).read_to_vec().map_err(|error| format!("\"{url}\": {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let until = Instant::now() + Duration::from_secs(1);
        let found = keys.find((file, None), Some(name), Algorithm::EdDSA, until, &Trust::default());
        found.map(|key| key.is_some())
    }

    /// As if so much time had passed.
    fn age(keys: &Keys, by: Duration) {
        let mut kept = keys.0.lock().expect("nothing panics while it holds this lock");
        let kept = &mut *kept;
        for at in [&mut kept.read_at, &mut kept.tried_at] {
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
        assert!(find(&keys, &file, "a").is_err());
        write(&file, &["a"]);
        assert_eq!(find(&keys, &file, "a"), Ok(true), "it is back");
        std::fs::remove_file(&file).expect("it is there");
    }
}
