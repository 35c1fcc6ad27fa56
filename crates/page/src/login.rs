//! Login and logout.
//!
//! A name and a password come in the body of a POST that a script of the page sends; the answer sets a cookie that scripts cannot read. One password is
//! looked at at a time, since that may take long, and few wait for their turn: whoever tries many pays for it by `attempts.rs` and disturbs nobody but
//! others who log in.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Extension, Form, State};
use axum::http::header::{CACHE_CONTROL, COOKIE, HOST, LOCATION, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Router, body::Body};
use monitor::{Makers, Peer};
use serde::Deserialize;

use crate::answers::refused;
use crate::attempts::Attempts;
use crate::sessions::{self, Name};
use crate::{Admitted, Rights, Said, Shared, origin};

/// How the cookie's name begins.
const COOKIE_NAME: &str = "pgweir";

/// Bytes of a login's body: a name and a password.
const BODY_LEN_MAX: usize = 4096;

/// Logins that wait for their turn.
const WAITING_MAX: usize = 8;

/// After a wrong password nobody else's is looked at for so long: from however many places they come, guesses are few.
const AFTER_WRONG: Duration = Duration::from_millis(50);

/// Where logins wait.
#[derive(Debug)]
pub(crate) struct Door {
    attempts: Mutex<Attempts>,
    waiting: AtomicUsize,
    one: Makers,
}

impl Door {
    pub(crate) fn new() -> Door {
        Door { attempts: Mutex::default(), waiting: AtomicUsize::new(0), one: Makers::of(1) }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().expect("nothing panics while it holds this lock")
    }
}

/// One of those who wait, until it is dropped.
struct Turn<'d>(&'d Door);

impl<'d> Turn<'d> {
    fn take(door: &'d Door) -> Option<Turn<'d>> {
        let turn = Turn(door);
        (door.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX).then_some(turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/login", post(login)).route("/logout", post(logout)).layer(DefaultBodyLimit::max(BODY_LEN_MAX))
}

#[derive(Deserialize)]
struct Credentials {
    user: String,
    password: String,
}

async fn login(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Form(Credentials { user, password }): Form<Credentials>,
) -> Response {
    if !origin::is_own_change(&headers) {
        return refused(StatusCode::FORBIDDEN, "it was not this page that asked");
    }
    if !shared.pooler.has_begun() {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "the pooler has only just started; try again");
    }
    let Some(_turn) = Turn::take(&shared.door) else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many log in at the moment; try again");
    };
    if let Err(wait) = shared.door.attempts().begin(peer.address, &user, Instant::now()) {
        return too_soon(wait);
    }
    let (pooler, name, from) = (shared.pooler.clone(), user.clone(), peer.address);
    let admitted = shared.door.one.have(move || {
        let admitted = pooler.admit(&name, password.as_bytes(), from);
        match admitted {
            Some(_) => pooler.tell(Said::LoggedIn { user: &name, from }),
            None => {
                pooler.tell(Said::Refused { user: &name, from });
                std::thread::sleep(AFTER_WRONG);
            }
        }
        admitted
    });
    let Some(Admitted { mark, .. }) = admitted.await.flatten() else {
        return refused(StatusCode::UNAUTHORIZED, "wrong name or password, or no right to the console");
    };
    shared.door.attempts().succeeded(peer.address, &user);
    let mut id: Name = [0; 32];
    if rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()) != Ok(id.len()) {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "the system has no random bytes");
    }
    sessions(&shared).begin(id, user, mark, Instant::now());
    with_cookie(&sessions::written(&id), "", &headers)
}

async fn logout(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if !origin::is_own_change(&headers) {
        return refused(StatusCode::FORBIDDEN, "it was not this page that asked");
    }
    if let Some(name) = cookie(&headers) {
        sessions(&shared).end(&name);
    }
    with_cookie("", "; Max-Age=0", &headers)
}

/// A browser sends the cookies of a host name to all its ports. With the port in its name, the page at one leaves alone whoever has logged in at another.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(port) => format!("{COOKIE_NAME}-{port}"),
        None => COOKIE_NAME.to_owned(),
    }
}

fn with_cookie(value: &str, age: &str, asked: &HeaderMap) -> Response {
    let secure = if origin::is_encrypted(asked) { "; Secure" } else { "" };
    let name = cookie_name(asked);
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{age}{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, cookie.parse().expect("hexadecimal digits and words"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn too_soon(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let mut response =
        refused(StatusCode::TOO_MANY_REQUESTS, &format!("too many wrong passwords; try again in {seconds} s"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn sessions(shared: &Shared) -> MutexGuard<'_, sessions::Sessions> {
    shared.sessions.lock().expect("nothing panics while it holds this lock")
}

/// The name of a session that a request carries.
fn cookie(headers: &HeaderMap) -> Option<Name> {
    let its_name = cookie_name(headers);
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == its_name).and_then(|(_, value)| sessions::read(value))
}

/// The session and the user of a request, and the user's rights at this moment. `None`: nobody who has logged in.
pub(crate) fn who(shared: &Shared, headers: &HeaderMap, from: Option<IpAddr>) -> Option<(Name, String, Rights)> {
    let name = cookie(headers)?;
    let (user, mark) = {
        let mut sessions = sessions(shared);
        let session = sessions.used(&name, Instant::now())?;
        (session.user.clone(), session.mark)
    };
    let rights = shared.pooler.rights(&user, mark, from);
    if rights.is_none() {
        sessions(shared).end(&name);
    }
    Some((name, user, rights?))
}

/// To another path.
pub(crate) fn elsewhere(path: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_of_a_host_has_a_cookie_of_its_own() {
        let table = [
            ("db1:9127", "pgweir-9127"),
            ("db1", "pgweir"),
            ("[::1]:9128", "pgweir-9128"),
            ("[::1]", "pgweir"),
            ("db1:x; Path", "pgweir"),
        ];
        for (host, name) in table {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().expect("a value"));
            assert_eq!(cookie_name(&headers), name, "{host}");
            let other = format!("pgweir-1={}", "0".repeat(64));
            headers.insert(COOKIE, other.parse().expect("a value"));
            assert_eq!(cookie(&headers), None, "{host}: it is another port's");
            headers.insert(COOKIE, format!("{other}; {name}={}", "1".repeat(64)).parse().expect("a value"));
            assert_eq!(cookie(&headers), Some([0x11; 32]), "{host}");
        }
    }
}
