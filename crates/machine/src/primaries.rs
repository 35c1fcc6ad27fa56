//! Which of its hosts a database may write to: a decision of the coordinator, which all workers follow. Pure.
//!
//! ```text
//!   observations of all hosts ──► decide ──► Primary { where, epoch } ──► ToWorker::Primary ──► all workers
//! ```
//!
//! Promises, for each list of hosts:
//! * at most one of its hosts is written to, and only one that reports itself as the primary;
//! * another one is chosen only with the proof that it is its successor: the one before does not answer, refuses, or is a standby, and the new one is
//!   on a later timeline. A host that does not answer changes nothing by itself;
//! * of two that both accept writes, the one of before keeps them if the other is on an earlier timeline, as a primary is that was frozen and wakes up;
//!   otherwise `split_brain` decides. Two accept writes only if the one of before was seen after the other: until then it keeps them, and is asked;
//! * a host of another database system than the primary's is never chosen, nor are its standbys used;
//! * a hint ([`crate::hint`]) chooses between hosts that accept writes, and never makes a primary of one that does not.
//!
//! Timelines and systems are known where the prober is let in. Without them the primary of before keeps the writes while it is alive, unless a hint names
//! another one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use connections::databases::{Address, TargetSessionAttrs};
use serde::{Deserialize, Serialize};
use settings::SplitBrain;
use units::{Time, limits};

use crate::Settings;
use crate::hint::{Hint, HintSource};
use crate::host_state::{HostRole, HostState, Upstream};

/// The database system at a host, as the prober has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The role in which it gave the other values. A promotion begins another timeline.
    pub role: HostRole,
    /// The number that a cluster gets when it is made, and that its copies have, too.
    //= pg18 functions-info#FUNCTIONS-INFO-CONTROLDATA
    pub system: Option<u64>,
    //= pg18 continuous-archiving#BACKUP-TIMELINES
    pub timeline: Option<u32>,
    /// When its postmaster was started, as PostgreSQL shows it. Two addresses at which the same system was started at the same time are one host.
    pub started: Option<Arc<str>>,
}

impl Origin {
    /// Whether both are of one server: of the same system, and started at the same time.
    #[must_use]
    pub fn is_same_server(&self, other: &Origin) -> bool {
        self.system.is_some()
            && self.started.is_some()
            && (self.system, &self.started) == (other.system, &other.started)
    }
}

/// Which host of a list is written to.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Writes {
    /// No host has reported itself as the primary.
    #[default]
    Unknown,
    At(Arc<Address>),
    /// Several accept writes, and none of the rules chooses one. Nobody writes.
    Disputed,
}

/// The decision for one list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Primary {
    pub writes: Writes,
    /// How often another host has become the primary; the first is 1.
    pub epoch: u32,
    /// Since when it holds.
    pub since: Time,
    /// The primary before a dispute.
    before: Option<Arc<Address>>,
    /// The primary's system identifier, if the prober has seen it.
    system: Option<u64>,
    timeline: Option<u32>,
    /// Its timeline is later than this one, where it was chosen before its timeline was seen.
    later_than: Option<u32>,
    /// Hosts of the list that belong to another database system.
    #[serde(default)]
    foreign: Vec<Arc<Address>>,
    /// Hosts that accepted writes, each on this timeline, when an administrator named another one as the primary. None of them is chosen before it has
    /// been a standby, is on another timeline, or is named itself.
    #[serde(default)]
    passed_over: Vec<(Arc<Address>, Option<u32>)>,
}

impl Primary {
    /// The host to write to, if there is one.
    #[must_use]
    pub fn host(&self) -> Option<&Arc<Address>> {
        match &self.writes {
            Writes::At(host) => Some(host),
            Writes::Unknown | Writes::Disputed => None,
        }
    }

    /// Whether a host belongs to another database system than the primary.
    #[must_use]
    pub fn is_foreign(&self, host: &Address) -> bool {
        self.foreign.iter().any(|foreign| **foreign == *host)
    }

    /// Whether a host accepted writes when an administrator named another.
    #[must_use]
    pub fn was_passed_over(&self, host: &Address) -> bool {
        self.passed_over.iter().any(|(other, _)| **other == *host)
    }

    /// The last timeline that was seen of it.
    #[must_use]
    pub fn timeline(&self) -> Option<u32> {
        self.timeline
    }

    fn incumbent(&self) -> Option<&Arc<Address>> {
        self.host().or(self.before.as_ref())
    }

    /// The decision for a list that shares a host with this one and lacks its primary. It keeps the timeline, so that no host is chosen that is out of date.
    fn without_host(&self) -> Primary {
        let Primary { epoch, since, system, timeline, later_than, .. } = *self;
        Primary { epoch, since, system, timeline, later_than, ..Primary::default() }
    }

    fn latest(&self) -> Option<u32> {
        self.timeline.or(self.later_than)
    }

    fn passes_over(&self, candidate: &Candidate) -> bool {
        let is_it = |(host, timeline): &(_, _)| *host == candidate.host && *timeline == candidate.at_least();
        candidate.hinted != Some(true) && self.passed_over.iter().any(is_it)
    }
}

/// A decision as a letter: for the databases with exactly these hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub hosts: Arc<[Address]>,
    pub primary: Primary,
    pub why: Why,
}

/// Why another decision was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing was known before.
    First,
    /// The one before is `was` now.
    Successor { before: Arc<Address>, was: Loss },
    /// These accept writes.
    Two { hosts: Box<[Arc<Address>]> },
    /// Two accepted writes, and now one does, or `split_brain` has decided.
    Settled,
    /// These hosts are found to belong to another database system than the primary; none: no host does any more.
    Foreign { hosts: Box<[Arc<Address>]> },
}

/// How a primary was lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    Failed,
    Silent,
    Standby,
    /// It accepts writes, but is on an earlier timeline.
    Older,
    /// It accepts writes, but a hint names another one.
    Hinted,
    Unknown,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Failed => "does not let anybody in",
            Loss::Silent => "does not answer",
            Loss::Standby => "is a standby",
            Loss::Older => "is on an earlier timeline",
            Loss::Hinted => "is not the primary any more, as it is said",
            Loss::Unknown => "has not shown its role",
        })
    }
}

/// The line of the log.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Primary { writes, epoch, timeline, .. } = &self.primary;
        if let Why::Foreign { hosts } = &self.why {
            if hosts.is_empty() {
                return f.write_str("no host belongs to another database system than the primary any more");
            }
            f.write_str("not used, since they belong to another database system than the primary:")?;
            return hosts.iter().try_for_each(|host| write!(f, " {host}"));
        }
        match writes {
            Writes::Unknown => f.write_str("no host is known as the primary"),
            Writes::Disputed => {
                // Another process has decided, and the hosts are in its log.
                let Why::Two { hosts } = &self.why else { return f.write_str("two primaries: clients wait") };
                f.write_str("two primaries: clients wait, as split_brain is hold. These hosts accept writes:")?;
                hosts.iter().try_for_each(|host| write!(f, " {host}"))
            }
            Writes::At(host) => {
                write!(f, "the primary is {host}, epoch {epoch}")?;
                if let Some(timeline) = timeline {
                    write!(f, ", timeline {timeline}")?;
                }
                match &self.why {
                    Why::Successor { before, was } => write!(f, ": {before} {was}"),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// One host that accepts writes, as far as is known.
struct Candidate {
    host: Arc<Address>,
    since: Time,
    /// When it was seen last.
    seen_at: Time,
    system: Option<u64>,
    timeline: Option<u32>,
    /// If it was promoted since: the timeline that it was on before.
    above: Option<u32>,
    /// The last hint: it is the primary, or is not any more.
    hinted: Option<bool>,
    /// The hint was an administrator's.
    is_by_console: bool,
}

/// The last hint for a host.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct KnownHint {
    is_primary: bool,
    until: Time,
    is_by_console: bool,
}

impl Candidate {
    /// Its timeline, or the one that it was on before.
    fn at_least(&self) -> Option<u32> {
        self.timeline.or(self.above)
    }

    /// Whether the prober is to show its timeline first. A login has shown that it accepts writes, and it was on an earlier timeline before: it may be a
    /// primary that was frozen, or have been promoted just now.
    fn is_to_be_asked(&self, now: Time, latest: Option<u32>) -> bool {
        let was_earlier = matches!((self.above, latest), (Some(above), Some(latest)) if above < latest);
        was_earlier && self.hinted != Some(true) && now < self.since + limits::CONTEST_LASTS
    }

    /// An administrator has said that it is not the primary.
    fn is_demoted(&self) -> bool {
        self.is_by_console && self.hinted == Some(false)
    }

    /// This one is chosen by its hint. An administrator's hint passes the other candidates over.
    fn pass_over_others(&self, known: &mut Primary, candidates: &[Candidate]) {
        if self.is_by_console {
            let others = candidates.iter().filter(|other| other.host != self.host);
            pass_over(known, &others.collect::<Vec<_>>());
        }
    }

    /// Whether it may be the successor of a primary that was on this timeline and is not alive. An unknown timeline does not exclude it.
    fn may_follow(&self, timeline: Option<u32>) -> bool {
        match (self.timeline, timeline) {
            (Some(own), Some(before)) => own > before,
            _ => true,
        }
    }

    /// Whether it is certainly on an earlier timeline.
    fn is_older(&self, timeline: Option<u32>) -> bool {
        matches!((self.timeline, timeline), (Some(own), Some(other)) if own < other)
    }

    fn may_be_of(&self, system: Option<u64>) -> bool {
        !matches!((self.system, system), (Some(own), Some(other)) if own != other)
    }
}

/// The database systems at hosts, and the last hints.
type Known<'k> = (&'k BTreeMap<Address, Origin>, &'k BTreeMap<Address, KnownHint>);

/// All decisions, and what they are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Primaries {
    decided: BTreeMap<Arc<[Address]>, Primary>,
    /// One of the decisions is [`Writes::Disputed`]. A flag, since each message of a linked client looks at it.
    has_disputes: bool,
    /// Lists in which another host accepts writes while the primary has not been seen since then: it may be gone. Only the coordinator knows these, the
    /// origins and the hints.
    contested: BTreeMap<Arc<[Address]>, Time>,
    origins: BTreeMap<Address, Origin>,
    /// The last hint for each host. They end with the next epoch.
    hints: BTreeMap<Address, KnownHint>,
    /// Until when Patroni is not believed about a host, since an administrator has given a hint about its list.
    overruled: BTreeMap<Address, Time>,
}

impl Primaries {
    #[must_use]
    pub fn new(settings: &Settings) -> Primaries {
        let mut primaries = Primaries::default();
        primaries.configure(settings);
        primaries
    }

    /// Takes the lists of new settings. The decisions for lists that stay are kept.
    pub fn configure(&mut self, settings: &Settings) {
        let before = std::mem::take(&mut self.decided);
        let databases = settings.databases.values().chain(&settings.fallback);
        let lists = databases.filter(|database| database.target_session_attrs != TargetSessionAttrs::Any);
        for database in lists.filter(|database| database.hosts.len() > 1) {
            let hosts: Arc<[Address]> = database.hosts.as_slice().into();
            // A host was added or removed.
            let alike = |known: &Primary| known.incumbent().is_some_and(|host| hosts.contains(host));
            let kept = before.get(&hosts).or_else(|| before.values().find(|known| alike(known))).cloned();
            // Whether a shared host still has the same system: it may have been made anew.
            let is_as_before = |host: &Address, known: &Primary| {
                hosts.contains(host) && self.origins.get(host).is_none_or(|origin| origin.system == known.system)
            };
            let shares =
                |(list, known): &(&Arc<[Address]>, &Primary)| list.iter().any(|host| is_as_before(host, known));
            let other = || before.iter().filter(shares).map(|(_, known)| known.without_host());
            let kept = kept.or_else(|| other().max_by_key(Primary::latest)).unwrap_or_default();
            self.decided.insert(hosts, kept);
        }
        self.note_disputes();
        let decided = &self.decided;
        self.contested.retain(|hosts, _| decided.contains_key(hosts));
        self.origins.retain(|host, _| decided.keys().any(|hosts| hosts.contains(host)));
        if settings.global.servers.host_check_interval.is_none() {
            // Promotions are not seen any more. A host of another database system stays one.
            self.origins.values_mut().for_each(|origin| origin.timeline = None);
        }
        self.hints.retain(|host, _| decided.keys().any(|hosts| hosts.contains(host)));
        self.overruled.retain(|host, _| decided.keys().any(|hosts| hosts.contains(host)));
    }

    /// Whether several hosts of any list accept writes.
    #[inline]
    #[must_use]
    pub fn have_disputes(&self) -> bool {
        self.has_disputes
    }

    fn note_disputes(&mut self) {
        self.has_disputes = self.decided.values().any(|known| known.writes == Writes::Disputed);
    }

    /// The decision for a list of hosts.
    #[must_use]
    pub fn of(&self, hosts: &[Address]) -> Option<&Primary> {
        self.decided.get(hosts)
    }

    /// The primaries of lists in which another host accepts writes, too: each is to be asked whether it still does.
    pub fn contested(&self) -> impl Iterator<Item = &Arc<Address>> {
        self.contested.keys().filter_map(|hosts| self.decided.get(hosts)?.host())
    }

    /// All decisions.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<[Address]>, &Primary)> {
        self.decided.iter()
    }

    /// Notes what the prober knows of a host.
    pub fn note_origin(&mut self, host: &Address, origin: Origin) {
        if self.decided.keys().any(|hosts| hosts.contains(host)) {
            self.origins.insert(host.clone(), origin);
        }
    }

    /// Notes a hint: a host is the primary now, and so no other host of its lists is; or it is not any more.
    pub fn note_hint(&mut self, now: Time, hint: &Hint) {
        let Hint { host, is_primary, source } = hint;
        let lists: Vec<_> = self.decided.keys().filter(|hosts| hosts.contains(host)).cloned().collect();
        if lists.is_empty() {
            return;
        }
        let is_known = |other: &Address| lists.iter().any(|hosts| hosts.contains(other));
        self.overruled.retain(|_, until| now < *until);
        let holds = match source {
            HintSource::Console => {
                let hosts = lists.iter().flat_map(|hosts| hosts.iter());
                self.overruled.extend(hosts.map(|host| (host.clone(), now + limits::HINT_HOLDS)));
                limits::HINT_HOLDS
            }
            HintSource::Patroni { .. } if self.overruled.contains_key(host) => return,
            HintSource::Patroni { age, .. } => limits::LEADER_HOLDS.saturating_sub(*age),
        };
        if holds.is_zero() {
            return;
        }
        if *is_primary {
            self.hints.retain(|other, hint| !(hint.is_primary && is_known(other)));
        }
        let is_by_console = matches!(source, HintSource::Console);
        self.hints.insert(host.clone(), KnownHint { is_primary: *is_primary, until: now + holds, is_by_console });
    }

    /// Takes a decision of the process whose place this one takes: it has seen promotions that this one has not. If hosts were added or removed
    /// meanwhile, it counts as it does after a reload. The result is the decisions that have changed.
    pub fn inherit(&mut self, hosts: &[Address], primary: &Primary) -> Vec<Decision> {
        let has_same = self.decided.contains_key(hosts);
        let mut decisions = Vec::new();
        for (list, known) in &mut self.decided {
            let inherited = if **list == *hosts {
                primary.clone()
            } else if has_same || !list.iter().any(|host| hosts.contains(host)) {
                continue;
            } else if primary.incumbent().is_some_and(|host| list.contains(host)) {
                primary.clone()
            } else if *known == Primary::default() {
                primary.without_host()
            } else {
                continue;
            };
            // Observations here may show more than was seen there.
            let is_later = matches!((known.timeline, inherited.timeline), (Some(own), Some(other)) if own > other);
            let is_less = inherited.writes == Writes::Unknown && known.writes != Writes::Unknown;
            if *known == inherited || is_later || is_less {
                continue;
            }
            known.clone_from(&inherited);
            decisions.push(Decision { hosts: Arc::clone(list), primary: inherited, why: Why::Settled });
        }
        self.note_disputes();
        decisions
    }

    /// Follows a decision of the coordinator's. The settings here may be older than those there. Whether it is another one.
    pub fn follow(&mut self, decision: &Decision) -> bool {
        let known = self.decided.entry(Arc::clone(&decision.hosts)).or_default();
        let is_new = *known != decision.primary;
        *known = decision.primary.clone();
        self.note_disputes();
        is_new
    }

    /// Something was observed of `host`: decides anew where that matters.
    pub fn decide(
        &mut self,
        now: Time,
        host: &Address,
        observed: &dyn Fn(&Address) -> Upstream,
        policy: SplitBrain,
    ) -> Vec<Decision> {
        let mut decisions = Vec::new();
        self.hints.retain(|_, hint| now < hint.until);
        for (hosts, known) in self.decided.iter_mut().filter(|(hosts, _)| hosts.contains(host)) {
            let candidates = candidates(hosts, known.incumbent(), (&self.origins, &self.hints), observed);
            // A standby that accepts writes later has been promoted.
            known.passed_over.retain(|(host, _)| observed(host).role() != Some(HostRole::Standby));
            let may_be_back = known.writes == Writes::Disputed
                && !candidates.iter().any(|candidate| candidate.hinted == Some(true))
                && hosts.iter().any(|host| {
                    let upstream = observed(host);
                    let has_failed = matches!(upstream.state, HostState::Failed { .. });
                    has_failed && now < upstream.since + limits::DISPUTE_LASTS
                });
            let epoch = known.epoch;
            let mut contested = self.contested.remove(hosts);
            // One of those that accept writes has refused a connection: that ends no dispute.
            if !may_be_back && let Some(why) = decide(now, known, &mut contested, candidates, (observed, policy)) {
                pass_over_absent(known, hosts, (&self.origins, &self.hints), observed);
                if known.epoch != epoch && epoch > 0 {
                    self.hints.retain(|host, _| !hosts.contains(host));
                }
                decisions.push(Decision { hosts: Arc::clone(hosts), primary: known.clone(), why });
            }
            if let Some(since) = contested {
                self.contested.insert(Arc::clone(hosts), since);
            }
            if let Some(why) = find_foreign(hosts, known, &self.origins) {
                decisions.push(Decision { hosts: Arc::clone(hosts), primary: known.clone(), why });
            }
        }
        self.note_disputes();
        decisions
    }
}

/// Notes which hosts belong to another database system than the primary. Why the decision is another one, if it is.
fn find_foreign(hosts: &[Address], known: &mut Primary, origins: &BTreeMap<Address, Origin>) -> Option<Why> {
    let is_foreign = |host: &&Address| {
        let own = origins.get(host).and_then(|origin| origin.system);
        matches!((own, known.system), (Some(own), Some(system)) if own != system)
    };
    let found: Vec<Arc<Address>> = hosts.iter().filter(is_foreign).map(|host| Arc::new(host.clone())).collect();
    if found == known.foreign {
        return None;
    }
    let new: Box<[_]> = found.iter().filter(|host| !known.foreign.contains(host)).cloned().collect();
    known.foreign = found;
    // One of several is repaired: the others still are.
    let hosts = if new.is_empty() { known.foreign.clone().into() } else { new };
    Some(Why::Foreign { hosts })
}

/// The hosts that report themselves as the primary. A server with two addresses counts once, by that of the `incumbent`, or else by the first.
fn candidates(
    hosts: &[Address],
    incumbent: Option<&Arc<Address>>,
    (origins, hints): Known<'_>,
    observed: &dyn Fn(&Address) -> Upstream,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut seen: Vec<&Origin> = Vec::new();
    let is_incumbent = |host: &&Address| incumbent.is_some_and(|incumbent| **incumbent == **host);
    let (first, rest): (Vec<&Address>, Vec<&Address>) = hosts.iter().partition(is_incumbent);
    for host in first.into_iter().chain(rest).filter(|host| observed(host).role() == Some(HostRole::Primary)) {
        let origin = origins.get(host);
        if origin.is_some_and(|origin| seen.iter().any(|other| origin.is_same_server(other))) {
            continue;
        }
        seen.extend(origin);
        let is_current = origin.is_some_and(|origin| origin.role == HostRole::Primary);
        let timeline = origin.and_then(|origin| origin.timeline);
        found.push(Candidate {
            host: Arc::new(host.clone()),
            since: observed(host).since,
            seen_at: observed(host).at,
            system: origin.and_then(|origin| origin.system),
            timeline: timeline.filter(|_| is_current),
            above: timeline.filter(|_| !is_current),
            hinted: hints.get(host).map(|hint| hint.is_primary),
            is_by_console: hints.get(host).is_some_and(|hint| hint.is_by_console),
        });
    }
    found
}

/// Changes a decision. Why, if it was changed. `contested`: since when the primary of before is to be asked whether it still accepts writes.
fn decide(
    now: Time,
    known: &mut Primary,
    contested: &mut Option<Time>,
    mut candidates: Vec<Candidate>,
    (observed, policy): (&dyn Fn(&Address) -> Upstream, SplitBrain),
) -> Option<Why> {
    let incumbent = known.incumbent().cloned();
    if let Some(own) = candidates.iter().find(|candidate| incumbent.as_ref() == Some(&candidate.host))
        && !own.may_be_of(known.system)
    {
        // The incumbent was upgraded or made anew at the same address.
        (known.system, known.timeline) = (own.system, own.timeline);
    }
    let is_incumbent = |candidate: &Candidate| incumbent.as_ref() == Some(&candidate.host);
    candidates.retain(|candidate| candidate.may_be_of(known.system));
    let latest = known.latest();
    candidates.retain(|candidate| is_incumbent(candidate) || !candidate.is_to_be_asked(now, latest));
    let at = incumbent.as_ref().and_then(|host| candidates.iter().position(|candidate| candidate.host == *host));
    if let Some(at) = at {
        let own = candidates.swap_remove(at);
        return keep_or_dispute(now, known, contested, own, candidates, policy);
    }
    let was_contested = contested.take().is_some();
    match incumbent {
        None => choose_first(now, known, candidates, policy),
        Some(before) => {
            let was = lost(observed(&before));
            choose_successor(now, known, (&before, was), was_contested, candidates, policy)
        }
    }
}

/// The primary of before still accepts writes: it keeps them, unless others accept them, too.
fn keep_or_dispute(
    now: Time,
    known: &mut Primary,
    contested: &mut Option<Time>,
    own: Candidate,
    candidates: Vec<Candidate>,
    policy: SplitBrain,
) -> Option<Why> {
    let is_disputed = known.writes == Writes::Disputed;
    let was_contested = contested.take();
    known.timeline = own.timeline.or(known.timeline);
    known.system = own.system.or(known.system);
    let demoted: Vec<&Candidate> = candidates.iter().filter(|other| other.is_demoted()).collect();
    pass_over(known, &demoted);
    let rivals: Vec<Candidate> = candidates
        .into_iter()
        .filter(|rival| !rival.is_older(own.timeline) && rival.hinted != Some(false))
        .filter(|rival| is_rival(known, &own, rival))
        .collect();
    if own.hinted == Some(true) {
        if own.is_by_console {
            pass_over(known, &rivals.iter().collect::<Vec<_>>());
        }
        return is_disputed.then(|| settle(now, known, &own.host));
    }
    if rivals.is_empty() {
        return is_disputed.then(|| settle(now, known, &own.host));
    }
    let is_only = rivals.len() == 1 && own.is_demoted();
    if let Some(named) = rivals.iter().find(|rival| is_only || rival.hinted == Some(true)) {
        let why = succeed(now, known, named, Loss::Hinted);
        if is_only || named.is_by_console {
            let others = rivals.iter().filter(|rival| rival.host != named.host);
            pass_over(known, &others.chain([&own]).collect::<Vec<_>>());
        }
        return Some(why);
    }
    let highest = |rival: &&Candidate| rival.timeline > own.timeline;
    match policy {
        SplitBrain::Stay => is_disputed.then(|| settle(now, known, &own.host)),
        SplitBrain::HighestTimeline => match rivals.iter().filter(highest).max_by_key(|rival| rival.timeline) {
            Some(rival) => Some(succeed(now, known, rival, Loss::Older)),
            None => is_disputed.then(|| settle(now, known, &own.host)),
        },
        SplitBrain::Hold if is_disputed => None,
        SplitBrain::Hold => {
            let since = was_contested.unwrap_or(now);
            if own.seen_at < since && now < since + limits::CONTEST_LASTS && !own.is_demoted() {
                *contested = Some(since);
                return None;
            }
            Some(dispute(now, known, rivals.iter().map(|rival| &rival.host).chain([&own.host])))
        }
    }
}

/// No primary was known before. Of several candidates the one is chosen that has been seen for longest, unless timelines are known.
fn choose_first(now: Time, known: &mut Primary, mut candidates: Vec<Candidate>, policy: SplitBrain) -> Option<Why> {
    let is_disputed = known.writes == Writes::Disputed;
    if let Some(named) = candidates.iter().find(|candidate| candidate.hinted == Some(true)) {
        let why = begin(now, known, named);
        named.pass_over_others(known, &candidates);
        return Some(why);
    }
    let latest = known.latest();
    candidates.retain(|candidate| !candidate.is_older(latest) && candidate.hinted != Some(false));
    match &candidates[..] {
        [] => None,
        [only] => Some(begin(now, known, only)),
        several if several.iter().any(|one| one.timeline.is_none()) => {
            let first = several.iter().min_by_key(|one| one.since).expect("there are several");
            Some(begin(now, known, first))
        }
        several => match policy {
            SplitBrain::Hold if is_disputed => None,
            SplitBrain::Hold => Some(dispute(now, known, several.iter().map(|one| &one.host))),
            SplitBrain::Stay | SplitBrain::HighestTimeline => {
                let highest = several.iter().max_by_key(|one| one.timeline).expect("there are several");
                Some(begin(now, known, highest))
            }
        },
    }
}

/// The primary of before is lost. `was_contested`: it was not asked any more whether it accepts writes beside another one.
fn choose_successor(
    now: Time,
    known: &mut Primary,
    (before, was): (&Arc<Address>, Loss),
    was_contested: bool,
    mut candidates: Vec<Candidate>,
    policy: SplitBrain,
) -> Option<Why> {
    let is_disputed = known.writes == Writes::Disputed;
    let latest = known.latest();
    let is_named = |candidate: &&Candidate| candidate.hinted == Some(true) && !candidate.is_older(latest);
    if let Some(named) = candidates.iter().find(is_named) {
        let why = succeed(now, known, named, was);
        named.pass_over_others(known, &candidates);
        return Some(why);
    }
    let demoted: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.is_demoted()).collect();
    pass_over(known, &demoted);
    candidates.retain(|candidate| !candidate.is_demoted() && !known.passes_over(candidate));
    // One of two does not accept writes any more: the other one may be on the same timeline.
    let is_as_late = |candidate: &Candidate| !candidate.is_older(latest) && candidate.timeline.is_some();
    let was_one_of_two = is_disputed || was_contested && was != Loss::Failed;
    let follows = |candidate: &Candidate| candidate.may_follow(latest) || was_one_of_two && is_as_late(candidate);
    if was_contested && !candidates.iter().any(follows) && candidates.iter().any(is_as_late) {
        // The one before may be restarted where it is.
        return Some(dispute(now, known, candidates.iter().map(|candidate| &candidate.host).chain([before])));
    }
    candidates.retain(follows);
    let highest = candidates.iter().map(|candidate| candidate.timeline).max()?;
    let mut best = candidates.iter().filter(|candidate| candidate.timeline == highest);
    match (best.next(), best.next()) {
        (Some(one), None) => Some(succeed(now, known, one, was)),
        // Two standbys were promoted, each by itself.
        _ if policy == SplitBrain::Hold => {
            (!is_disputed).then(|| dispute(now, known, candidates.iter().map(|candidate| &candidate.host)))
        }
        _ => candidates.iter().min_by_key(|one| one.since).map(|one| succeed(now, known, one, was)),
    }
}

/// Whether the primary of before loses the writes to this host, or to nobody, unless a hint or `split_brain` decides: it keeps them against a host
/// of unknown timeline, and one that an administrator has passed over.
fn is_rival(known: &Primary, own: &Candidate, rival: &Candidate) -> bool {
    let are_known = rival.at_least().is_some() && own.timeline.is_some();
    let is_named = rival.hinted == Some(true) || own.is_demoted();
    (are_known || is_named) && !known.passes_over(rival)
}

/// An administrator has named the primary: the others that accept writes get none, also when the hint counts no more.
fn pass_over(known: &mut Primary, others: &[&Candidate]) {
    for other in others {
        known.passed_over.retain(|(host, _)| *host != other.host);
        known.passed_over.push((Arc::clone(&other.host), other.at_least()));
    }
}

/// An administrator has named the primary: hosts that are down at that moment, and may come back as they were, get no writes either.
fn pass_over_absent(
    known: &mut Primary,
    hosts: &[Address],
    (origins, hints): Known<'_>,
    observed: &dyn Fn(&Address) -> Upstream,
) {
    let is_named = |host: &Address| hints.get(host).is_some_and(|hint| hint.is_primary && hint.is_by_console);
    let Some(chosen) = known.host().filter(|host| is_named(host)).cloned() else { return };
    let is_down = |host: &&Address| !matches!(observed(host).state, HostState::Alive { .. });
    for host in hosts.iter().filter(|host| **host != *chosen).filter(is_down) {
        let Some(timeline) = origins.get(host).and_then(|origin| origin.timeline) else { continue };
        known.passed_over.retain(|(other, _)| **other != *host);
        known.passed_over.push((Arc::new(host.clone()), Some(timeline)));
    }
}

fn lost(before: Upstream) -> Loss {
    match before.state {
        HostState::Failed { .. } => Loss::Failed,
        HostState::Silent => Loss::Silent,
        HostState::Alive { role: Some(HostRole::Standby) } => Loss::Standby,
        HostState::Alive { .. } => Loss::Unknown,
    }
}

fn choose(now: Time, known: &mut Primary, chosen: &Candidate) {
    let system = chosen.system.or(known.system);
    let later_than = chosen.above.max(known.timeline).max(known.later_than);
    known.passed_over.retain(|(host, _)| *host != chosen.host);
    *known = Primary {
        writes: Writes::At(Arc::clone(&chosen.host)),
        epoch: known.epoch + 1,
        since: now,
        before: None,
        system,
        timeline: chosen.timeline,
        later_than,
        foreign: std::mem::take(&mut known.foreign),
        passed_over: std::mem::take(&mut known.passed_over),
    };
}

fn begin(now: Time, known: &mut Primary, chosen: &Candidate) -> Why {
    choose(now, known, chosen);
    Why::First
}

fn succeed(now: Time, known: &mut Primary, chosen: &Candidate, was: Loss) -> Why {
    let before = known.incumbent().cloned();
    choose(now, known, chosen);
    before.map_or(Why::First, |before| Why::Successor { before, was })
}

/// The primary of before keeps the writes, or has them again.
fn settle(now: Time, known: &mut Primary, host: &Arc<Address>) -> Why {
    (known.writes, known.before, known.since) = (Writes::At(Arc::clone(host)), None, now);
    Why::Settled
}

fn dispute<'h>(now: Time, known: &mut Primary, hosts: impl Iterator<Item = &'h Arc<Address>>) -> Why {
    let before = known.incumbent().cloned();
    (known.writes, known.before, known.since) = (Writes::Disputed, before, now);
    Why::Two { hosts: hosts.cloned().collect() }
}

#[cfg(test)]
#[path = "primaries_tests.rs"]
mod tests;
