//! Which servers are asked, and as whom.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use ask::{Encryption, Target};
use auth::Secret;
use config::Config;
use connections::databases::{Address, Database, Host};
use machine::Settings;
use settings::TlsSettings;

/// The database that is there if no other is named: of the entry `*`.
const FALLBACK_DATABASE: &str = "postgres";

/// A server that is to be asked, or why it is not.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) address: Arc<str>,
    pub(super) target: Result<Target, String>,
    /// `None`: it is never encrypted.
    pub(super) means: Option<Arc<Means>>,
}

/// What encryption is made from. A connection that was made from other ones is closed.
#[derive(PartialEq)]
pub(super) struct Means {
    settings: TlsSettings,
    /// A hash of what the files hold: it is compared with itself only.
    files: u64,
}

impl Means {
    fn of(settings: &TlsSettings) -> Means {
        let names = [
            &settings.server_tls_ca_file,
            &settings.server_tls_crl_file,
            &settings.server_tls_cert_file,
            &settings.server_tls_key_file,
        ];
        let mut hash = DefaultHasher::new();
        // One that cannot be read is as one that is not there; who connects is told.
        names.map(|name| fs::read(name).ok()).hash(&mut hash);
        Means { settings: settings.clone(), files: hash.finish() }
    }
}

/// Connections that will be open to PostgreSQL.
pub(crate) fn count(config: &Config) -> u32 {
    if config.pooling.global.observing.observe_interval.is_none() {
        return 0;
    }
    let can_be_asked = of(&config.pooling).into_iter().filter(|wanted| wanted.target.is_ok()).count();
    u32::try_from(can_be_asked).unwrap_or(u32::MAX)
}

/// Each server once, by its address: in the first entry of [databases], by name, that says as whom.
pub(super) fn of(settings: &Settings) -> Vec<Wanted> {
    let fallback = settings.fallback.as_ref().map(|database| (FALLBACK_DATABASE, database));
    let means = Arc::new(Means::of(&settings.global.tls));
    let entries = settings.databases.iter().map(|(name, database)| (name.as_str(), database)).chain(fallback);
    let mut found: BTreeMap<String, Wanted> = BTreeMap::new();
    for (name, database) in entries {
        for address in &database.hosts {
            let text = address.to_string();
            if found.get(&text).is_some_and(|wanted| wanted.target.is_ok()) {
                continue;
            }
            let target = target(settings, name, database, address);
            let is_local = matches!(address.host, Host::Unix(_));
            let means = (!is_local).then(|| Arc::clone(&means));
            found.insert(text.clone(), Wanted { address: text.into(), target, means });
        }
    }
    found.into_values().collect()
}

fn target(settings: &Settings, name: &str, database: &Database, address: &Address) -> Result<Target, String> {
    let own = settings.global.observing.observe_user.as_ref();
    target_as(own, settings, name, database, address)
}

/// A host of a database, as this user, or else as the one whose password is known.
pub(crate) fn target_as(
    own: Option<&String>,
    settings: &Settings,
    name: &str,
    database: &Database,
    address: &Address,
) -> Result<Target, String> {
    let user = own.or(database.forced_user.as_ref()).or_else(|| settings.only_user());
    let user = user.ok_or("observe_user is not set")?;
    let forced = database.password.as_ref().filter(|_| own.is_none());
    let password = match forced.or_else(|| settings.secrets.get(user)) {
        Some(Secret::Plain(password)) if !password.as_str().is_empty() => Some(password.as_str().to_owned()),
        _ => None,
    };
    let database = database.dbname.clone().unwrap_or_else(|| name.to_owned());
    Ok(programs::url::at(address, user.clone(), password, database, Encryption::of(&settings.global.tls)?))
}
