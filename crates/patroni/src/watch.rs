//! The thread that asks again and again, and those that wait for an answer.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding as _};
use http_client::{Answer as Http, Client};

use crate::choice::{Answer, choose};
use crate::view::{self, ClusterView, Member, Status};

/// How often all are asked at rest.
const REST: Duration = Duration::from_secs(1);
/// The shortest time between two rounds, after [`Watch::look_now`].
const HASTE: Duration = Duration::from_millis(50);
/// How long an answer counts. A request may take a second, and another one behind it.
const COUNTS: Duration = Duration::from_secs(4);
/// How long the status of a member counts, while all agree about the cluster. To ask for that costs a member a
/// question to its PostgreSQL.
const STATUS_COUNTS: Duration = Duration::from_secs(5);
/// How long a member may differ from the others before that is reported: mostly it is a moment behind.
const BEHIND: Duration = Duration::from_secs(4);
/// How long a timeline that was seen is not gone back to.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The longest answer, in bytes: a hundred members have some 30 kB.
const BYTES_MAX: u64 = 1 << 20;

/// The REST API of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Without `/cluster` and without a slash at its end.
    pub base: String,
    pub host: String,
}

/// Whom to ask.
#[derive(Clone)]
pub struct Options {
    pub urls: Vec<Url>,
    /// Its time limit is a member's for one answer: a second does.
    pub client: Client,
    /// User and password.
    pub login: Option<(String, String)>,
    /// How often a leader that stays is reported again.
    pub confirm: Duration,
}

/// What is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The cluster looks otherwise than before.
    Seen(Seen),
    /// The cluster has the same leader as before.
    Confirmed(Seen),
    /// A member, by its URL, cannot be used, in words. Told once, until [`News::Back`].
    Failed {
        url: String,
        words: String,
    },
    Back {
        url: String,
    },
}

/// The cluster, and how long ago the member that shows it so had reached the store of the cluster's state; `None`: not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub view: Arc<ClusterView>,
    pub age: Option<Duration>,
}

enum Event {
    LookNow,
    Cluster(usize, Result<ClusterView, String>),
    Status(usize, Option<Status>),
    /// The member's thread has ended.
    Ended(usize),
    Stop,
}

/// A cluster that is watched. The threads end when it is dropped, those that wait for an answer up to their time limit later.
pub struct Watch {
    sender: Sender<Event>,
    shown: Shown,
}

type Shown = Arc<Mutex<Option<Arc<ClusterView>>>>;

fn lock(shown: &Shown) -> MutexGuard<'_, Option<Arc<ClusterView>>> {
    shown.lock().expect("nothing panics while it holds this lock")
}

impl Watch {
    /// `on_news` is called on the watch's thread.
    ///
    /// # Errors
    /// The system's, if it has no thread left.
    pub fn start(options: Options, on_news: impl FnMut(News) + Send + 'static) -> io::Result<Watch> {
        let (sender, events) = channel();
        let shown = Shown::default();
        let watching = Watching {
            members: options.urls.iter().map(|_| Asked::default()).collect(),
            authorization: options.login.as_ref().map(authorization),
            urls: options.urls,
            client: options.client,
            sender: sender.clone(),
            shown: Arc::clone(&shown),
            confirmed: None,
            confirm: options.confirm,
            told_at: Instant::now(),
            differ: false,
            on_news,
        };
        thread::Builder::new().name("patroni".to_owned()).spawn(move || watching.run(&events))?;
        Ok(Watch { sender, shown })
    }

    /// Somebody wants to know it now.
    pub fn look_now(&self) {
        // The thread lives as long as this does.
        let _ = self.sender.send(Event::LookNow);
    }

    /// The newest view. `None`: nobody has answered yet.
    #[must_use]
    pub fn view(&self) -> Option<Arc<ClusterView>> {
        lock(&self.shown).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.sender.send(Event::Stop);
    }
}

//= rfc7617#section-2
fn authorization((user, password): &(String, String)) -> String {
    format!("Basic {}", Base64::encode_string(format!("{user}:{password}").as_bytes()))
}

/// A member, and its last answers.
#[derive(Default)]
struct Asked {
    /// A thread waits for its answer.
    is_waiting: bool,
    cluster: Option<(Result<ClusterView, String>, Instant)>,
    status: Option<(Status, Instant)>,
    /// Since when its answers do not count, though they are some.
    refused: Option<Instant>,
    /// Its failure was reported.
    told: bool,
}

struct Watching<F> {
    urls: Vec<Url>,
    client: Client,
    authorization: Option<String>,
    members: Vec<Asked>,
    sender: Sender<Event>,
    shown: Shown,
    /// When an answer has last agreed with the view.
    confirmed: Option<Instant>,
    confirm: Duration,
    /// When the leader was last reported.
    told_at: Instant,
    /// The answers of the members differ.
    differ: bool,
    on_news: F,
}

impl<F: FnMut(News)> Watching<F> {
    fn run(mut self, events: &Receiver<Event>) {
        let mut due = Instant::now();
        let mut looked: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if now >= due {
                self.look(now);
                (looked, due) = (Some(now), now + REST);
            }
            match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Event::LookNow) => due = due.min(looked.map_or(now, |looked| looked + HASTE)),
                Ok(Event::Cluster(at, answer)) => {
                    self.members[at].cluster = Some((answer, Instant::now()));
                    self.choose(Instant::now());
                }
                Ok(Event::Status(at, status)) => {
                    self.members[at].status = status.map(|status| (status, Instant::now()));
                    self.choose(Instant::now());
                }
                Ok(Event::Ended(at)) => self.members[at].is_waiting = false,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Asks each member whose last answer is not waited for any more.
    fn look(&mut self, now: Instant) {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.cluster.take_if(|(_, since)| now.duration_since(*since) > COUNTS);
            if member.is_waiting {
                continue;
            }
            let is_old = |(_, since): &(Status, Instant)| now.duration_since(*since) >= STATUS_COUNTS;
            let asks_status = self.differ || member.status.as_ref().is_none_or(is_old);
            let (client, sender) = (self.client.clone(), self.sender.clone());
            let (base, authorization) = (self.urls[at].base.clone(), self.authorization.clone());
            let ask = move || {
                let get = |path: &str| {
                    let headers = authorization.iter().map(|value| ("Authorization", value.as_str()));
                    client.get(&format!("{base}{path}"), headers, BYTES_MAX).map_err(|why| why.words)
                };
                let cluster = get("/cluster").and_then(|answer| view::cluster(&body_of(&answer)?));
                let is_one = cluster.is_ok();
                // Sending fails when nobody watches any more.
                let _ = sender.send(Event::Cluster(at, cluster));
                let status = || {
                    let answer = get("/patroni").ok()?;
                    view::status(&body_of(&answer).ok()?, answer.date.as_deref()).ok()
                };
                if asks_status || !is_one {
                    let _ = sender.send(Event::Status(at, is_one.then(status).flatten()));
                }
                let _ = sender.send(Event::Ended(at));
            };
            match thread::Builder::new().name("patroni".to_owned()).spawn(ask) {
                Ok(_) => member.is_waiting = true,
                Err(why) => member.cluster = Some((Err(format!("cannot start a thread: {why}")), now)),
            }
        }
        self.choose(now);
    }

    /// Believes the freshest answer.
    fn choose(&mut self, now: Instant) {
        let mut places = Vec::new();
        let mut answers = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            let Some((Ok(view), _)) = &member.cluster else { continue };
            let status = member.status.as_ref().map(|(status, since)| Status {
                age: status.age.map(|age| age + now.duration_since(*since)),
                ..status.clone()
            });
            places.push(at);
            answers.push(Answer { host: self.urls[at].host.clone(), view: view.clone(), status });
        }
        let shown = lock(&self.shown).clone();
        let known = shown.as_ref().filter(|_| self.confirmed.is_some_and(|at| now.duration_since(at) < REMEMBERED));
        let known = known.and_then(|view| Some((view.scope.as_deref()?, view.timeline?)));
        let choice = choose(&answers, known);
        let said = |answer: &Answer| (answer.view.leader.clone(), answer.view.timeline);
        self.differ = answers.windows(2).any(|two| said(&two[0]) != said(&two[1]));
        let refused: Vec<(usize, String)> =
            choice.refused.into_iter().map(|(place, words)| (places[place], words)).collect();
        for at in 0..self.members.len() {
            let words = refused.iter().find(|(place, _)| *place == at).map(|(_, words)| words.clone());
            let member = &mut self.members[at];
            member.refused = words.as_ref().map(|_| member.refused.unwrap_or(now));
            let is_behind = member.refused.is_some_and(|since| now.duration_since(since) < BEHIND);
            self.tell(at, words.filter(|_| !is_behind));
        }
        let (Some(view), age) = (choice.view, choice.age) else { return };
        self.confirmed = Some(now);
        let place = |member: &Member| (member.name.clone(), member.host.clone(), member.port);
        let leader = view.leader().map(place);
        let has_same_leader = shown.as_ref().is_some_and(|shown| shown.leader().map(place) == leader);
        let view = match shown {
            Some(shown) if *shown == view => shown,
            _ => {
                let view = Arc::new(view);
                *lock(&self.shown) = Some(Arc::clone(&view));
                (self.on_news)(News::Seen(Seen { view: Arc::clone(&view), age }));
                view
            }
        };
        if !has_same_leader {
            self.told_at = now;
        } else if now.duration_since(self.told_at) >= self.confirm {
            self.told_at = now;
            (self.on_news)(News::Confirmed(Seen { view, age }));
        }
    }

    /// Whether a member can be used, if that is new.
    fn tell(&mut self, at: usize, refused: Option<String>) {
        let member = &mut self.members[at];
        let failed = match &member.cluster {
            Some((Ok(_), _)) => refused,
            Some((Err(words), _)) => Some(words.clone()),
            // The first answer is still to come.
            None => return,
        };
        let url = self.urls[at].base.clone();
        match (failed, std::mem::take(&mut member.told)) {
            (Some(words), told) => {
                member.told = true;
                if !told {
                    (self.on_news)(News::Failed { url, words });
                }
            }
            (None, true) => (self.on_news)(News::Back { url }),
            (None, false) => {}
        }
    }
}

fn body_of(answer: &Http) -> Result<Vec<u8>, String> {
    match answer.status {
        200 => Ok(answer.body.clone()),
        401 | 403 => Err(format!("it answers with status {}: patroni_user may not ask", answer.status)),
        300..=399 => Err(format!("it answers with status {}, a redirect, which is not followed", answer.status)),
        other => Err(format!("it answers with status {other}")),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
