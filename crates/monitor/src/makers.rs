//! What waits for others is done on a thread of its own, and few such threads there are: whoever comes when all are busy waits without one.

use std::sync::Arc;

use tokio::sync::Semaphore;

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
