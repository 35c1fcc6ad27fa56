//! The hosts to probe with their users, and the prober's connection to the data plane.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use ask::{Encryption, Target};
use config::Config;
use connections::databases::{Address, Database};
use control::{HostProbe, HostSeen, HostsSeen};
use engine::Handle;
use machine::{Level, Observed, Origin, Settings};
use prober::{Host, Options, Outlet, Prober, Resting, Seen};
use units::Time;

use crate::observer::target_as;

/// The database that is there if nobody has removed it. Whoever drops one that clients use does not have to wait for us.
const DATABASE: &str = "postgres";

/// The user for a host that trusts everybody, if no user is configured.
const NOBODY: &str = "pgweir";

/// The prober, as others see it.
#[derive(Clone)]
pub(crate) struct Probing(Arc<Prober>);

impl Probing {
    /// `probes`: hosts that the machines want to know of. `rests`: no host is asked before [`Probing::order`], since another process still has this one's place.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(
        config: &Config,
        handle: Handle,
        probes: Receiver<(Arc<Address>, bool)>,
        rests: bool,
    ) -> Result<Probing, String> {
        let prober = Arc::new(Prober::new(Arc::new(Machines(handle))));
        let probing = Probing(Arc::clone(&prober));
        if rests {
            prober.rest(Resting::All);
        }
        probing.configure(config);
        let urge = move || {
            for (host, is_urgent) in probes {
                prober.ask(&host, is_urgent);
            }
        };
        let started = thread::Builder::new().name("prober-urges".to_owned()).spawn(urge);
        started.map_err(|why| format!("cannot start a thread: {why}"))?;
        Ok(probing)
    }

    /// Puts a new configuration in force.
    pub(crate) fn configure(&self, config: &Config) {
        self.0.configure(options(&config.pooling));
    }

    /// Asks a host at once, and often for a while, and with it all hosts of its databases.
    pub(crate) fn urge(&self, host: &Address) {
        self.0.ask(host, true);
    }

    /// The last probe of each host.
    pub(crate) fn seen(&self) -> HostsSeen {
        let of = |seen: Seen| {
            let probe = seen.last.map(|last| match last.answer {
                Ok(facts) => HostProbe {
                    ago: last.asked_at.elapsed(),
                    trouble: None,
                    timeline: facts.timeline,
                    position: facts.position,
                },
                Err(words) => HostProbe { ago: last.asked_at.elapsed(), trouble: Some(words), ..HostProbe::default() },
            });
            (Address::clone(&seen.address), HostSeen { patroni: None, probe })
        };
        self.0.seen().into_iter().map(of).collect()
    }

    /// Nobody is connected to the hosts of databases that are paused: PostgreSQL may be about to stop, and then waits for all connections to end.
    pub(crate) fn order(&self, settings: &Settings) {
        self.0.rest(resting(settings));
    }
}

fn resting(settings: &Settings) -> Resting {
    let orders = &settings.orders;
    if orders.pause_all() {
        return Resting::All;
    }
    let databases = orders.paused().filter_map(|name| settings.database(name));
    Resting::These(databases.flat_map(|database| database.hosts.clone()).collect())
}

/// Connections that will be open to PostgreSQL at rest.
pub(crate) fn connections(config: &Config) -> u32 {
    let options = options(&config.pooling);
    let watched = options.hosts.iter().filter(|host| host.is_watched).count();
    if options.interval.is_some() { u32::try_from(watched).unwrap_or(u32::MAX) } else { 0 }
}

/// Sends the prober's observations to the coordinator.
struct Machines(Handle);

impl Outlet for Machines {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn probed(&self, observed: Observed, origin: Option<Origin>) {
        self.0.probed(observed, origin);
    }

    fn say(&self, level: Level, text: String) {
        self.0.log().say(level, text);
    }

    fn look_up(&self, name: &str) -> Result<Arc<[IpAddr]>, String> {
        let (answer, found) = channel();
        // Fails when nobody waits for it any more.
        self.0.look_up(name, move |addresses| _ = answer.send(addresses));
        found.recv().unwrap_or_else(|_| Err(format!("{name} cannot be looked up")))
    }
}

fn options(settings: &Settings) -> Options {
    let own = &settings.global.servers;
    let named = settings.databases.iter().map(|(name, database)| (name.as_str(), &**database));
    let databases: Vec<(&str, &Database)> =
        named.chain(settings.fallback.as_ref().map(|database| (DATABASE, &**database))).collect();
    let choosing = databases.iter().filter(|(_, database)| database.chooses_host());
    let watched: BTreeSet<&Address> = choosing.flat_map(|(_, database)| &database.hosts).collect();
    let mut hosts: BTreeMap<&Address, Host> = BTreeMap::new();
    for &(name, database) in &databases {
        for address in &database.hosts {
            hosts.entry(address).or_insert_with(|| Host {
                address: Arc::new(address.clone()),
                targets: targets(settings, name, database, address),
                is_watched: watched.contains(address),
            });
        }
    }
    Options {
        hosts: hosts.into_values().collect(),
        groups: databases.iter().map(|(_, database)| database.hosts.clone()).collect(),
        interval: own.host_check_interval,
        timeout: own.host_timeout,
        retry: own.server_login_retry,
    }
}

/// At a database that clients do not use, if that may be, and else at theirs.
fn targets(settings: &Settings, name: &str, database: &Database, address: &Address) -> Vec<Target> {
    let user = settings.global.servers.host_check_user.as_ref();
    let own = target_as(user, settings, name, database, address).unwrap_or_else(|_| {
        let user = settings.secrets.keys().next().cloned().unwrap_or_else(|| NOBODY.to_owned());
        let database = database.dbname.clone().unwrap_or_else(|| name.to_owned());
        let encryption = Encryption::of(&settings.global.tls).ok().flatten();
        programs::url::at(address, user, None, database, encryption)
    });
    let first = Target { database: DATABASE.to_owned(), ..own.clone() };
    if own.database == DATABASE { vec![own] } else { vec![first, own] }
}

#[cfg(test)]
mod tests {
    use connections::databases;

    use super::*;

    fn database(name: &str, hosts: &[u16]) -> (String, Arc<Database>) {
        let host = |port: &u16| Address { host: databases::Host::Name("db".to_owned()), port: *port };
        (name.to_owned(), Arc::new(Database::new(name, hosts.iter().map(host).collect())))
    }

    #[test]
    fn hosts_among_which_a_database_chooses_are_asked_at_rest() {
        let settings = Settings {
            databases: [database("a", &[1, 2]), database("b", &[2]), database("c", &[3])].into(),
            ..Settings::default()
        };
        let options = options(&settings);
        let watched: Vec<_> = options.hosts.iter().map(|host| (host.address.port, host.is_watched)).collect();
        assert_eq!(watched, [(1, true), (2, true), (3, false)]);
        assert_eq!(options.groups.len(), 3);
    }

    #[test]
    fn hosts_of_paused_databases_are_not_asked() {
        let mut settings = Settings {
            databases: [database("a", &[1, 2]), database("b", &[2]), database("c", &[3])].into(),
            ..Settings::default()
        };
        assert_eq!(resting(&settings), Resting::These(BTreeSet::new()));
        settings.orders.change(Some("b"), |own| own.paused = true);
        let Resting::These(hosts) = resting(&settings) else { panic!("one database is paused") };
        assert_eq!(hosts.iter().map(|host| host.port).collect::<Vec<_>>(), [2]);
        settings.orders.change(None, |all| all.paused = true);
        assert_eq!(resting(&settings), Resting::All);
    }

    #[test]
    fn nobody_is_asked_at_a_database_of_clients_first() {
        let settings = Settings { databases: [database("a", &[1])].into(), ..Settings::default() };
        let targets = &options(&settings).hosts[0].targets;
        let asked: Vec<_> = targets.iter().map(|target| (target.user.as_str(), target.database.as_str())).collect();
        assert_eq!(asked, [("pgweir", "postgres"), ("pgweir", "a")]);
    }
}
