//! Answers as JSON.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// A text as JSON.
pub(crate) fn json(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An HTML document of its own, which a browser saves and does not show: the page's policy would forbid its styles.
pub(crate) fn document_of(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"pgweir-report.html\""));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A value as JSON.
pub(crate) fn written(value: &impl Serialize) -> Response {
    json(StatusCode::OK, serde_json::to_string(value).expect("texts and numbers are JSON"))
}

/// A refusal with words for people.
pub(crate) fn refused(status: StatusCode, words: &str) -> Response {
    #[derive(Serialize)]
    struct Refusal<'w> {
        error: &'w str,
    }
    json(status, serde_json::to_string(&Refusal { error: words }).expect("texts are JSON"))
}
