//! The answers of a member of a Patroni cluster, as values: `GET /cluster` and `GET /patroni`. A value; nothing is asked here.
//!
//! Fields that are not known are passed over, since each version of Patroni has others. Without a list of members it is no Patroni.

use std::time::Duration;

use jiff::fmt::rfc2822;
use serde_json::Value;

/// Members of a cluster that are read.
const MEMBERS_MAX: usize = 100;
/// Characters of a name or a word that are read.
const WORD_MAX: usize = 255;

/// The cluster as one of its members sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// The cluster's name. Patroni before 3.0 has it in `GET /patroni` only.
    pub scope: Option<String>,
    /// The name of the member that leads: the primary, or about to be promoted. `None`: nobody does, or nobody knows.
    pub leader: Option<String>,
    /// The highest that a member has.
    pub timeline: Option<u64>,
    pub members: Vec<Member>,
    /// Patroni's pause: it fails nothing over.
    pub is_paused: bool,
    /// Failsafe mode: the leader works without the store of the cluster's state, since all members agree.
    pub is_failsafe: bool,
}

/// A PostgreSQL with its Patroni.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// The address of PostgreSQL in Patroni's configuration: `None` until it has started once.
    pub host: Option<String>,
    pub port: Option<u16>,
    /// The host of the URL at which this member was asked: its other name.
    pub asked_at: Option<String>,
    /// `leader`, `standby_leader`, `sync_standby`, `quorum_standby`, `replica`.
    pub role: String,
    /// `running`, `streaming`, `stopped` and the like.
    pub state: String,
    pub timeline: Option<u64>,
    /// In bytes, behind the leader.
    pub lag: Option<u64>,
}

impl ClusterView {
    /// The member that leads.
    #[must_use]
    pub fn leader(&self) -> Option<&Member> {
        let leader = self.leader.as_ref()?;
        self.members.iter().find(|member| member.name == *leader)
    }
}

/// The state of a member, by its own answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) scope: Option<String>,
    pub(crate) name: Option<String>,
    /// How long ago it has last reached the store of the cluster's state.
    pub(crate) age: Option<Duration>,
    pub(crate) is_failsafe: bool,
}

/// The answer to `GET /cluster`.
///
/// # Errors
/// It is none, in words.
pub(crate) fn cluster(body: &[u8]) -> Result<ClusterView, String> {
    let value = json(body)?;
    let list = value.get("members").and_then(Value::as_array).ok_or("the answer has no members: it is no Patroni")?;
    let members: Vec<Member> = list.iter().take(MEMBERS_MAX).filter_map(member).collect();
    let leader = members.iter().find(|member| member.role == "leader").map(|member| member.name.clone());
    let timeline = members.iter().filter_map(|member| member.timeline).max();
    let is_paused = value.get("pause").and_then(Value::as_bool).unwrap_or_default();
    Ok(ClusterView { scope: word(&value, "scope"), leader, timeline, members, is_paused, is_failsafe: false })
}

/// The answer to `GET /patroni`, with its header `Date`: time and date are of the same clock.
///
/// # Errors
/// It is none, in words.
pub(crate) fn status(body: &[u8], date: Option<&str>) -> Result<Status, String> {
    let value = json(body)?;
    let own = value.get("patroni").ok_or("the answer has no part of Patroni: it is no Patroni")?;
    let is_failsafe = value.get("failsafe_mode_is_active").and_then(Value::as_bool).unwrap_or_default();
    let seen = value.get("dcs_last_seen").and_then(Value::as_i64);
    let now = date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp().as_second());
    // A second before it was asked counts as now: the header has whole seconds.
    let age = seen
        .zip(now)
        .map(|(seen, now)| Duration::from_secs(u64::try_from(now.saturating_sub(seen)).unwrap_or_default()));
    Ok(Status { scope: word(own, "scope"), name: word(own, "name"), age, is_failsafe })
}

fn json(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))
}

/// `None`: it has no name.
fn member(value: &Value) -> Option<Member> {
    let port = value.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    Some(Member {
        name: word(value, "name")?,
        host: word(value, "host"),
        port: port.filter(|port| *port > 0),
        asked_at: None,
        role: word(value, "role").unwrap_or_default(),
        state: word(value, "state").unwrap_or_default(),
        timeline: value.get("timeline").and_then(Value::as_u64),
        // "unknown" while PostgreSQL does not run.
        lag: value.get("lag").and_then(Value::as_u64),
    })
}

/// A text that can be shown in a line of the log.
fn word(value: &Value, field: &str) -> Option<String> {
    let text = value.get(field).and_then(Value::as_str)?;
    let fits = !text.is_empty() && text.chars().count() <= WORD_MAX && !text.contains(char::is_control);
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Patroni 4.1 answers.
    const CLUSTER: &str = r#"{"members": [
        {"name": "a", "role": "leader", "state": "running", "api_url": "http://10.0.0.1:8008/patroni", "host": "10.0.0.1", "port": 5432, "timeline": 7},
        {"name": "b", "role": "sync_standby", "state": "streaming", "api_url": "http://10.0.0.2:8008/patroni", "host": "10.0.0.2", "port": 5432, "timeline": 7,
         "receive_lag": 0, "receive_lsn": "0/4000148", "replay_lag": 0, "replay_lsn": "0/4000148", "lag": 16, "lsn": "0/4000148"},
        {"name": "c", "role": "replica", "state": "starting", "api_url": "http://10.0.0.3:8008/patroni", "lag": "unknown"}],
        "pause": true, "scope": "shop", "scheduled_switchover": {"at": "2026-01-01T00:00:00+00:00"}}"#;

    #[test]
    fn an_answer_of_the_cluster_is_read() {
        let view = cluster(CLUSTER.as_bytes()).expect("it is one");
        assert_eq!((view.scope.as_deref(), view.timeline, view.is_paused), (Some("shop"), Some(7), true));
        let leader = view.leader().expect("a leads");
        assert_eq!((&*leader.name, leader.host.as_deref(), leader.port), ("a", Some("10.0.0.1"), Some(5432)));
        let others: Vec<_> = view.members[1..].iter().map(|member| (&*member.role, member.lag, member.port)).collect();
        assert_eq!(others, [("sync_standby", Some(16), Some(5432)), ("replica", None, None)]);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let table: [(&[u8], &str); 7] = [
            (b"", "the answer is no JSON: EOF while parsing a value at line 1 column 0"),
            (b"<html>", "the answer is no JSON: expected value at line 1 column 1"),
            (b"{\"members\": [", "the answer is no JSON: EOF while parsing a list at line 1 column 13"),
            (b"\xff\xfe", "the answer is no JSON: expected value at line 1 column 1"),
            (b"[]", "the answer has no members: it is no Patroni"),
            (b"{}", "the answer has no members: it is no Patroni"),
            (b"{\"members\": 3}", "the answer has no members: it is no Patroni"),
        ];
        for (body, expected) in table {
            assert_eq!(cluster(body), Err(expected.to_owned()), "{}", String::from_utf8_lossy(body));
        }
        assert_eq!(status(b"{}", None), Err("the answer has no part of Patroni: it is no Patroni".to_owned()));
    }

    #[test]
    fn fields_of_another_kind_are_as_if_they_were_not_there() {
        let body = br#"{"members": [3, {"role": "leader"}, {"name": "a\nb", "role": "leader"},
            {"name": "c", "role": 5, "port": 70000, "host": "", "timeline": -1, "lag": 1.5}], "pause": "yes", "scope": 1}"#;
        let view = cluster(body).expect("it has members");
        let only = Member { name: "c".to_owned(), ..Member::default() };
        assert_eq!(view, ClusterView { members: vec![only], ..ClusterView::default() });
        assert_eq!(view.leader(), None);
    }

    #[test]
    fn a_member_tells_how_long_ago_it_has_reached_the_store() {
        let date = Some("Mon, 30 Nov 2026 12:00:30 GMT");
        let seen = |seconds: i64| {
            format!(
                r#"{{"state": "running", "dcs_last_seen": {seconds}, "patroni": {{"version": "4.1.5", "scope": "shop", "name": "a"}}}}"#
            )
        };
        let noon = 1_796_040_000;
        let age = |seconds| status(seen(seconds).as_bytes(), date).expect("it is one").age.map(|age| age.as_secs());
        assert_eq!((age(noon), age(noon + 29), age(noon + 31)), (Some(30), Some(1), Some(0)));
        let found = status(seen(noon).as_bytes(), None).expect("it is one");
        assert_eq!((found.age, found.scope.as_deref(), found.name.as_deref()), (None, Some("shop"), Some("a")));
        assert_eq!(status(seen(noon).as_bytes(), Some("noon")).expect("it is one").age, None);
        let failsafe = br#"{"failsafe_mode_is_active": true, "patroni": {}}"#;
        assert!(status(failsafe, date).expect("it is one").is_failsafe);
    }
}
