//! The lock tree of a second, as it is kept: each blocker is a line, and waiters that are equal are one line together.
//!
//! Waiters are equal if they wait for the same lock behind the same blocker, nobody has a place behind them in the tree, and the same is kept of whose they
//! are: pool, class, tags of `observe_tags`, and statement. Those that want to update one row are in each other's way, one before the next: their order
//! in the queue is not kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use observe::pid_shown;
use serde::{Deserialize, Serialize};

use super::keys::{Key, KeyId, Who};
use crate::moment::{Moment, Row};
use crate::tree::{Branch, tree};

/// Lines that are kept of a second. What has no line is most often far from the roots, and is counted behind them.
const LINES_MAX: usize = 64;

/// Equal waiters of which the ids are kept: those that have waited longest.
const MEMBERS_MAX: usize = 20;

/// A line of the tree.
#[derive(Clone, Debug)]
pub struct LockLine {
    /// Of [`Key`] its owner alone counts.
    pub key: KeyId,
    pub seen: LockSeen,
}

/// What is kept of a line besides its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockSeen {
    /// 0: it waits for no lock.
    pub depth: u16,
    /// Equal waiters that are this line; 1: a single backend.
    pub count: u32,
    /// The backends of this line, the longest waiting first.
    pub members: Box<[LockMember]>,
    /// How many wait behind it, directly or through others.
    pub behind: u32,
    /// `db1:5432`.
    pub server: Arc<str>,
    /// Empty: its members have several.
    pub application_name: Box<str>,
    /// All tags of a single backend: its key has those of `observe_tags`.
    pub tags: Vec<(Box<str>, Box<str>)>,
    pub waits: Option<LockText>,
    /// The locks that it has and that others wait for. Empty with others behind it: it is in their way by its place in the queue.
    pub holds: Box<[LockText]>,
    /// PostgreSQL's word.
    pub state: Box<str>,
    pub transaction: Option<Duration>,
    /// [`Branch::note`].
    pub note: Box<str>,
}

/// One backend.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockMember {
    /// As a person sees it: 0 for a prepared transaction.
    pub pid: i32,
    /// `id` of SHOW CLIENTS.
    pub client: Option<i32>,
    pub waiting_ms: u32,
}

/// A lock, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockText {
    pub mode: Box<str>,
    /// A relation's name, or the kind of thing that it is.
    pub object: Box<str>,
}

/// The attributes that make waiters equal: host, blocker, owner, and the mode and the object of the lock.
type Equal<'m> = (u16, i32, Who, Option<&'m str>, Option<&'m str>);

/// The lines of a moment, with the owner of each.
pub(super) fn lines(moment: &Moment, who: impl Fn(&Row) -> Who) -> Vec<(Who, LockSeen)> {
    let mut lines: Vec<(Who, LockSeen)> = Vec::new();
    // The place of the line.
    let mut equal: BTreeMap<Equal<'_>, usize> = BTreeMap::new();
    let branches = tree(moment);
    for (place, branch) in branches.iter().enumerate() {
        let is_leaf = branches.get(place + 1).is_none_or(|next| next.depth <= branch.depth);
        let owner = branch.row.map(&who).unwrap_or_default();
        let seen = seen(moment, branch, is_leaf);
        let leaf = branch.behind.filter(|_| is_leaf).map(|behind| {
            let object = branch.waits.map(|waiter| &*waiter.object.key);
            (branch.host, behind, owner.clone(), branch.waits.map(|waiter| waiter.mode.name()), object)
        });
        let Some(leaf) = leaf else {
            if lines.len() < LINES_MAX {
                lines.push((owner, seen));
            }
            continue;
        };
        match equal.get(&leaf) {
            Some(place) => lines[*place].1.join(seen),
            None if lines.len() < LINES_MAX => {
                equal.insert(leaf, lines.len());
                lines.push((owner, seen));
            }
            None => {}
        }
    }
    lines
}

impl LockSeen {
    /// One more equal waiter.
    fn join(&mut self, other: LockSeen) {
        self.count += 1;
        // Ids of single requests are no common property.
        self.tags.clear();
        if self.application_name != other.application_name {
            self.application_name = "".into();
        }
        self.transaction = self.transaction.max(other.transaction);
        let mut members = std::mem::take(&mut self.members).into_vec();
        members.extend(other.members);
        members.sort_by_key(|member| (Reverse(member.waiting_ms), member.pid));
        members.truncate(MEMBERS_MAX);
        self.members = members.into();
    }

    /// Bytes.
    pub(super) fn weight(&self) -> usize {
        let locks = self.waits.iter().chain(&self.holds);
        let locks: usize = locks.map(|lock| size_of::<LockText>() + lock.mode.len() + lock.object.len()).sum();
        let tags: usize =
            self.tags.iter().map(|(key, value)| key.len() + value.len() + size_of::<[Box<str>; 2]>()).sum();
        let texts = self.application_name.len() + self.state.len() + self.note.len();
        size_of_val(&*self.members) + tags + texts + locks
    }
}

fn seen(moment: &Moment, branch: &Branch<'_>, is_leaf: bool) -> LockSeen {
    let row = branch.row;
    let waiting = branch.waits.map(|waiter| waiter.waiting);
    let member = LockMember {
        pid: pid_shown(branch.pid),
        client: row.and_then(|row| row.session.as_ref()).map(|session| session.id.serial.0),
        waiting_ms: waiting.map_or(0, |waiting| u32::try_from(waiting.as_millis()).unwrap_or(u32::MAX)),
    };
    let waits = branch.waits.map(|waiter| LockText {
        mode: waiter.mode.name().into(),
        object: waiter.object.name.as_deref().unwrap_or(&waiter.object.kind).into(),
    });
    let holds = branch.holds.iter().map(|(mode, on)| LockText { mode: mode.name().into(), object: (*on).into() });
    let ages = row.and_then(|row| row.backend.as_ref()).map(|backend| backend.ages).unwrap_or_default();
    let own_times = row.and_then(|row| row.session.as_ref()).map(|session| session.times);
    LockSeen {
        depth: u16::try_from(branch.depth).unwrap_or(u16::MAX),
        count: 1,
        members: [member].into(),
        // Behind a leaf there are at most those that come after it in a queue.
        behind: if is_leaf { 0 } else { u32::try_from(branch.count).unwrap_or(u32::MAX) },
        server: Arc::clone(&moment.hosts[usize::from(branch.host)].address),
        application_name: row.and_then(Row::application_name).unwrap_or_default().into(),
        tags: row.into_iter().flat_map(|row| row.tags.iter()).map(|(key, value)| (key.into(), value.into())).collect(),
        waits,
        holds: holds.collect(),
        state: row.and_then(Row::state).unwrap_or_default().into(),
        transaction: ages.transaction.or_else(|| own_times?.transaction),
        note: branch.note(moment).unwrap_or_default().into(),
    }
}

/// The key of a line's owner.
pub(super) fn key(who: Who) -> Key {
    Key { who, class: "".into(), event: "".into(), blocker: None }
}
