//! What waits for others is done on a thread of its own, and few such threads there are: whoever comes when all are busy waits without one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// Threads of one [`Makers`] at a time.
pub const MAKERS_MAX: usize = 4;

/// Leave to use a thread.
#[derive(Clone, Debug)]
pub struct Makers {
    free: Arc<Semaphore>,
}

impl Default for Makers {
    fn default() -> Makers {
        Makers::of(MAKERS_MAX)
    }
}

impl Makers {
    /// At most so many at a time, and at most [`MAKERS_MAX`].
    #[must_use]
    pub fn of(count: usize) -> Makers {
        Makers { free: Arc::new(Semaphore::new(count.min(MAKERS_MAX))) }
    }

    /// Has it made on a thread, as soon as one is free. If the future is dropped before that, it is not made. `None`: making it has panicked.
    pub async fn have<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let leave = Arc::clone(&self.free).acquire_owned().await.expect("it is never closed");
        let made = tokio::task::spawn_blocking(move || {
            let made = make();
            drop(leave);
            made
        });
        made.await.ok()
    }
}

/// Something that a thread makes, whether or not somebody waits for it.
#[derive(Debug)]
pub struct Making<T> {
    /// `None`: not made yet. `Some(None)`: making it has panicked.
    made: watch::Receiver<Option<Option<Arc<T>>>>,
}

impl<T> Clone for Making<T> {
    fn clone(&self) -> Making<T> {
        Making { made: self.made.clone() }
    }
}

impl Makers {
    /// Begins to make it, as soon as a thread is free. It is made even if nobody waits.
    pub fn begin<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> Making<T> {
        let (sender, made) = watch::channel(None);
        let makers = self.clone();
        tokio::spawn(async move {
            let result = makers.have(make).await.map(Arc::new);
            // Without a receiver nobody wants it.
            let _ = sender.send(Some(result));
        });
        Making { made }
    }
}

impl<T> Making<T> {
    /// Waits for it. `None`: it is not made within `patience`. `Some(None)`: making it has panicked.
    pub async fn within(mut self, patience: Duration) -> Option<Option<Arc<T>>> {
        let made = timeout(patience, self.made.wait_for(Option::is_some)).await.ok()?;
        Some(made.ok().and_then(|made| made.clone().flatten()))
    }
}
