//! Flame graphs of the pooler and of a client's backend, for administrators: one at a time, and the last one is kept.
//!
//! ```text
//!   POST /api/stacks ─► 202, and a thread samples ─► GET /api/stacks: whether it still does, and what came of it ─► GET /stacks/N.svg
//! ```
//!
//! Promises: whoever asks while one is made is told so; a picture is given with a policy of its own, under which it can do nothing but be seen.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Form, Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use monitor::Peer;
use serde::{Deserialize, Serialize};

use crate::answers::{json, refused, written};
use crate::asker::{Admin, Asker};
use crate::{Rights, Said, Shared, login};

/// Bytes of an order: a client's number, and a tool.
const BODY_LEN_MAX: usize = 256;

/// What is looked at.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Pooler,
    /// The backend that this client has.
    BackendOf(i32),
}

/// How it is looked at.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// What runs on a CPU; nothing is stopped.
    Perf,
    /// Where each thread is; the process stops at each sample.
    Gdb,
}

/// Which ways there are, for one subject.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ways {
    pub perf: bool,
    pub gdb: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Picture {
    pub svg: String,
    /// Some lines of text.
    pub summary: String,
}

/// What is made, and what was made last.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    begun: u64,
    /// The one that is being made.
    now: Option<u64>,
    last: Option<(u64, Result<Kept, String>)>,
}

#[derive(Debug)]
struct Kept {
    svg: Bytes,
    summary: String,
}

/// The one that is being made, until it is dropped: also where making it panics.
struct Sitting {
    desk: Arc<Mutex<Desk>>,
    number: u64,
}

impl Sitting {
    /// None while another one is made.
    fn take(desk: &Arc<Mutex<Desk>>) -> Option<Sitting> {
        let mut held = locked(desk);
        if held.now.is_some() {
            return None;
        }
        held.begun += 1;
        held.now = Some(held.begun);
        Some(Sitting { desk: Arc::clone(desk), number: held.begun })
    }

    fn ends(self, with: Result<Picture, String>) {
        let kept = with.map(|picture| Kept { svg: Bytes::from(picture.svg), summary: picture.summary });
        locked(&self.desk).last = Some((self.number, kept));
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        locked(&self.desk).now = None;
    }
}

fn locked(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().expect("nothing panics while it holds this lock")
}

/// Below `/api`.
pub(crate) fn orders() -> Router<Shared> {
    Router::new().route("/stacks", get(known).post(sample)).layer(DefaultBodyLimit::max(BODY_LEN_MAX))
}

pub(crate) fn pictures() -> Router<Shared> {
    Router::new().route("/stacks/{file}", get(picture))
}

#[derive(Deserialize)]
struct Of {
    client: Option<i32>,
}

impl Of {
    fn subject(&self) -> Subject {
        self.client.map_or(Subject::Pooler, Subject::BackendOf)
    }
}

async fn known(State(shared): State<Shared>, asker: Asker, Query(of): Query<Of>) -> Response {
    #[derive(Serialize)]
    struct Known {
        #[serde(flatten)]
        ways: Ways,
        now: Option<u64>,
        last: Option<Last>,
    }
    #[derive(Serialize)]
    struct Last {
        number: u64,
        summary: Option<String>,
        error: Option<String>,
    }
    if asker.rights != Rights::Admin {
        return refused(StatusCode::FORBIDDEN, "only users in admin_users may do that");
    }
    let (pooler, subject) = (Arc::clone(&shared.pooler), of.subject());
    let ways = shared.makers.have(move || pooler.ways(subject)).await.unwrap_or_default();
    let desk = locked(&shared.desk);
    let last = desk.last.as_ref().map(|(number, made)| Last {
        number: *number,
        summary: made.as_ref().ok().map(|kept| kept.summary.clone()),
        error: made.as_ref().err().cloned(),
    });
    written(&Known { ways, now: desk.now, last })
}

#[derive(Deserialize)]
struct Begun {
    by: Way,
    client: Option<i32>,
}

async fn sample(State(shared): State<Shared>, admin: Admin, Form(wanted): Form<Begun>) -> Response {
    let Some(turn) = Sitting::take(&shared.desk) else {
        return refused(StatusCode::CONFLICT, "stacks are being sampled already: one at a time");
    };
    let (pooler, subject) = (Arc::clone(&shared.pooler), Of { client: wanted.client }.subject());
    let begun = format!("{{\"number\":{}}}", turn.number);
    // A thread of its own: it takes seconds, and the threads of requests are few.
    let made = thread::Builder::new().name("page-stacks".to_owned()).spawn(move || {
        pooler.tell(Said::Samples { user: &admin.user, subject, way: wanted.by });
        let made = pooler.sample(subject, wanted.by);
        turn.ends(made);
    });
    match made {
        Ok(_) => json(StatusCode::ACCEPTED, begun),
        Err(why) => refused(StatusCode::SERVICE_UNAVAILABLE, &format!("no thread can be started: {why}")),
    }
}

/// A picture is text that a browser would act on: it may have its own styles, and nothing else. Without "sandbox": beside the opener policy that all
/// answers have, browsers show no page that is sandboxed.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// As an image or a page of its own: without the header of the page's scripts, so by the cookie, which other sites do not send.
async fn picture(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Response {
    match login::who(&shared, &headers, peer.address) {
        None => return refused(StatusCode::UNAUTHORIZED, "log in first"),
        Some((.., Rights::Stats)) => {
            return refused(StatusCode::FORBIDDEN, "only users in admin_users may do that");
        }
        Some((.., Rights::Admin)) => {}
    }
    let number = file.strip_suffix(".svg").and_then(|number| number.parse::<u64>().ok());
    let svg = match &locked(&shared.desk).last {
        Some((last, Ok(kept))) if number == Some(*last) => kept.svg.clone(),
        _ => return refused(StatusCode::NOT_FOUND, "there is no such picture any more"),
    };
    let mut response = Response::new(Body::from(svg));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("inline; filename=\"pgweir-stacks.svg\""));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_at_a_time_and_a_panic_ends_it_too() {
        let desk = Arc::default();
        let first = Sitting::take(&desk).expect("nothing is made");
        assert!(Sitting::take(&desk).is_none());
        first.ends(Err("no".to_owned()));
        let second = Sitting::take(&desk).expect("it has ended");
        let panics = thread::spawn(move || {
            let _turn = second;
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        let third = Sitting::take(&desk).expect("it has ended, too");
        assert_eq!(third.number, 3);
        assert!(matches!(&locked(&desk).last, Some((1, Err(why))) if why == "no"));
    }
}
