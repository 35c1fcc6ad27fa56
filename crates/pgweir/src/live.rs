//! The live page's view of this process: passwords, tables, and what was seen in the last hour.
//!
//! Promises that browsers are no load that grows with them: a table is made once for all who ask within half a second. Passwords are those of auth_file.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use activity::History;
use auth::{Mark, Secret, Verifier, verify_plain};
use axum::Router;
use control::ClientOrder;
use control::table::{Table, Type};
use machine::{Level, Settings};
use page::{About, Admitted, Column, Order, Picture, Pooler, Rights, Rows, Said, Subject, Wanted, Way, Ways};
use units::names::shown;

use crate::looked_into;
use crate::watched::Watched;

/// For how long a table is given again.
const FRESH: Duration = Duration::from_millis(500);

/// Tables that are kept for that: those of a page's views, with and without statements.
const TABLES_MAX: usize = 16;

/// By what was asked, and whether with statements: when it was made, and the table.
type Tables = HashMap<(String, bool), (Instant, Arc<Table>)>;

struct Live {
    watched: Arc<Watched>,
    marks: RandomState,
    tables: Mutex<Tables>,
}

/// The page's routes.
pub(crate) fn begin(watched: &Arc<Watched>) -> Router {
    page::router(Arc::new(Live { watched: Arc::clone(watched), marks: RandomState::new(), tables: Mutex::default() }))
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

    fn fresh(&self, text: String, admin: bool) -> Option<Arc<Table>> {
        let of = (text, admin);
        {
            let mut tables = self.tables();
            tables.retain(|_, (since, _)| since.elapsed() < FRESH);
            if let Some((_, table)) = tables.get(&of) {
                return Some(Arc::clone(table));
            }
        }
        let table = Arc::new(self.watched.table(of.0.clone(), admin)?);
        let mut tables = self.tables();
        if tables.len() < TABLES_MAX {
            tables.insert(of, (Instant::now(), Arc::clone(&table)));
        }
        Some(table)
    }
}

impl Pooler for Live {
    fn has_begun(&self) -> bool {
        self.watched.handle().is_some()
    }

    fn admit(&self, user: &str, password: &[u8]) -> Option<Admitted> {
        let settings = self.settings()?;
        let Some(secret) = settings.secrets.get(user) else {
            // As long as for a user with a verifier.
            let nobody = Verifier::mock(&[0; 32], user.as_bytes(), settings.global.login.scram_iterations);
            let _ = verify_plain(&Secret::Scram(nobody), user, password);
            return None;
        };
        let is_right = verify_plain(secret, user, password);
        let rights = rights(&settings, user)?;
        is_right.then(|| Admitted { rights, mark: self.mark(secret) })
    }

    fn table(&self, wanted: &Wanted, rows: &mut Rows) -> Option<()> {
        let table = self.fresh(format!("SHOW {}", wanted.table), wanted.rights == Rights::Admin)?;
        let column = |column: &control::table::Column| Column {
            name: column.name,
            number: matches!(column.kind, Type::Int4 | Type::Int8 | Type::Numeric),
        };
        rows.begin(table.columns.iter().map(column).collect());
        table.rows().for_each(|row| rows.push(&row));
        Some(())
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

    fn history(&self) -> Option<Arc<Mutex<History>>> {
        self.watched.history().cloned()
    }

    fn rights(&self, user: &str, mark: u64) -> Option<Rights> {
        let settings = self.settings()?;
        let secret = settings.secrets.get(user)?;
        (self.mark(secret) == mark).then(|| rights(&settings, user)).flatten()
    }

    fn about(&self) -> About {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let interval = self.settings().and_then(|settings| settings.global.observing.observe_interval);
        let interval = interval.map_or(0.0, |interval| interval.as_secs_f64());
        About { version: control::version::text().to_owned(), host, interval }
    }
}

fn rights(settings: &Settings, user: &str) -> Option<Rights> {
    let console = &settings.global.console;
    if console.admin_users.contains(user) {
        return Some(Rights::Admin);
    }
    console.stats_users.contains(user).then_some(Rights::Stats)
}
