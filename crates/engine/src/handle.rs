//! The control plane's handle to a running engine. Every call returns soon, and none affects a query.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use machine::{Hint, Look, Mail, Observed, Origin, Place, Settings, Snapshot, Stop, ToCoordinator, ToWorker};
use units::{ConnId, Time, WorkerId};

use crate::count::ThreadCounters;
use crate::layer::Keyring;
use crate::letter::Letter;
use crate::listener::Listening;
use crate::log::Log;
use crate::options::TcpOptions;
use crate::shared::Shared;
use crate::traces::Traces;

/// Cloned freely, used from any thread.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    /// Statements that are traced, for whoever sends them.
    pub traces: Arc<Traces>,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle { traces: Arc::clone(&shared.traces), shared }
    }

    /// Puts a message into a machine's mailbox, in order, even into a full one.
    pub(crate) fn post(&self, mail: Mail) {
        self.mailbox(self.shared.thread_of(mail.place()), Letter::Mail { mail, parcel: None });
    }

    pub(crate) fn mailbox(&self, thread: usize, letter: Letter) {
        self.shared.boxes[thread].insist(letter);
    }

    fn post_all(&self, mail: impl Fn(Place) -> Mail) {
        for place in self.shared.places() {
            self.post(mail(place));
        }
    }

    /// New settings for every machine. The number of workers stays as it was at start.
    pub fn configure(&self, settings: &Arc<Settings>) {
        self.shared.set_settings(Arc::clone(settings));
        self.post_all(|place| Mail::configure(place, Arc::clone(settings)));
    }

    /// TCP sockets of clients and servers that come from now on get these options.
    pub fn set_tcp(&self, options: TcpOptions) {
        let options = Arc::new(options);
        for thread in 0..self.shared.boxes.len() {
            self.mailbox(thread, Letter::SetTcp(Arc::clone(&options)));
        }
    }

    /// For so long threads look for events before they sleep.
    pub fn set_busy_poll(&self, span: Duration) {
        for thread in 0..self.shared.boxes.len() {
            self.mailbox(thread, Letter::SetBusyPoll(span));
        }
    }

    /// Connections that become encrypted from now on use these certificates and checks.
    pub fn set_tls(&self, keyring: Keyring) {
        let keyring = Arc::new(keyring);
        for thread in 0..self.shared.boxes.len() {
            self.mailbox(thread, Letter::SetTls(Arc::clone(&keyring)));
        }
    }

    /// The settings that were set last.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings()
    }

    /// A snapshot of every worker, in their order; fewer if some have not answered within the timeout.
    #[must_use]
    pub fn look(&self, look: Look, timeout: Duration) -> Vec<Snapshot> {
        let ticket = self.shared.ticket();
        self.shared.replies.expect(ticket);
        for worker in 0..self.shared.workers {
            self.post(Mail::ToWorker(WorkerId(worker), ToWorker::Look { ticket, look }));
        }
        let mut found = self.shared.replies.collect(ticket, usize::from(self.shared.workers), timeout).snapshots;
        found.sort_by_key(|snapshot| snapshot.worker);
        found
    }

    /// Every thread's counters since the start; fewer if some have not answered within the timeout.
    #[must_use]
    pub fn counters(&self, timeout: Duration) -> Vec<ThreadCounters> {
        let ticket = self.shared.ticket();
        self.shared.replies.expect(ticket);
        for thread in 0..self.shared.boxes.len() {
            self.mailbox(thread, Letter::Count { ticket });
        }
        let mut found = self.shared.replies.collect(ticket, self.shared.boxes.len(), timeout).counters;
        found.sort_by_key(|counters| counters.thread);
        found
    }

    /// Whether every thread answers within the timeout.
    #[must_use]
    pub fn answers(&self, timeout: Duration) -> bool {
        self.counters(timeout).len() == self.shared.boxes.len()
    }

    /// Answers a console command; `close` ends that console session.
    pub fn answer(&self, worker: WorkerId, conn: ConnId, bytes: Vec<u8>, close: bool) {
        self.post(Mail::ToWorker(worker, ToWorker::Answer { conn, bytes, close }));
    }

    /// What is known of names of hosts.
    #[must_use]
    pub fn names(&self) -> names::Seen {
        self.shared.resolver.seen()
    }

    /// Looks a name up, and hands on what was found; soon, if it is known.
    pub fn look_up(&self, name: &str, answer: impl FnOnce(names::Found) + Send + 'static) {
        self.shared.resolver.look_up(name.to_owned(), answer);
    }

    /// The addresses of a name, looked up if they are not known. None: it has none, or that takes longer.
    #[must_use]
    pub fn addresses_of(&self, name: &str, patience: Duration) -> Vec<IpAddr> {
        let (sender, found) = channel();
        // Nobody waits any more: it came too late.
        self.shared.resolver.look_up(name.to_owned(), move |found| _ = sender.send(found));
        let found = found.recv_timeout(patience).ok().and_then(Result::ok);
        found.map(|addresses| addresses.to_vec()).unwrap_or_default()
    }

    /// Names are looked up anew by whoever asks from now on.
    pub fn forget_names(&self) {
        self.shared.resolver.forget_all();
    }

    /// Names are kept for other times from now on.
    pub fn set_names(&self, options: &names::Options) {
        self.shared.resolver.configure(options);
    }

    /// The time by the clock of all machines.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Somebody outside says which host is the primary.
    pub fn hinted(&self, hint: Hint) {
        self.post(Mail::ToCoordinator(ToCoordinator::Hinted(Box::new(hint))));
    }

    /// The prober has asked a host.
    pub fn probed(&self, observed: Observed, origin: Option<Origin>) {
        self.post(Mail::ToCoordinator(ToCoordinator::Probed(Box::new((observed, origin)))));
    }

    /// Ends a session or cancels its query, by `KillClient` or `KillQuery`.
    pub fn kill(&self, worker: WorkerId, order: ToWorker) {
        self.post(Mail::ToWorker(worker, order));
    }

    /// Stops the engine; `Engine::wait` returns when that is done. TCP listeners close at once. The Unix socket stays
    /// open for the console, unless the stop is immediate.
    //= pgbouncer usage.md#SHUTDOWN
    pub fn stop(&self, stop: Stop) {
        self.shared.set_stop(stop);
        self.mailbox(0, Letter::CloseListeners { keep_unix: stop != Stop::Immediate });
        for place in self.shared.places().filter(|place| stop.is_sent_to(*place)) {
            self.post(Mail::stop(place, stop));
        }
        if stop == Stop::Immediate {
            // This follows the stop message in the same mailboxes, so that machines can still send last messages.
            self.shared.leave();
        }
    }

    /// The addresses that are listened on now.
    #[must_use]
    pub fn listening(&self) -> Vec<Listening> {
        self.shared.listening()
    }

    #[must_use]
    pub fn workers(&self) -> u16 {
        self.shared.workers
    }

    #[must_use]
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Whether all machines have ended.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.shared.end.over.load(std::sync::atomic::Ordering::Acquire)
    }
}
