//! The page's own files. They are the same for everybody and hold nothing of this pooler; the page itself is shown to those who have logged in.

use std::hash::{DefaultHasher, Hasher as _};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use monitor::Peer;

use crate::{Shared, login};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A path, its kind, and what is there.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! files {
    ($($path:literal $kind:ident;)+) => {
        &[$(($path, $kind, include_bytes!(concat!("../assets", $path)).as_slice())),+]
    };
}

const FILES: &[File] = files! {
    "/style.css" CSS;
    "/login.css" CSS;
    "/login.js" SCRIPT;
    "/main.js" SCRIPT;
    "/ask.js" SCRIPT;
    "/theme.js" SCRIPT;
    "/draw.js" SCRIPT;
    "/charts.js" SCRIPT;
    "/table.js" SCRIPT;
    "/words.js" SCRIPT;
    "/now.js" SCRIPT;
    "/hosts.js" SCRIPT;
    "/locks.js" SCRIPT;
    "/tree.js" SCRIPT;
    "/lists.js" SCRIPT;
    "/client.js" SCRIPT;
    "/stacks.js" SCRIPT;
    "/uplot/uPlot.iife.min.js" SCRIPT;
    "/uplot/uPlot.min.css" CSS;
};

const PAGE: &[u8] = include_bytes!("../assets/page.html");
const LOGIN: &[u8] = include_bytes!("../assets/login.html");

pub(crate) fn routes() -> Router<Shared> {
    let routes = FILES.iter().fold(Router::new(), |routes, (path, kind, bytes)| {
        let tag = tag(bytes);
        routes.route(path, get(move |headers: HeaderMap| async move { file(kind, bytes, &tag, &headers) }))
    });
    // Browsers look for an icon beside a picture that they show alone, and complain where there is none.
    let icon = get(|| async { StatusCode::NO_CONTENT });
    routes.route("/", get(page)).route("/login", get(form)).route("/favicon.ico", icon)
}

async fn page(State(shared): State<Shared>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    match login::who(&shared, &headers, peer.address) {
        Some(_) => html(PAGE),
        None => login::elsewhere("/login"),
    }
}

async fn form() -> Response {
    html(LOGIN)
}

/// Not kept: whether it may be seen changes.
fn html(bytes: &'static [u8]) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_static(bytes)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A browser keeps it, and asks each time whether it is still the same: a new program has new ones.
fn file(kind: &'static str, bytes: &'static [u8], tag: &str, headers: &HeaderMap) -> Response {
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(Bytes::from_static(bytes)) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ETAG, tag.parse().expect("hexadecimal digits in quotes"));
    response
}

fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("\"{:016x}\"", hasher.finish())
}
