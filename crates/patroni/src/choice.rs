//! Which member is believed. A value; nothing is asked here.
//!
//! In this order: a member that has reached the store of the cluster's state within [`STALE`] (or works without it in failsafe mode, since all
//! members agree), then one of which that is not known, then all others; the highest timeline; the one that has reached it last. So the answer of
//! an old leader that is cut off, and believes that it still leads, does not count against those who have another one.
//!
//! Ages are by each member's own clock: clocks of different machines are not compared.

use std::cmp::Reverse;
use std::time::Duration;

use crate::view::{ClusterView, Status};

/// A leader that has not reached the store for Patroni's default `ttl` leads no more.
const STALE: Duration = Duration::from_secs(30);

/// The answer of a member.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The host of its URL.
    pub(crate) host: String,
    pub(crate) view: ClusterView,
    /// `None`: not known.
    pub(crate) status: Option<Status>,
}

impl Answer {
    fn scope(&self) -> Option<&str> {
        self.view.scope.as_deref().or_else(|| self.status.as_ref()?.scope.as_deref())
    }

    fn freshness(&self) -> Freshness {
        match &self.status {
            Some(Status { is_failsafe: true, .. }) => Freshness::Fresh,
            Some(Status { age: Some(age), .. }) if *age > STALE => Freshness::Stale,
            Some(Status { age: Some(_), .. }) => Freshness::Fresh,
            Some(Status { age: None, .. }) | None => Freshness::Unknown,
        }
    }

    /// In failsafe mode all members agree now, without the store.
    fn age(&self) -> Option<Duration> {
        let status = self.status.as_ref()?;
        if status.is_failsafe { Some(Duration::ZERO) } else { status.age }
    }

    fn rank(&self) -> impl Ord + use<> {
        let age = self.status.as_ref().and_then(|status| status.age);
        (self.freshness(), self.view.timeline, Reverse(age.unwrap_or(Duration::MAX)))
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Freshness {
    Stale,
    Unknown,
    Fresh,
}

/// The result of all answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// `None`: nobody is believed.
    pub(crate) view: Option<ClusterView>,
    /// How long ago the member with this view has reached the store. `None`: not known.
    pub(crate) age: Option<Duration>,
    /// Why an answer does not count, by its place.
    pub(crate) refused: Vec<(usize, String)>,
}

/// Picks an answer of each member's latest. `known`: the scope and the timeline that were seen before, and not long ago.
pub(crate) fn choose(answers: &[Answer], known: Option<(&str, u64)>) -> Choice {
    let mut choice = Choice::default();
    let scope = known.map(|(scope, _)| scope).or_else(|| usual_scope(answers));
    let mut best: Option<&Answer> = None;
    for (at, answer) in answers.iter().enumerate() {
        if let (Some(own), Some(scope)) = (answer.scope(), scope)
            && own != scope
        {
            choice.refused.push((at, format!("it belongs to the Patroni cluster {own}, the others to {scope}")));
            continue;
        }
        let timeline = answer.view.timeline.unwrap_or_default();
        if let Some((_, known)) = known.filter(|(_, known)| timeline < *known) {
            choice.refused.push((at, format!("it is at timeline {timeline}, and {known} was seen before")));
            continue;
        }
        // The first of equals.
        if best.is_none_or(|best| best.rank() < answer.rank()) {
            best = Some(answer);
        }
    }
    choice.age = best.and_then(Answer::age);
    choice.view = best.map(|best| {
        let mut view = best.view.clone();
        view.scope = best.scope().map(str::to_owned);
        view.is_failsafe = best.status.as_ref().is_some_and(|status| status.is_failsafe);
        if best.freshness() == Freshness::Stale {
            view.leader = None;
        }
        for answer in answers {
            let name = answer.status.as_ref().and_then(|status| status.name.as_ref());
            if let Some(member) = view.members.iter_mut().find(|member| Some(&member.name) == name) {
                member.asked_at = Some(answer.host.clone());
            }
        }
        view
    });
    choice
}

/// The one that most have; of equals the one that comes first.
fn usual_scope(answers: &[Answer]) -> Option<&str> {
    let count = |scope: &str| answers.iter().filter(|answer| answer.scope() == Some(scope)).count();
    // `max_by_key` takes the last of equals.
    answers.iter().rev().filter_map(Answer::scope).max_by_key(|scope| count(scope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Member;

    /// An answer: `host leader timeline age`, with `-` for none, and `scope=…`, `failsafe`, `silent` (no status) behind these.
    fn answer(text: &str) -> Answer {
        let words: Vec<&str> = text.split(' ').collect();
        let known = |word: &str| Some(word.to_owned()).filter(|word| word != "-");
        let has = |word: &str| words.contains(&word);
        let scope = words.iter().find_map(|word| word.strip_prefix("scope=")).map(str::to_owned);
        let leader = known(words[1]);
        let member = |name: &str| Member {
            name: name.to_owned(),
            role: if leader.as_deref() == Some(name) { "leader" } else { "replica" }.to_owned(),
            ..Member::default()
        };
        let members = ["a", "b", "c"].map(member).to_vec();
        let timeline = known(words[2]).map(|number| number.parse().expect("a number"));
        let age = known(words[3]).map(|number| Duration::from_secs(number.parse().expect("a number")));
        let status = Status {
            name: Some(words[0].to_owned()),
            age,
            is_failsafe: has("failsafe"),
            scope: Some("shop".to_owned()),
        };
        Answer {
            host: format!("host-{}", words[0]),
            view: ClusterView { scope, leader, timeline, members, ..ClusterView::default() },
            status: (!has("silent")).then_some(status),
        }
    }

    fn leader_of(answers: &[&str], known: Option<(&str, u64)>) -> Option<Option<String>> {
        let answers: Vec<Answer> = answers.iter().map(|text| answer(text)).collect();
        choose(&answers, known).view.map(|view| view.leader)
    }

    #[test]
    fn the_freshest_answer_wins() {
        let table: [(&[&str], Option<&str>); 13] = [
            (&["a a 1 3", "b a 1 9", "c a 1 0"], Some("a")),
            // The old leader is cut off: the others have none yet, and then a new one.
            (&["a a 1 12", "b - 1 4", "c - 1 2"], None),
            (&["a a 1 25", "b b 2 4", "c b 2 2"], Some("b")),
            (&["b b 2 4", "a a 1 0"], Some("b")),
            // A member that has not reached the store for long counts less than one that has, also on a later timeline.
            (&["a a 9 31", "b b 2 30"], Some("b")),
            (&["a a 1 31", "b b 1 - silent"], Some("b")),
            (&["a a 1 - silent", "b b 1 30"], Some("b")),
            // Alone it has no leader.
            (&["a a 1 31"], None),
            (&["a a 1 30"], Some("a")),
            (&["a a 1 300 failsafe", "b a 1 300"], Some("a")),
            // Nothing is known of its age: Patroni before 3.0, or a PostgreSQL that hangs.
            (&["a a 1 -"], Some("a")),
            (&["a a 1 - silent", "b b 2 - silent"], Some("b")),
            (&["a a - 0"], Some("a")),
        ];
        for (answers, expected) in table {
            let found = leader_of(answers, None).expect("somebody is believed");
            assert_eq!(found.as_deref(), expected, "{answers:?}");
        }
        assert_eq!(leader_of(&[], None), None);
    }

    #[test]
    fn the_age_of_a_view_is_its_members() {
        let table: [(&[&str], Option<u64>); 5] = [
            (&["a a 1 3", "b a 1 9"], Some(3)),
            (&["a a 1 31"], Some(31)),
            (&["a a 1 300 failsafe"], Some(0)),
            (&["a a 1 -"], None),
            (&["a a 1 - silent"], None),
        ];
        for (answers, expected) in table {
            let answered: Vec<Answer> = answers.iter().map(|text| answer(text)).collect();
            assert_eq!(choose(&answered, None).age, expected.map(Duration::from_secs), "{answers:?}");
        }
    }

    #[test]
    fn a_timeline_that_was_seen_before_is_not_gone_back_to() {
        let found = choose(&[answer("a a 1 2")], Some(("shop", 2)));
        assert_eq!(found.view, None);
        assert_eq!(found.refused, [(0, "it is at timeline 1, and 2 was seen before".to_owned())]);
        assert_eq!(leader_of(&["a a 1 2", "b b 2 9"], Some(("shop", 2))), Some(Some("b".to_owned())));
    }

    #[test]
    fn a_member_of_another_cluster_does_not_count() {
        let found = choose(&[answer("a a 9 0 scope=other"), answer("b b 1 0"), answer("c b 1 0 scope=shop")], None);
        assert_eq!(found.view.and_then(|view| view.leader).as_deref(), Some("b"));
        assert_eq!(found.refused, [(0, "it belongs to the Patroni cluster other, the others to shop".to_owned())]);
        // Each scope has one member: the first in the list wins.
        let two = [answer("a a 1 0 scope=other"), answer("b b 9 0")];
        assert_eq!(choose(&two, None).view.and_then(|view| view.leader).as_deref(), Some("a"));
        // Unless the other one was seen before.
        assert_eq!(choose(&two, Some(("shop", 1))).view.and_then(|view| view.leader).as_deref(), Some("b"));
    }

    #[test]
    fn a_member_has_the_host_of_its_url_as_its_other_name() {
        let view = choose(&[answer("b a 1 0"), answer("a a 1 0")], None).view.expect("both are believed");
        let names = view.members.iter().map(|member| member.asked_at.as_deref());
        assert_eq!(names.collect::<Vec<_>>(), [Some("host-a"), Some("host-b"), None]);
    }
}
