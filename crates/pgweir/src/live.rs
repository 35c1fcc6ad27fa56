//! The live page's view of this process: passwords, tables, and what was seen in the last hour.
//!
//! Promises that browsers are no load that grows with them: a table is made once for all who ask within half a second, and for all who ask while it is
//! being made. Passwords are those of auth_file; where auth_hba_file decides about the console, its lines say who may come from where.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};

use activity::history::{Glance, Span};
use activity::{At, History};
use auth::{Mark, Secret, Verifier, verify_plain};
use axum::Router;
use connections::databases::CONSOLE_DATABASE;
use control::ClientOrder;
use control::table::{Table, Type};
use machine::{Level, Settings};
use page::{
    About, Admitted, Column, Given, Hosts, Order, Picture, Pooler, Rights, Rows, Said, Subject, Wanted, Way, Ways,
};
use settings::AuthType;
use units::names::shown;

use crate::looked_into;
use crate::report::{self, Caller};
use crate::watched::{self, NotInTime, Watched};

/// By what was asked, and whether with statements: the table, or that there is none. The page asks for few, so these are few.
type Tables = HashMap<(String, bool), Arc<watched::Page<Option<Arc<Table>>>>>;

struct Live {
    watched: Arc<Watched>,
    marks: RandomState,
    tables: Mutex<Tables>,
}

/// The page's routes. It is shown by the names of `http_hosts`, and by this machine's.
pub(crate) fn begin(watched: &Arc<Watched>, http_hosts: &[String]) -> Router {
    let hosts = Hosts::of(http_hosts, &own_name());
    let live = Live { watched: Arc::clone(watched), marks: RandomState::new(), tables: Mutex::default() };
    page::router(Arc::new(live), hosts)
}

fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl Live {
    fn settings(&self) -> Option<Arc<Settings>> {
        self.watched.handle().map(engine::Handle::settings)
    }

    fn mark(&self, secret: &Secret) -> u64 {
        self.marks.hash_one(Mark::of_secret(secret))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("nothing panics while it holds this lock")
    }

    fn fresh(&self, text: String, admin: bool) -> Result<Option<Arc<Table>>, NotInTime> {
        let page = {
            let mut tables = self.tables();
            tables.retain(|_, page| page.is_used());
            Arc::clone(tables.entry((text.clone(), admin)).or_default())
        };
        let make = || self.watched.table(text, admin).ok().map(|table| table.map(Arc::new));
        page.get(watched::PATIENCE, make).ok_or(NotInTime)
    }
}

impl Pooler for Live {
    fn has_begun(&self) -> bool {
        self.watched.handle().is_some()
    }

    fn admit(&self, user: &str, password: &[u8], from: Option<IpAddr>) -> Option<Admitted> {
        let settings = self.settings()?;
        let secret = settings.secrets.get(user);
        if !matches!(secret, Some(Secret::Scram(_))) {
            // As long as for a user with a verifier.
            let nobody = Verifier::mock(&[0; 32], user.as_bytes(), settings.global.login.scram_iterations);
            let _ = verify_plain(&Secret::Scram(nobody), user, password);
        }
        let secret = secret?;
        let is_right = verify_plain(secret, user, password);
        let rights = rights(&settings, user, from)?;
        is_right.then(|| Admitted { rights, mark: self.mark(secret) })
    }

    fn table(&self, wanted: &Wanted, rows: &mut Rows) -> Given {
        // Somebody looks: the observer asks PostgreSQL meanwhile, of which tags and ages of SESSIONS come.
        let _ = self.watched.history_for_page();
        let table = match self.fresh(format!("SHOW {}", wanted.table), wanted.rights == Rights::Admin) {
            Ok(Some(table)) => table,
            Ok(None) => return Given::Nothing,
            Err(NotInTime) => return Given::NotInTime,
        };
        let column = |column: &control::table::Column| Column {
            name: column.name,
            number: matches!(column.kind, Type::Int4 | Type::Int8 | Type::Numeric),
        };
        rows.begin(table.columns.iter().map(column).collect());
        table.rows().for_each(|row| rows.push(&row));
        Given::Rows
    }

    fn order(&self, order: Order, client: &str) -> Result<(), String> {
        let order = match order {
            Order::Disconnect => ClientOrder::Disconnect,
            Order::Cancel => ClientOrder::Cancel,
        };
        let unsure = || Err("the pooler has not answered in time".to_owned());
        self.watched.order(order, client.to_owned()).unwrap_or_else(unsure)
    }

    fn tell(&self, what: Said<'_>) {
        let Some(handle) = self.watched.handle() else { return };
        let place = |from: Option<IpAddr>| from.map_or_else(|| "unix".to_owned(), |address| address.to_string());
        let (level, text) = match what {
            Said::LoggedIn { user, from } => {
                (Level::Log, format!("page: \"{}\" has logged in from {}", shown(user), place(from)))
            }
            Said::Refused { user, from } => {
                let (user, place) = (shown(user), place(from));
                (
                    Level::Warning,
                    format!("page: login refused: wrong password or no right, user \"{user}\" from {place}"),
                )
            }
            Said::Orders { user, order, client } => {
                let (user, client) = (shown(user), shown(client));
                let text = match order {
                    Order::Disconnect => format!("page: \"{user}\" disconnects client {client}"),
                    Order::Cancel => format!("page: \"{user}\" cancels the query of client {client}"),
                };
                (Level::Log, text)
            }
            Said::Samples { user, subject, way } => {
                let of = match subject {
                    Subject::Pooler => "this process".to_owned(),
                    Subject::BackendOf(client) => format!("the backend of client {client}"),
                };
                let tool = if way == Way::Perf { "perf" } else { "gdb" };
                (Level::Log, format!("page: \"{}\" samples stacks of {of} by {tool}", shown(user)))
            }
        };
        handle.log().say(level, text);
    }

    fn ways(&self, subject: Subject) -> Ways {
        looked_into::ways(subject, self.watched.history())
    }

    fn sample(&self, subject: Subject, way: Way) -> Result<Picture, String> {
        looked_into::sample(subject, way, self.watched.history())
    }

    fn report(&self, from: u64, to: u64, rights: Rights, is_wanted: &dyn Fn() -> bool) -> Result<String, String> {
        let past = self.watched.past().ok_or("nobody has looked yet")?;
        let last = to.saturating_mul(1000).saturating_add(999);
        let span = Span { from: At(from.saturating_mul(1000)), to: At(last) };
        let say = |complaint: &str| {
            if let Some(handle) = self.watched.handle() {
                handle.log().say(Level::Warning, format!("page: the history of a report: {complaint}"));
            }
        };
        let caller = Caller { say: &say, is_wanted };
        report::of_process(past.clone(), span, rights == Rights::Admin, own_name(), caller)
    }

    fn history(&self) -> Option<Arc<Mutex<History>>> {
        self.watched.history_for_page().cloned()
    }

    fn glances(&self, span: Span, each: &mut dyn FnMut(Glance) -> ControlFlow<()>) {
        if let Some(past) = self.watched.past() {
            past.glances(span, each);
        }
    }

    fn recall(&self, span: Span) -> Option<History> {
        self.watched.past()?.seconds(span)
    }

    fn rights(&self, user: &str, mark: u64, from: Option<IpAddr>) -> Option<Rights> {
        let settings = self.settings()?;
        let secret = settings.secrets.get(user)?;
        (self.mark(secret) == mark).then(|| rights(&settings, user, from)).flatten()
    }

    fn about(&self) -> About {
        let interval = self.settings().and_then(|settings| settings.global.observing.observe_interval);
        let interval = interval.map_or(0.0, |interval| interval.as_secs_f64());
        About { version: control::version::full(), host: own_name(), interval }
    }
}

fn rights(settings: &Settings, user: &str, from: Option<IpAddr>) -> Option<Rights> {
    let console = &settings.global.console;
    if !may_come(settings, user, from) {
        return None;
    }
    if console.admin_users.contains(user) {
        return Some(Rights::Admin);
    }
    console.stats_users.contains(user).then_some(Rights::Stats)
}

/// Whether the rules let the user come to the console from there. Here the password of auth_file is all the proof that there is. It is more than
/// `trust` and `peer` want; where another proof is wanted, nobody comes in: whom a directory server has struck off is out here too.
fn may_come(settings: &Settings, user: &str, from: Option<IpAddr>) -> bool {
    match settings.auth_type(CONSOLE_DATABASE) {
        AuthType::Hba => {}
        auth_type => {
            use AuthType::{Any, Md5, Peer, Plain, Scram, Trust};
            return matches!(auth_type, Any | Trust | Plain | Md5 | Scram | Peer);
        }
    }
    let connection = hba::Connection {
        database: CONSOLE_DATABASE,
        user,
        address: from.map(|address| address.to_canonical()),
        // It has come without TLS, at least for the last part of its way.
        encryption: hba::Encryption::None,
        is_replication: false,
    };
    settings.hba.first(&connection).is_some_and(|rule| {
        use hba::Method::{Md5, Password, Peer, Scram, Trust};
        matches!(rule.method, Trust | Md5 | Scram | Password | Peer) && rule.options.client_cert.is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_the_console_count_for_the_page() {
        let mut settings = Settings::default();
        settings.global.console.admin_users = ["ann", "bob", "cid", "dan", "eve"].into_iter().map(Into::into).collect();
        let ruled = |settings: &mut Settings, lines: &str| {
            let read = hba::read_rules("hba", &[], &|_| Ok(lines.as_bytes().to_vec()));
            settings.hba = Arc::new(read.expect("good lines"));
        };
        let lines = "local pgbouncer ann peer\nhost pgbouncer bob 10.0.0.0/8 reject\nhost pgbouncer bob all trust\n\
                     hostssl pgbouncer cid all cert\nhostssl all cid all scram-sha-256\nhost shop eve all trust\n\
                     host all dan 10.0.0.0/8 ldap ldapserver=d ldapprefix=uid=\nhost all dan all password\n";
        ruled(&mut settings, lines);
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        let there = Some(IpAddr::from([10, 1, 2, 3]));
        let mapped = Some("::ffff:10.1.2.3".parse().expect("an address"));
        assert_eq!(rights(&settings, "eve", there), Some(Rights::Admin), "nobody asks the rules");
        settings.global.login.auth_type = AuthType::Hba;
        let table = [
            ("ann", None, true),
            ("ann", here, false),
            ("bob", here, true),
            ("bob", there, false),
            ("bob", mapped, false),
            ("cid", here, false),
            ("dan", here, true),
            ("dan", there, false),
            ("eve", here, false),
        ];
        for (user, from, may) in table {
            assert_eq!(rights(&settings, user, from).is_some(), may, "{user} from {from:?}");
        }
        let table = [
            (AuthType::Trust, true),
            (AuthType::Peer, true),
            (AuthType::Ldap, false),
            (AuthType::Cert, false),
            (AuthType::Pam, false),
            (AuthType::OAuth, false),
        ];
        for (auth_type, may) in table {
            settings.global.login.auth_type = auth_type;
            assert_eq!(rights(&settings, "dan", here).is_some(), may, "{auth_type:?}");
        }
    }
}
