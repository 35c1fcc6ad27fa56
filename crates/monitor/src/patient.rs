//! A connection as hyper reads and writes it, with a deadline for each answer: a client that takes a byte now and then does not begin it anew.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{self, ReadBufCursor};
use tokio::time::{Sleep, sleep};

use crate::PATIENCE;
use crate::socket::Stream;

/// What is read at once.
const PART_LEN: usize = 4096;

pub(crate) struct Patient {
    stream: Arc<Stream>,
    /// Until when the answer that is being written must have been taken.
    until: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: Arc<Stream>) -> Patient {
        Patient { stream, until: None }
    }
}

impl rt::Read for Patient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut part = [0; PART_LEN];
        let len = part.len().min(to.remaining());
        let count = ready!(self.stream.poll_read(cx, &mut part[..len]))?;
        to.put_slice(&part[..count]);
        Poll::Ready(Ok(()))
    }
}

impl rt::Write for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.stream.poll_write(cx, bytes)
    }

    /// All of an answer is written: hyper flushes when its buffer is empty, and each answer here is one piece.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.until = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.end_writing())
    }
}
