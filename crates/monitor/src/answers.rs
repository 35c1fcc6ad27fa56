//! What is answered to which path.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;

use crate::makers::Makers;
use crate::{Source, format};

const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Clone)]
struct Watched {
    source: Arc<dyn Source>,
    makers: Makers,
}

/// The three paths. Without routes of others, any other one is unknown.
pub(crate) fn router(source: Arc<dyn Source>, more: Option<Router>) -> Router {
    let watched = Watched { source, makers: Makers::default() };
    let own = Router::new()
        .route("/live", get(live).fallback(not_allowed))
        .route("/ready", get(ready).fallback(not_allowed))
        .route("/metrics", get(metrics).fallback(not_allowed))
        .with_state(watched);
    match more {
        Some(more) => own.merge(more),
        None => own.fallback(unknown),
    }
}

/// A text as an answer, after which the connection is closed.
#[must_use]
pub fn said(status: StatusCode, text: &'static str) -> Response {
    answer(status, TEXT, Bytes::from_static(text.as_bytes()))
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Here, and not by hyper: HEAD has it too, and no body.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    *response.body_mut() = Body::from(body);
    response
}

async fn live() -> Response {
    said(StatusCode::OK, "it lives\n")
}

async fn ready(State(watched): State<Watched>) -> Response {
    if watched.source.is_ready() {
        return said(StatusCode::OK, "it takes clients\n");
    }
    said(StatusCode::SERVICE_UNAVAILABLE, "it takes no clients\n")
}

async fn metrics(State(watched): State<Watched>, headers: HeaderMap) -> Response {
    let format = format::chosen(headers.get_all(ACCEPT).iter().map(HeaderValue::as_bytes));
    let source = watched.source;
    match watched.makers.have(move || source.metrics(format)).await.flatten() {
        Some(page) => answer(StatusCode::OK, format.media_type(), Bytes::from_owner(Shared(page))),
        None => said(StatusCode::SERVICE_UNAVAILABLE, "metrics are not to be had in time\n"),
    }
}

/// A page that many send at a time.
struct Shared(Arc<str>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

async fn not_allowed() -> Response {
    said(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD are allowed\n")
}

async fn unknown(method: axum::http::Method) -> Response {
    if method != "GET" && method != "HEAD" {
        return not_allowed().await;
    }
    said(StatusCode::NOT_FOUND, "there are /metrics, /live and /ready\n")
}
