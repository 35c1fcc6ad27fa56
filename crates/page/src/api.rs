//! What the page asks for, as JSON: who is there, the hour, tables; and what it may order.

use std::sync::Arc;

use activity::history::Span;
use activity::{At, History};
use axum::extract::{DefaultBodyLimit, Form, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, response::IntoResponse as _};
use serde::{Deserialize, Serialize};

use crate::answers::{document_of, json, refused, written};
use crate::asker::{Admin, Asker};
use crate::readings::{Answer, Kind, Leave, Made, Place, Question};
use crate::rows::{Rows, Wish};
use crate::{About, Given, Order, Rights, Said, Shared, Wanted, days, past};

/// The tables that views show. Others are the console's alone.
const TABLES: [&str; 11] = [
    "ACTIVITY",
    "CLASSES",
    "CLIENTS",
    "HOLDERS",
    "HOSTS",
    "LOCKS",
    "LOCK_COUNTS",
    "QUERIES",
    "SESSIONS",
    "SIZING",
    "WHY",
];

/// Bytes of an order: a client's number.
const BODY_LEN_MAX: usize = 256;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/me", get(me))
        .route("/hour", get(hour))
        .route("/span", get(span))
        .route("/moment", get(moment))
        .route("/client/{number}", get(client))
        .route("/waits", get(waits))
        .route("/report", get(report))
        .route("/show/{table}", get(show))
        .route("/disconnect", post(disconnect))
        .route("/cancel", post(cancel))
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
}

async fn me(State(shared): State<Shared>, asker: Asker) -> Response {
    #[derive(Serialize)]
    struct Me {
        user: String,
        admin: bool,
        #[serde(flatten)]
        about: About,
    }
    written(&Me { user: asker.user, admin: asker.rights == Rights::Admin, about: shared.pooler.about() })
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
}

async fn hour(State(shared): State<Shared>, _asker: Asker, Query(Since { since }): Query<Since>) -> Response {
    let kept = Arc::clone(&shared.hour);
    let made = seen(&shared, move |history| {
        let mut hour = kept.lock().expect("nothing panics while it holds this lock");
        hour.take(history);
        Some(hour.json(since))
    });
    made.await.unwrap_or_else(|| refused(StatusCode::NOT_FOUND, "nobody has looked yet"))
}

/// Seconds of 1970, both included.
#[derive(Deserialize)]
struct Range {
    from: u64,
    to: u64,
    #[serde(default)]
    tab: u32,
}

async fn span(State(shared): State<Shared>, asker: Asker, Query(range): Query<Range>) -> Response {
    let (from, to, pooler) = (range.from, range.to, Arc::clone(&shared.pooler));
    let read = move |leave: &Leave| {
        days::json(&*pooler, from, to, &|| leave.is_valid()).ok_or_else(|| "there is no such time".to_owned())
    };
    read_for(&shared, &asker, &range, Kind::Span, read, |text| json(StatusCode::OK, text)).await
}

/// Has days read from disk. `document`: makes an answer of what `read` returns.
async fn read_for(
    shared: &Shared,
    asker: &Asker,
    range: &Range,
    kind: Kind,
    read: impl FnOnce(&Leave) -> Made + Send + 'static,
    document: fn(String) -> Response,
) -> Response {
    let place = Place { session: asker.session, tab: range.tab, kind };
    let question = Question { from: range.from, to: range.to, rights: asker.rights };
    match shared.readings.have(place, question, read).await {
        Answer::Made(made) => {
            Arc::unwrap_or_clone(made).map_or_else(|why| refused(StatusCode::NOT_FOUND, &why), document)
        }
        Answer::NotYet => json(StatusCode::ACCEPTED, "null".to_owned()),
        Answer::Failed => refused(StatusCode::INTERNAL_SERVER_ERROR, "it has failed; the log may say why"),
        Answer::TooMany => refused(StatusCode::SERVICE_UNAVAILABLE, "too many pages read the disk: try again"),
    }
}

#[derive(Deserialize)]
struct Moment {
    at: u64,
}

async fn moment(State(shared): State<Shared>, asker: Asker, Query(Moment { at }): Query<Moment>) -> Response {
    if let Some(made) = seen(&shared, move |history| past::second(history, at, asker.rights)).await {
        return made;
    }
    // That second is older than those in memory.
    let pooler = Arc::clone(&shared.pooler);
    let read = move || {
        let span = Span {
            from: At(at.saturating_sub(60).checked_mul(1000)?),
            to: At(at.checked_mul(1000)?.checked_add(999)?),
        };
        past::second(&pooler.recall(span)?, at, asker.rights)
    };
    let made = shared.moments.have(read).await.flatten().map(|text| json(StatusCode::OK, text));
    made.unwrap_or_else(|| refused(StatusCode::NOT_FOUND, "nothing is known of that second"))
}

async fn client(State(shared): State<Shared>, asker: Asker, Path(number): Path<i32>) -> Response {
    let made = seen(&shared, move |history| Some(past::client(history, number, asker.rights)));
    made.await.unwrap_or_else(|| refused(StatusCode::NOT_FOUND, "nobody has looked yet"))
}

#[derive(Deserialize)]
struct Part {
    from: u64,
    to: u64,
    by: String,
}

async fn waits(State(shared): State<Shared>, asker: Asker, Query(Part { from, to, by }): Query<Part>) -> Response {
    let made = seen(&shared, move |history| past::waits(history, from, to, &by, asker.rights));
    made.await.unwrap_or_else(|| refused(StatusCode::NOT_FOUND, "there is no such sum"))
}

/// The longest report, in seconds: the longest span of the page's charts.
const REPORT_SECONDS_MAX: u64 = 7 * 24 * 3600;

/// A document to be saved. The page's script asks for it, with the header that other sites may not send.
async fn report(State(shared): State<Shared>, asker: Asker, Query(range): Query<Range>) -> Response {
    if range.from > range.to || range.to - range.from > REPORT_SECONDS_MAX {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, "a report is of seven days at most");
    }
    let (from, to, rights, pooler) = (range.from, range.to, asker.rights, Arc::clone(&shared.pooler));
    let make = move |leave: &Leave| pooler.report(from, to, rights, &|| leave.is_valid());
    read_for(&shared, &asker, &range, Kind::Report, make, document_of).await
}

/// On a thread: an hour of many pools takes some milliseconds. Whoever comes meanwhile waits for a turn without a thread, and without the lock.
async fn seen(shared: &Shared, make: impl FnOnce(&History) -> Option<String> + Send + 'static) -> Option<Response> {
    let history = shared.pooler.history()?;
    let made = shared.past.have(move || make(&history.lock().expect("nothing panics while it holds this lock")));
    made.await.flatten().map(|text| json(StatusCode::OK, text))
}

async fn show(
    State(shared): State<Shared>,
    asker: Asker,
    Path(table): Path<String>,
    Query(wish): Query<Wish>,
) -> Response {
    if !TABLES.contains(&&*table) {
        return refused(StatusCode::NOT_FOUND, "no view shows such a table");
    }
    let (pooler, wanted) = (Arc::clone(&shared.pooler), Wanted { table, rights: asker.rights });
    let made = shared.makers.have(move || {
        let mut rows = Rows::new(wish);
        let given = pooler.table(&wanted, &mut rows);
        shown(given, rows)
    });
    made.await.unwrap_or_else(|| refused(StatusCode::INTERNAL_SERVER_ERROR, "it has failed; the log may say why"))
}

fn shown(given: Given, mut rows: Rows) -> Response {
    match given {
        Given::Rows => {
            rows.end();
            written(&rows)
        }
        // That a view has nothing to show is no error.
        Given::Nothing => json(StatusCode::OK, "null".to_owned()),
        Given::NotInTime => refused(StatusCode::SERVICE_UNAVAILABLE, "the pooler has not answered in time"),
    }
}

#[derive(Deserialize)]
struct Client {
    client: String,
}

async fn disconnect(State(shared): State<Shared>, admin: Admin, Form(Client { client }): Form<Client>) -> Response {
    order(&shared, admin, Order::Disconnect, client).await
}

async fn cancel(State(shared): State<Shared>, admin: Admin, Form(Client { client }): Form<Client>) -> Response {
    order(&shared, admin, Order::Cancel, client).await
}

async fn order(shared: &Shared, admin: Admin, order: Order, client: String) -> Response {
    let pooler = Arc::clone(&shared.pooler);
    let done = shared.makers.have(move || {
        pooler.tell(Said::Orders { user: &admin.user, order, client: &client });
        pooler.order(order, &client)
    });
    match done.await {
        Some(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Some(Err(why)) => refused(StatusCode::CONFLICT, &why),
        None => refused(StatusCode::INTERNAL_SERVER_ERROR, "it has failed; the log may say why"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty table would say that nobody waits.
    #[test]
    fn a_table_that_is_not_there_in_time_is_no_empty_one() {
        let status = |given| shown(given, Rows::new(Wish::default())).status();
        assert_eq!(status(Given::Rows), StatusCode::OK);
        assert_eq!(status(Given::Nothing), StatusCode::OK);
        assert_eq!(status(Given::NotInTime), StatusCode::SERVICE_UNAVAILABLE);
    }
}
