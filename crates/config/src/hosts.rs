//! What a file says about the hosts of databases and cannot mean: a part of `sense`.
//!
//! Promises that a parameter that is written down silences its warning: `target_session_attrs=any` says that all hosts take writes.

use std::collections::{BTreeMap, BTreeSet};

use auth::Secret;
use connections::databases::{Address, Database, Host, TargetSessionAttrs};
use machine::Settings;
use settings::Key;

use crate::entry::Entry;
use crate::pairs;
use crate::problem::{Place, Problem, quoted};

pub(crate) fn judge(settings: &Settings, entries: &BTreeMap<String, Entry>) -> Vec<Problem> {
    let databases = settings.databases.values().chain(&settings.fallback);
    let written = databases.filter_map(|database| Some((&**database, entries.get(&database.name)?)));
    written
        .flat_map(|(database, entry)| {
            let found = [
                without_role(database, entry),
                twice(database, entry),
                ourselves(settings, database, entry),
                patroni_for_nothing(database, entry),
            ];
            found.into_iter().flatten()
        })
        .collect()
}

/// A prober that PostgreSQL does not let in, unless it asks for no password.
pub(crate) fn prober_without_password(settings: &Settings, place: &Place) -> Option<Problem> {
    let user = settings.global.servers.host_check_user.as_ref()?;
    let is_known = |secret: &Secret| matches!(secret, Secret::Plain(password) if !password.as_str().is_empty());
    if settings.secrets.get(user).is_some_and(is_known) {
        return None;
    }
    let expected =
        "a user whose password is in auth_file, in the clear: as it is hosts are probed without one".to_owned();
    Some(Problem::warning(place, Key::host_check_user.name(), quoted(user), expected))
}

/// Several hosts, which are a primary and standbys more often than not.
fn without_role(database: &Database, entry: &Entry) -> Option<Problem> {
    let hosts: BTreeSet<&Address> = database.hosts.iter().collect();
    if hosts.len() < 2 || has(entry, "target_session_attrs") {
        return None;
    }
    let found = format!("{} hosts without target_session_attrs", hosts.len());
    let expected = "target_session_attrs=primary, if all but one are standbys: as it is writes go to each of them, and a \
                    standby refuses them (25006). any: all take writes";
    Some(Problem::warning(&entry.place, &entry.key("host"), found, expected.to_owned()))
}

fn twice(database: &Database, entry: &Entry) -> Option<Problem> {
    let mut seen = BTreeSet::new();
    let again = database.hosts.iter().find(|host| !seen.insert(*host))?;
    let expected = "each server once: it is used as one host".to_owned();
    Some(Problem::warning(&entry.place, &entry.key("host"), format!("{} twice", quoted(&again.to_string())), expected))
}

/// A host at which pgweir itself listens, as far as the file tells: other addresses of this machine are not known here.
fn ourselves(settings: &Settings, database: &Database, entry: &Entry) -> Option<Problem> {
    let listening = &settings.global.listening;
    let is_ours = |address: &&Address| {
        let is_at = |host: &str| listening.listen_addr.iter().any(|own| own == host);
        let is_everywhere = is_at("*") || is_at("0.0.0.0") || is_at("::");
        address.port == listening.listen_port
            && match &address.host {
                Host::Unix(folder) => listening.unix_socket_dir.as_ref() == Some(folder),
                Host::Ip(ip) => is_at(&ip.to_string()) || (is_everywhere && ip.is_loopback()),
                Host::Name(name) if name == "localhost" => is_everywhere || is_at("127.0.0.1") || is_at("::1"),
                Host::Name(name) => is_at(name),
            }
    };
    let own = database.hosts.iter().find(is_ours)?;
    let expected =
        "PostgreSQL's address: this is where pgweir itself listens, and it would be its own client".to_owned();
    Some(Problem::warning(&entry.place, &entry.key("host"), quoted(&own.to_string()), expected))
}

/// Patroni's word chooses between hosts that accept writes, for a database that wants one of them.
fn patroni_for_nothing(database: &Database, entry: &Entry) -> Option<Problem> {
    let urls = database.patroni_urls.as_ref()?.len();
    let has_role = database.target_session_attrs != TargetSessionAttrs::Any;
    let expected = match (has_role, database.hosts.len()) {
        (true, 2..) => return None,
        (true, _) => "all hosts of the cluster in host=: with one there is nothing to choose",
        (false, 2..) => "target_session_attrs=primary beside it: as it is Patroni's word is shown, and chooses nothing",
        (false, _) => {
            "target_session_attrs=primary and all hosts of the cluster in host=: as it is Patroni's word is shown, and chooses nothing"
        }
    };
    Some(Problem::warning(&entry.place, &entry.key("patroni_urls"), format!("{urls} of Patroni"), expected.to_owned()))
}

fn has(entry: &Entry, parameter: &str) -> bool {
    pairs::parse(&entry.text).is_ok_and(|pairs| pairs.iter().any(|(key, value)| key == parameter && !value.is_empty()))
}
