//! Hints about the primary: by Patroni, if `patroni_urls` is set, and by administrators.
//!
//! ```text
//!   Patroni ── a Watch for each list of URLs ──► view ─┬─ SHOW HOSTS
//!                                                      └─ another leader ─► hint
//!   PROMOTED, DEMOTED at the console ──────────────────────────────────────► hint
//! ```
//!
//! Promises that a member that cannot be asked is logged once, and changes nothing, and that after a wrong setting at a RELOAD Patroni is asked as
//! before. Does not decide which host is the primary: the coordinator does, by what PostgreSQL answers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use crate::probing::Probing;
use auth::Secret;
use config::Config;
use connections::databases::Address;
use engine::Handle;
use http_client::{Client, Encryption, Identity, certificates};
use machine::hint::is_called;
use machine::{Hint, HintSource, Level, Settings};
use names::KnownName;
use patroni::{Member, News, Seen, Url, Watch};
use settings::{HttpUrl, PatroniSettings};
use units::names::shown;

/// How long a member of Patroni's may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the leader's hint is given again while the leader stays, so that it counts whenever two hosts accept writes.
const CONFIRM: Duration = Duration::from_secs(2);

/// Receives all hints. Its watches end with the last clone.
#[derive(Clone)]
pub(crate) struct Hints {
    shared: Arc<Shared>,
}

struct Shared {
    handle: Handle,
    probing: Probing,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    settings: Arc<Settings>,
    clusters: Vec<AskedCluster>,
}

/// A cluster that is asked.
struct AskedCluster {
    urls: Vec<HttpUrl>,
    access: PatroniAccess,
    watch: Watch,
}

/// How it is asked. A change of any of this makes another watch.
#[derive(Clone, PartialEq)]
struct PatroniAccess {
    settings: PatroniSettings,
    login: Option<(String, String)>,
    /// A hash of what the files of TLS hold: it is compared with itself only.
    files: u64,
}

impl PatroniAccess {
    fn of(settings: &Settings) -> PatroniAccess {
        let own = &settings.global.patroni;
        let login = own.patroni_user.as_ref().and_then(|user| match settings.secrets.get(user) {
            Some(Secret::Plain(password)) => Some((user.clone(), password.as_str().to_owned())),
            _ => None,
        });
        let files = [&own.patroni_tls_ca_file, &own.patroni_tls_cert_file, &own.patroni_tls_key_file];
        let mut hash = DefaultHasher::new();
        // A file that cannot be read counts as missing; `client` reports the error.
        files.map(|name| std::fs::read(name).ok()).hash(&mut hash);
        PatroniAccess { settings: own.clone(), login, files: hash.finish() }
    }

    /// # Errors
    /// The files of TLS cannot be used, or a password is missing, in words for the log.
    fn client(&self, urls: &[HttpUrl]) -> Result<Client, String> {
        let own = &self.settings;
        if let (Some(user), None) = (&own.patroni_user, &self.login) {
            return Err(format!("patroni_user \"{}\" has no password in clear text in auth_file", shown(user)));
        }
        let file = |name| Some(name).filter(|name: &&String| !name.is_empty());
        let is_encrypted = urls.iter().any(|url| url.is_encrypted);
        if !is_encrypted {
            return Ok(Client::new(&[], None, Encryption::AsTheUrlSays, PATIENCE));
        }
        let trusted = certificates(file(&own.patroni_tls_ca_file).map(|name| ("patroni_tls_ca_file", name.as_str())))?;
        let identity = match (file(&own.patroni_tls_cert_file), file(&own.patroni_tls_key_file)) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (("patroni_tls_cert_file", &**certificate), ("patroni_tls_key_file", &**key));
                Some(Identity::read(certificate, key)?)
            }
            (None, None) => None,
            _ => return Err("patroni_tls_cert_file and patroni_tls_key_file need each other".to_owned()),
        };
        Ok(Client::new(&trusted, identity, Encryption::AsTheUrlSays, PATIENCE))
    }
}

impl Hints {
    pub(crate) fn start(config: &Config, handle: Handle, probing: Probing) -> Hints {
        let hints = Hints { shared: Arc::new(Shared { handle, probing, state: Mutex::default() }) };
        hints.configure(config);
        hints
    }

    /// Puts a new configuration in force.
    pub(crate) fn configure(&self, config: &Config) {
        let settings = Arc::new(config.pooling.clone());
        let access = PatroniAccess::of(&settings);
        let mut wanted: Vec<Vec<HttpUrl>> = Vec::new();
        for (urls, _) in asked(&settings) {
            if !wanted.iter().any(|known| known == urls) {
                wanted.push(urls.to_vec());
            }
        }
        let mut state = self.shared.lock();
        state.settings = settings;
        state.clusters.retain(|cluster| wanted.contains(&cluster.urls));
        for urls in wanted {
            let known = state.clusters.iter().position(|cluster| cluster.urls == urls);
            if known.is_some_and(|at| state.clusters[at].access == access) {
                continue;
            }
            match self.watch(urls, access.clone()) {
                Ok(cluster) => match known {
                    Some(at) => state.clusters[at] = cluster,
                    None => state.clusters.push(cluster),
                },
                Err(why) => {
                    let words = if known.is_some() { "asked as before" } else { "not asked" };
                    self.shared.handle.log().say(Level::Error, format!("{why}; Patroni is {words}"));
                }
            }
        }
    }

    /// # Errors
    /// It cannot be asked, in words for the log.
    fn watch(&self, urls: Vec<HttpUrl>, access: PatroniAccess) -> Result<AskedCluster, String> {
        let options = patroni::Options {
            urls: urls.iter().map(url).collect(),
            client: access.client(&urls)?,
            login: access.login.clone(),
            confirm: CONFIRM,
        };
        let shared = Arc::downgrade(&self.shared);
        let mut hearing = Hearing { shared, urls: urls.clone(), leader: None };
        let watch = Watch::start(options, move |news| hearing.hear(news));
        let watch = watch.map_err(|why| format!("cannot start a thread: {why}"))?;
        Ok(AskedCluster { urls, access, watch })
    }

    /// Passes on that a host is the primary, or is not any more.
    pub(crate) fn hint(&self, hint: &Hint) {
        self.shared.hint(hint);
        // Patroni may have it, too.
        self.look_now();
    }

    /// Patroni is asked at once: somebody waits for a primary.
    pub(crate) fn look_now(&self) {
        self.shared.lock().clusters.iter().for_each(|cluster| cluster.watch.look_now());
    }

    /// Patroni's words for hosts, as far as they are known without asking anybody.
    pub(crate) fn patroni_roles(&self) -> BTreeMap<Address, String> {
        let names = self.shared.handle.names().names;
        let addresses_of = |name: &str| known_addresses(&names, name);
        let state = self.shared.lock();
        let mut roles = BTreeMap::new();
        for (urls, hosts) in asked(&state.settings) {
            let cluster = state.clusters.iter().find(|cluster| cluster.urls == urls);
            let Some(view) = cluster.and_then(|cluster| cluster.watch.view()) else { continue };
            for host in hosts {
                if let Some(member) = view.members.iter().find(|member| is_member(host, member, &addresses_of)) {
                    roles.insert(host.clone(), member.role.clone());
                }
            }
        }
        roles
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// All hints come here.
    fn hint(&self, hint: &Hint) {
        let Hint { host, is_primary, source } = hint;
        let what = if *is_primary { "is the primary now" } else { "is not the primary any more" };
        let text = format!("hint: {host} {what}, says {source}");
        self.handle.log().say(Level::Log, text);
        self.handle.hinted(hint.clone());
        self.probing.urge(host);
    }
}

/// The last news of one cluster.
struct Hearing {
    shared: Weak<Shared>,
    urls: Vec<HttpUrl>,
    leader: Option<Member>,
}

impl Hearing {
    fn hear(&mut self, news: News) {
        // None: the process ends.
        let Some(shared) = self.shared.upgrade() else { return };
        let say = |level, text: String| shared.handle.log().say(level, text);
        match news {
            News::Failed { url, words } => {
                say(Level::Warning, format!("Patroni at {url} cannot be used: {words}"));
            }
            News::Back { url } => say(Level::Log, format!("Patroni at {url} can be used again")),
            News::Seen(seen) => self.see(&shared, &seen),
            News::Confirmed(seen) => self.confirm(&shared, &seen),
        }
    }

    /// Patroni has the same leader as before. Databases may be new. A view of unknown age may be that of a member which is cut off.
    fn confirm(&self, shared: &Shared, Seen { view, age }: &Seen) {
        let Some(age) = *age else { return };
        let settings = Arc::clone(&shared.lock().settings);
        let names = shared.handle.names().names;
        let source = HintSource::Patroni { scope: view.scope.clone().unwrap_or_default(), age };
        for host in self.hints(&settings, None, &|name| known_addresses(&names, name)).into_keys() {
            shared.handle.hinted(Hint { host, is_primary: true, source: source.clone() });
        }
    }

    /// Takes another leader. A view of unknown age counts as new here, since it differs from the one before.
    fn see(&mut self, shared: &Shared, Seen { view, age }: &Seen) {
        let place = |member: &Member| (member.name.clone(), member.host.clone(), member.port);
        let leader = view.leader().cloned();
        if leader.as_ref().map(place) == self.leader.as_ref().map(place) {
            self.leader = leader;
            return;
        }
        let before = std::mem::replace(&mut self.leader, leader);
        let scope = view.scope.clone().unwrap_or_default();
        let text = match &self.leader {
            Some(member) => {
                let host = member.host.as_deref().unwrap_or("an unknown place");
                let port = member.port.map(|port| format!(":{port}")).unwrap_or_default();
                let timeline = view.timeline.map(|timeline| format!(", timeline {timeline}")).unwrap_or_default();
                format!("Patroni cluster {scope}: {} at {host}{port} leads now{timeline}", member.name)
            }
            None => format!("Patroni cluster {scope}: nobody leads"),
        };
        shared.handle.log().say(Level::Log, text);
        let settings = Arc::clone(&shared.lock().settings);
        let names = shared.handle.names().names;
        let mut hints = self.hints(&settings, before.as_ref(), &|name| known_addresses(&names, name));
        if !hints.values().any(|is_primary| *is_primary) {
            // It takes longer where a name server is silent.
            let look_up = |name: &str| shared.handle.addresses_of(name, PATIENCE);
            hints.append(&mut self.hints(&settings, None, &look_up));
        }
        if self.leader.is_some() && !hints.values().any(|is_primary| *is_primary) {
            let text = format!(
                "Patroni cluster {scope}: its leader is none of the hosts of a database with these patroni_urls"
            );
            shared.handle.log().say(Level::Warning, text);
        }
        for (host, is_primary) in hints {
            let source = HintSource::Patroni { scope: scope.clone(), age: age.unwrap_or_default() };
            shared.hint(&Hint { host, is_primary, source });
        }
    }

    /// The hints for hosts of databases, by the leader now and the one before.
    fn hints(
        &self,
        settings: &Settings,
        before: Option<&Member>,
        addresses_of: &dyn Fn(&str) -> Vec<IpAddr>,
    ) -> BTreeMap<Address, bool> {
        let mut hints = BTreeMap::new();
        for (_, hosts) in asked(settings).filter(|(urls, _)| *urls == self.urls) {
            for host in hosts {
                let is = |member: Option<&Member>| member.is_some_and(|member| is_member(host, member, addresses_of));
                if is(self.leader.as_ref()) {
                    hints.insert(host.clone(), true);
                } else if is(before) {
                    hints.insert(host.clone(), false);
                }
            }
        }
        hints
    }
}

/// The addresses that a name had when it was looked up last.
fn known_addresses(names: &[KnownName], name: &str) -> Vec<IpAddr> {
    let known = names.iter().find(|known| known.name.eq_ignore_ascii_case(name));
    known.map(|known| known.addresses.clone()).unwrap_or_default()
}

/// The lists of URLs that databases have, each with the hosts of such a database.
fn asked(settings: &Settings) -> impl Iterator<Item = (&[HttpUrl], &[Address])> {
    let databases = settings.databases.values().map(|database| &**database).chain(settings.fallback.as_deref());
    databases.filter_map(|database| Some((database.patroni_urls.as_deref()?, database.hosts.as_slice())))
}

fn url(url: &HttpUrl) -> Url {
    Url { base: url.text().trim_end_matches('/').to_owned(), host: url.host.clone() }
}

/// Whether a host of the settings is this member: by the name or address that Patroni has for it, or by the host of its URL.
fn is_member(host: &Address, member: &Member, addresses_of: &dyn Fn(&str) -> Vec<IpAddr>) -> bool {
    let mut names = member.host.iter().chain(&member.asked_at);
    member.port.is_some() && names.any(|name| is_called(host, name, member.port, addresses_of))
}

#[cfg(test)]
mod tests {
    use connections::databases::Host;

    use super::*;

    #[test]
    fn a_member_is_known_by_its_address_or_by_the_host_of_its_url() {
        let member = |host: Option<&str>, port, asked_at: Option<&str>| Member {
            host: host.map(str::to_owned),
            port,
            asked_at: asked_at.map(str::to_owned),
            ..Member::default()
        };
        let host = Address { host: Host::Name("db1".to_owned()), port: 5432 };
        let table = [
            (member(Some("db1"), Some(5432), None), true),
            (member(Some("10.0.0.1"), Some(5432), Some("db1")), true),
            (member(Some("10.0.0.1"), Some(5432), Some("db2")), false),
            (member(Some("10.0.0.1"), Some(5433), Some("db1")), false),
            (member(None, None, Some("db1")), false),
        ];
        for (member, expected) in table {
            assert_eq!(is_member(&host, &member, &|_| Vec::new()), expected, "{member:?}");
        }
    }

    #[test]
    fn a_url_is_asked_without_the_slash_at_its_end() {
        let base = |text: &str| url(&HttpUrl::read(text).expect("a URL")).base;
        assert_eq!(base("https://a"), "https://a:443");
        assert_eq!(base("http://[::1]:8008/one/"), "http://[::1]:8008/one");
    }
}
