//! The thread's work: connections are accepted, served, and seen off.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use crate::patient::Patient;
use crate::room::{Room, Seat};
use crate::socket::{Listener, Listening, Stream};
use crate::timer::Timer;
use crate::{CONNECTIONS_MAX, HEAD_LEN_MAX, HEADERS_MAX, PATIENCE, Peer, answers};

/// How long a client that has its answer may take to close, and how much it may have sent too much: what is unread when a connection is closed makes
/// the kernel throw away what has not arrived.
const LINGER: Duration = Duration::from_secs(1);
const UNREAD_LEN_MAX: usize = 256 * 1024;

/// Without descriptors it would be tried again and again at once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Serves until nobody has the other end of `is_over`; then what has come is answered.
pub(crate) async fn serve(listener: Listener, router: Router, is_over: watch::Receiver<()>) {
    let Ok(listening) = listener.listen() else { return };
    let room = Arc::new(Room::of(CONNECTIONS_MAX));
    while let Some(accepted) = next(&listening, &is_over).await {
        let Ok(stream) = accepted else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (seat, made_room) = Room::enter(&room);
        let (number, over) = (seat.number(), is_over.clone());
        let task = tokio::spawn(converse(seat, Arc::new(stream), router.clone(), over));
        room.seated(number, task.abort_handle());
        if made_room {
            // Whoever was dismissed is closed before the next one is accepted.
            tokio::task::yield_now().await;
        }
    }
    drop(listening);
    // As long as the last one may take.
    let _ = timeout(2 * PATIENCE + LINGER, room.emptied()).await;
}

/// `None`: it is over.
async fn next(listening: &Listening, is_over: &watch::Receiver<()>) -> Option<io::Result<Stream>> {
    let mut over = is_over.clone();
    let mut ends = pin!(over.changed());
    let mut comes = pin!(listening.accept());
    poll_fn(|cx| {
        if ends.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(None);
        }
        comes.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn converse(seat: Seat, stream: Arc<Stream>, router: Router, mut is_over: watch::Receiver<()>) {
    let peer = Peer { address: stream.peer() };
    let seat = &seat;
    let service = service_fn(move |request: Request<Incoming>| {
        seat.has_asked();
        answered(router.clone(), request, peer)
    });
    let connection = http1::Builder::new()
        .timer(Timer)
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_LEN_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(true)
        .title_case_headers(true)
        .auto_date_header(false)
        .serve_connection(Patient::new(Arc::clone(&stream)), service);
    let mut connection = pin!(connection);
    let mut over = Some(Box::pin(is_over.changed()));
    let served = poll_fn(|cx| {
        if over.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready()) {
            over = None;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    // A client that has left, or takes no answer, is nobody's concern.
    let is_taken = served.await.map_or_else(|error| error.is_parse(), |()| true);
    if is_taken && stream.end_writing().is_ok() {
        let _ = timeout(LINGER, see_off(&stream)).await;
    }
}

/// Also what is slow to come with the body of a request is in time or refused.
async fn answered(mut router: Router, request: Request<Incoming>, peer: Peer) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    let late = || answers::said(StatusCode::SERVICE_UNAVAILABLE, "the answer is not to be had in time\n");
    Ok(timeout(PATIENCE, router.call(request)).await.map_or_else(|_| late(), |Ok(answer)| answer))
}

/// Reads on until the client closes.
async fn see_off(stream: &Stream) {
    let mut part = [0; 1024];
    let mut unread = 0;
    while unread < UNREAD_LEN_MAX {
        match poll_fn(|cx| stream.poll_read(cx, &mut part)).await {
            Ok(0) | Err(_) => return,
            Ok(count) => unread += count,
        }
    }
}
