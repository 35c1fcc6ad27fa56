//! The live page: what holds traffic up, in a browser, for those who may use the console.
//!
//! ```text
//!   browser                  hosts.rs: by which names
//!           ──► files.rs     HTML, CSS, scripts: in the program, the same for everybody
//!           ──► login.rs     a name and a password once, then a cookie      attempts.rs: guessing is slow
//!           ──► api.rs       tables and figures as JSON, and orders         origin.rs: from this page only; asker.rs: who asks
//!                 │                                                         sessions.rs: who is behind a cookie
//!                 ▼
//!              Pooler        what the caller gives: passwords, tables, what was seen
//!              hour.rs       figures of each second of the last hour
//!              days.rs       figures of any time that is on disk
//!              readings.rs   questions that read days: a page repeats them until they are answered
//!              past.rs       one second, and one client's hour
//!              stacks.rs     flame graphs
//! ```
//!
//! Promises: nothing but files is given to anybody without a session; a session's user is asked for again at each request, so that one who is struck
//! from the settings, or has another password, is out at once; no request leaves the browser for another host (Content-Security-Policy); no secret is
//! in a URL; everything that is kept has a bound. Texts of clients go out as JSON and enter the page as text.
//! Does not: TLS (a proxy or a tunnel does), users of its own, threads for connections.

mod answers;
mod api;
mod asker;
mod attempts;
mod days;
mod files;
mod hosts;
mod hour;
mod login;
mod origin;
mod past;
mod readings;
mod rows;
mod sessions;
mod stacks;

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use activity::History;
use activity::history::{Glance, Span};
use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware;
use axum::response::Response;
use monitor::Makers;

pub use hosts::Hosts;
use hour::Hour;
use readings::Readings;
pub use rows::{Column, Rows};
use sessions::Sessions;
pub use stacks::{Picture, Subject, Way, Ways};

/// What a user may.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// `admin_users`: see everything, and give orders.
    Admin,
    /// `stats_users`: see everything but statements.
    Stats,
}

/// A user whose password was right.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub rights: Rights,
    /// Tells this password from another one, and is none.
    pub mark: u64,
}

/// What an administrator may order about one client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Disconnect,
    /// Its query alone ends.
    Cancel,
}

/// What is wanted of a table: its name is a word after SHOW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub table: String,
    pub rights: Rights,
}

/// What has become of a question for a table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Given {
    Rows,
    /// There is no such table for such rights.
    Nothing,
    /// It is not to be had in time: what it would have is not known.
    NotInTime,
}

/// The source of all that the page shows. `admit`, `table`, `order`, `report`, `glances`, `recall`, `ways` and `sample` may wait: they run on a thread.
pub trait Pooler: Send + Sync + 'static {
    /// Whether it knows passwords already: the page is listened for before anything else has begun.
    fn has_begun(&self) -> bool;

    /// Whether it is the user's password, and the user may come from there. Takes about as long for users who do not exist.
    fn admit(&self, user: &str, password: &[u8], from: Option<IpAddr>) -> Option<Admitted>;

    /// Gives rows to `rows`.
    fn table(&self, wanted: &Wanted, rows: &mut Rows) -> Given;

    /// Does that to a client, by its number in SHOW CLIENTS.
    ///
    /// # Errors
    /// Why not, in words for people.
    fn order(&self, order: Order, client: &str) -> Result<(), String>;

    /// How a subject's stacks can be sampled now.
    fn ways(&self, subject: Subject) -> Ways;

    /// Samples them, which takes seconds.
    ///
    /// # Errors
    /// Why not, in words for people.
    fn sample(&self, subject: Subject, way: Way) -> Result<Picture, String>;

    /// What somebody did who is no client: for the log. Texts are as they came.
    fn tell(&self, what: Said<'_>);

    /// The document of `pgweir report` on these seconds of 1970, both included. It may take minutes, and stops once `is_wanted` is false.
    ///
    /// # Errors
    /// The history has no second of that time. The words for people give the time that it has.
    fn report(&self, from: u64, to: u64, rights: Rights, is_wanted: &dyn Fn() -> bool) -> Result<String, String>;

    /// What was seen in the last hour, as soon as there is something that looks.
    fn history(&self) -> Option<Arc<Mutex<History>>>;

    /// Gives the figures of each second of a span, from the oldest, those on disk too, until `each` breaks. It may take seconds.
    fn glances(&self, span: Span, each: &mut dyn FnMut(Glance) -> ControlFlow<()>) {
        let Some(history) = self.history() else { return };
        let history = history.lock().expect("nothing panics while it holds this lock");
        let _ = history.within(span).try_for_each(|second| each(history.glance(second)));
    }

    /// Reads the seconds of a span of about a minute from disk. `None`: there are no files.
    fn recall(&self, span: Span) -> Option<History> {
        let _ = span;
        None
    }

    /// What the user may now, from there; `None`: nothing any more, or the password has changed.
    fn rights(&self, user: &str, mark: u64, from: Option<IpAddr>) -> Option<Rights>;

    /// What is true until the end: words for the page's head.
    fn about(&self) -> About;
}

/// What is told of somebody at the page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    LoggedIn { user: &'a str, from: Option<IpAddr> },
    Refused { user: &'a str, from: Option<IpAddr> },
    Orders { user: &'a str, order: Order, client: &'a str },
    Samples { user: &'a str, subject: Subject, way: Way },
}

/// What the page's head shows, and what it has to know to say why something is missing.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct About {
    pub version: String,
    /// Where this one runs, so that two tabs can be told apart.
    pub host: String,
    /// `observe_interval` in seconds; 0: nobody looks.
    pub interval: f64,
}

/// What requests share.
#[derive(Clone)]
struct Shared {
    pooler: Arc<dyn Pooler>,
    hour: Arc<Mutex<Hour>>,
    sessions: Arc<Mutex<Sessions>>,
    door: Arc<login::Door>,
    makers: Makers,
    /// One at a time looks into the hour: those who add to it, and the console, wait for one at most.
    past: Makers,
    /// One at a time reads a second from disk. A click does not wait for those who read days.
    moments: Makers,
    readings: Arc<Readings>,
    desk: Arc<Mutex<stacks::Desk>>,
}

/// The page's routes. It is shown by the names of `hosts`.
pub fn router(pooler: Arc<dyn Pooler>, hosts: Hosts) -> Router {
    let shared = Shared {
        pooler,
        hour: Arc::default(),
        sessions: Arc::default(),
        door: Arc::new(login::Door::new()),
        makers: Makers::default(),
        past: Makers::of(1),
        moments: Makers::of(1),
        readings: Arc::default(),
        desk: Arc::default(),
    };
    files::routes()
        .merge(login::routes())
        .merge(stacks::pictures())
        .nest("/api", api::routes().merge(stacks::orders()))
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(hosts, hosts::by_name))
        .layer(middleware::map_response(guarded))
        .with_state(shared)
}

async fn unknown() -> Response {
    monitor::said(axum::http::StatusCode::NOT_FOUND, "there is no such page\n")
}

/// Nothing of others is loaded, sent to, or shown around the page; nothing runs that is not a file of it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Each answer says to the browser what it may do with it.
async fn guarded(mut response: Response) -> Response {
    let headers: &mut HeaderMap = response.headers_mut();
    // A picture has a policy of its own.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    let mut say = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    say(X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(X_FRAME_OPTIONS, "DENY");
    say(REFERRER_POLICY, "no-referrer");
    say(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    say(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}
