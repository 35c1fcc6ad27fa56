//! Wait events: what PostgreSQL says that a pool's servers wait for. The query, its answer, and when it is sent.
//!
//! One row for each thing that is waited for, and one for those that wait for nothing: these compute, or wait for a core. Asked is
//! about this worker's linked servers by their process ids, so nobody else's work is taken for the pool's, and where
//! somebody stands between who has other ids, nothing is said at all.
//!
//! Wants no rights: a role sees what its own backends wait for. Where PostgreSQL refuses (it is older than 9.6, the function is
//! not for everybody), the query is sent again later and later, and nothing else is affected.
//!
//! Does not decide anything, and does not count cores: PostgreSQL does not tell how many it has.
//!
//! //= pg18 monitoring-stats#MONITORING-PG-STAT-ACTIVITY-VIEW

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use units::{ConnId, Time};
use wire::backend::DataRow;

/// Rows of an answer that are kept: the most frequent ones, since it is sorted.
const ROWS_MAX: usize = 12;

/// The query, up to the process ids.
pub const QUESTION: &str = "SELECT a.wait_event_type, a.wait_event, pg_catalog.count(*) \
    FROM pg_catalog.pg_stat_get_activity(NULL::pg_catalog.int4) a WHERE a.pid OPERATOR(pg_catalog.=) ANY ('{";

/// As long as names of events may be: PostgreSQL's own are shorter, an extension's may be anything.
const NAME_LEN_MAX: usize = 63;

/// Answers of one size that are remembered: what is longer ago counts half.
const LOOKS_MAX: u32 = 20;

/// How many waits are named to people.
const NAMED_MAX: usize = 3;

/// After a refusal no query is sent for so long, then twice as long, up to this.
const REFUSED: Duration = Duration::from_secs(60);
const REFUSED_MAX: Duration = Duration::from_secs(3600);

/// What a server waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// For nothing: it computes, or would if it had a core.
    Compute,
    /// For another transaction.
    Lock,
    /// For a moment, for another backend's work on what both share.
    LightLock,
    /// For a disk.
    Io,
    /// For the next statement of its transaction, or for its client to take an answer.
    Client,
    /// For something outside of this PostgreSQL: the end of a sleep, another server by an extension, a synchronous standby.
    Outside,
    /// For other processes that work for it, mostly.
    Other,
}

impl WaitKind {
    //= pg18 monitoring-stats#WAIT-EVENT-TABLE
    fn of(name: Option<&[u8]>, event: Option<&[u8]>) -> WaitKind {
        match (name, event) {
            (None, _) => WaitKind::Compute,
            (Some(b"Lock"), _) => WaitKind::Lock,
            (Some(b"LWLock" | b"LWLockTranche" | b"LWLockNamed" | b"BufferPin"), _) => WaitKind::LightLock,
            (Some(b"IO"), _) => WaitKind::Io,
            (Some(b"Client"), _) => WaitKind::Client,
            (Some(b"Extension"), _)
            | (Some(b"Timeout"), Some(b"PgSleep"))
            | (Some(b"IPC"), Some(b"SyncRep" | b"AppendReady")) => WaitKind::Outside,
            (Some(_), _) => WaitKind::Other,
        }
    }

    /// Whether servers that wait for this have it from something that all servers share, so that more of them wait longer.
    fn is_shared(self) -> bool {
        !matches!(self, WaitKind::Client | WaitKind::Outside)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    kind: WaitKind,
    /// As PostgreSQL names it: `Lock transactionid`; empty if it waits for nothing.
    name: Box<str>,
    count: f64,
}

/// Servers by what they wait for, summed over some looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitCounts {
    rows: Vec<Row>,
    looks: u32,
}

impl WaitCounts {
    /// The query about these.
    pub fn question(pids: impl Iterator<Item = i32>) -> Vec<u8> {
        let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
        format!(
            "{QUESTION}{}}}'::pg_catalog.int4[]) \
             AND a.state OPERATOR(pg_catalog.<>) 'idle'::pg_catalog.text \
             GROUP BY 1, 2 ORDER BY 3 DESC LIMIT {ROWS_MAX}",
            pids.join(",")
        )
        .into_bytes()
    }

    /// A row of the answer: the body of a DataRow. `false`: it is none.
    fn row(&mut self, body: &[u8]) -> bool {
        let Ok(row) = DataRow::decode(body) else { return false };
        let mut values = row.values();
        let (Some(kind), Some(event), Some(Some(count)), None) =
            (values.next(), values.next(), values.next(), values.next())
        else {
            return false;
        };
        let count: Option<u32> = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
        let Some(count) = count.filter(|_| self.rows.len() < ROWS_MAX) else { return false };
        let words = [kind, event].into_iter().flatten().map(name).collect::<Vec<_>>().join(" ");
        self.rows.push(Row { kind: WaitKind::of(kind, event), name: words.into(), count: f64::from(count) });
        true
    }

    /// One look: types, events and numbers of servers.
    #[cfg(test)]
    pub(crate) fn of_rows<'n>(rows: impl Iterator<Item = (Option<&'n str>, Option<&'n str>, u32)>) -> WaitCounts {
        let row = |(kind, event, count): (Option<&str>, Option<&str>, u32)| Row {
            kind: WaitKind::of(kind.map(str::as_bytes), event.map(str::as_bytes)),
            name: [kind, event].into_iter().flatten().collect::<Vec<_>>().join(" ").into(),
            count: f64::from(count),
        };
        WaitCounts { rows: rows.filter(|row| row.2 > 0).map(row).collect(), looks: 1 }
    }

    /// What was seen by others at the same time.
    pub fn beside(&mut self, other: &WaitCounts) {
        self.looks = self.looks.max(other.looks);
        for row in &other.rows {
            match self.rows.iter().position(|own| own.kind == row.kind && own.name == row.name) {
                Some(own) => self.rows[own].count += row.count,
                None if self.rows.len() < 2 * ROWS_MAX => self.rows.push(row.clone()),
                // Of many things each is rare.
                None => {}
            }
        }
    }

    /// What was seen later.
    pub(crate) fn then(&mut self, later: &WaitCounts) {
        if self.looks >= LOOKS_MAX {
            self.looks /= 2;
            self.rows.iter_mut().for_each(|row| row.count /= 2.0);
            self.rows.retain(|row| row.count > 0.01);
        }
        let looks = self.looks + later.looks;
        self.beside(later);
        self.looks = looks;
    }

    /// Servers of this kind, on average.
    #[must_use]
    pub(crate) fn of(&self, kind: WaitKind) -> f64 {
        self.mean(self.rows.iter().filter(|row| row.kind == kind).map(|row| row.count).sum())
    }

    /// Servers that had something to do, on average.
    #[must_use]
    pub(crate) fn busy(&self) -> f64 {
        self.mean(self.rows.iter().map(|row| row.count).sum())
    }

    /// How many servers were seen at what all of them share, and how many at anything, summed over all looks.
    #[must_use]
    pub(crate) fn shared(&self) -> (f64, f64) {
        let sum = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.count).sum();
        (sum(&mut self.rows.iter().filter(|row| row.kind.is_shared())), sum(&mut self.rows.iter()))
    }

    /// How often it was looked.
    #[must_use]
    pub(crate) fn looks(&self) -> u32 {
        self.looks
    }

    fn mean(&self, count: f64) -> f64 {
        count / f64::from(self.looks.max(1))
    }
}

/// As `of 16 busy: 2 compute, 11 wait for Lock transactionid, 3 for IO WALSync`.
impl fmt::Display for WaitCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = |count: f64| count.round() as u32;
        let busy = rounded(self.busy());
        let computing = rounded(self.of(WaitKind::Compute));
        let mut waits: Vec<(u32, &str)> = self
            .rows
            .iter()
            .filter(|row| row.kind != WaitKind::Compute)
            .map(|row| (rounded(self.mean(row.count)), &*row.name))
            .collect();
        waits.retain(|(count, _)| *count > 0);
        // The sort keeps what is equal as it was.
        waits.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        waits.truncate(NAMED_MAX);
        let mut words = String::new();
        for (at, (count, name)) in waits.iter().enumerate() {
            let verb = if at == 0 { " wait" } else { "" };
            write!(words, ", {count}{verb} for {name}")?;
        }
        let named: u32 = waits.iter().map(|(count, _)| count).sum();
        match busy.saturating_sub(computing + named) {
            0 => {}
            others => write!(words, ", {others} for something else")?,
        }
        write!(f, "of {busy} busy: {computing} compute{words}")
    }
}

/// A name that can stand in a table.
fn name(bytes: &[u8]) -> String {
    let known = bytes.iter().take(NAME_LEN_MAX);
    known.map(|&byte| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '?' }).collect()
}

/// When one worker queries one pool's wait events, and the answers.
#[derive(Debug, Default)]
pub struct WaitSampling {
    is_due: bool,
    under_way: Option<SampleUnderWay>,
    answer: Option<WaitCounts>,
    refusals: u32,
    /// No query is sent before this.
    pause_until: Time,
}

#[derive(Debug)]
struct SampleUnderWay {
    server: ConnId,
    waits: WaitCounts,
    is_broken: bool,
}

impl WaitSampling {
    /// The coordinator has requested them.
    pub fn request(&mut self, now: Time) {
        self.is_due = self.under_way.is_none() && now >= self.pause_until;
    }

    pub fn is_requested(&self) -> bool {
        self.is_due
    }

    pub fn begin(&mut self, server: ConnId) {
        self.is_due = false;
        self.under_way = Some(SampleUnderWay { server, waits: WaitCounts::default(), is_broken: false });
    }

    pub fn samples(&self, server: ConnId) -> bool {
        self.under_way.as_ref().is_some_and(|asking| asking.server == server)
    }

    pub fn row(&mut self, body: &[u8]) {
        if let Some(asking) = &mut self.under_way {
            asking.is_broken |= !asking.waits.row(body);
        }
    }

    /// An error has come.
    pub fn refused(&mut self) {
        if let Some(asking) = &mut self.under_way {
            asking.is_broken = true;
        }
    }

    /// The answer has come to its end.
    pub fn answered(&mut self, now: Time) {
        let Some(asking) = self.under_way.take() else { return };
        if asking.is_broken {
            self.pause(now);
            return;
        }
        self.refusals = 0;
        // No row at all: what is linked has just nothing to do, or has other process ids than we know.
        if !asking.waits.rows.is_empty() {
            self.answer = Some(WaitCounts { looks: 1, ..asking.waits });
        }
    }

    /// Other settings hold. A question under way is still answered, and its rows are nobody else's.
    pub fn forget(&mut self) {
        *self = WaitSampling { under_way: self.under_way.take(), ..WaitSampling::default() };
    }

    /// A server is no more.
    pub fn lost(&mut self, server: ConnId, now: Time) {
        if self.samples(server) {
            self.under_way = None;
            self.pause(now);
        }
    }

    /// The answers since the last time.
    pub fn take(&mut self) -> Option<WaitCounts> {
        self.answer.take()
    }

    fn pause(&mut self, now: Time) {
        self.pause_until = now + REFUSED.saturating_mul(1 << self.refusals.min(8)).min(REFUSED_MAX);
        self.refusals += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Kind as Of;
    use wire::HEADER_LEN;
    use wire::backend::encode_data_row;

    fn body(values: &[Option<&str>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_data_row(&mut out, values.iter().map(|value| value.map(str::as_bytes)));
        out.split_off(HEADER_LEN)
    }

    fn server() -> ConnId {
        ConnId::new(Of::Server, 0, 3, 0)
    }

    fn told(rows: &[[Option<&str>; 3]]) -> Option<WaitCounts> {
        let mut asked = WaitSampling::default();
        asked.begin(server());
        rows.iter().for_each(|row| asked.row(&body(row)));
        asked.answered(Time::ZERO);
        asked.take()
    }

    #[test]
    fn an_answer_is_told_in_words() {
        let table: [(&[[Option<&str>; 3]], &str); 4] = [
            (
                &[
                    [Some("Lock"), Some("transactionid"), Some("11")],
                    [Some("IO"), Some("WALSync"), Some("3")],
                    [None, None, Some("2")],
                ],
                "of 16 busy: 2 compute, 11 wait for Lock transactionid, 3 for IO WALSync",
            ),
            (&[[None, None, Some("4")]], "of 4 busy: 4 compute"),
            (&[[Some("Client"), Some("ClientRead"), Some("1")]], "of 1 busy: 0 compute, 1 wait for Client ClientRead"),
            (
                &[
                    [Some("LWLock"), Some("A"), Some("4")],
                    [Some("LWLock"), Some("B"), Some("3")],
                    [Some("LWLock"), Some("C"), Some("2")],
                    [Some("Extension"), Some("\u{7}\u{e9}"), Some("1")],
                ],
                "of 10 busy: 0 compute, 4 wait for LWLock A, 3 for LWLock B, 2 for LWLock C, 1 for something else",
            ),
        ];
        for (rows, words) in table {
            assert_eq!(told(rows).expect("an answer").to_string(), words);
        }
    }

    #[test]
    fn a_size_shows_what_its_servers_wait_for() {
        let mut sizing = crate::sizing::Sizing::new(2, 8, 4);
        assert_eq!(sizing.account().wait_words, None);
        sizing.add_wait_counts(&told(&[[Some("IO"), Some("WALSync"), Some("4")]]).expect("an answer"));
        assert_eq!(sizing.account().wait_words.as_deref(), Some("of 4 busy: 0 compute, 4 wait for IO WALSync"));
    }

    #[test]
    fn a_question_under_way_outlives_other_settings() {
        let mut asked = WaitSampling::default();
        asked.begin(server());
        asked.forget();
        assert!(asked.samples(server()), "its rows are nobody else's");
        asked.row(&body(&[None, None, Some("4")]));
        asked.answered(Time::ZERO);
        assert_eq!(asked.take().expect("an answer").to_string(), "of 4 busy: 4 compute");
    }

    #[test]
    fn what_is_no_answer_is_none() {
        assert_eq!(told(&[]), None);
        for row in [[None, None, None], [None, None, Some("-1")], [None, None, Some("many")]] {
            assert_eq!(told(&[row]), None, "{row:?}");
        }
        let many: Vec<_> = (0..=ROWS_MAX).map(|_| [Some("IO"), Some("x"), Some("1")]).collect();
        assert_eq!(told(&many), None, "more rows than were asked for");
        let mut asked = WaitSampling::default();
        asked.begin(server());
        asked.row(b"\0\x01");
        asked.answered(Time::ZERO);
        assert_eq!(asked.take(), None);
    }

    #[test]
    fn workers_are_summed_and_looks_averaged() {
        let one = told(&[[None, None, Some("3")], [Some("IO"), Some("WALSync"), Some("1")]]).expect("an answer");
        let two = told(&[[None, None, Some("1")], [Some("Lock"), Some("tuple"), Some("3")]]).expect("an answer");
        let mut both = one.clone();
        both.beside(&two);
        assert_eq!(
            (both.looks(), both.busy(), both.of(WaitKind::Compute), both.of(WaitKind::Lock)),
            (1, 8.0, 4.0, 3.0)
        );
        let mut mean = one.clone();
        mean.then(&two);
        assert_eq!(
            (mean.looks(), mean.busy(), mean.of(WaitKind::Compute), mean.of(WaitKind::Lock)),
            (2, 4.0, 2.0, 1.5)
        );
        for _ in 0..1000 {
            mean.then(&one);
        }
        assert!(mean.looks() <= LOOKS_MAX && (mean.busy() - 4.0).abs() < 1e-9 && mean.of(WaitKind::Lock) < 0.01);
    }

    #[test]
    fn a_refusal_is_a_pause_that_grows() {
        let mut asked = WaitSampling::default();
        let mut now = Time::ZERO;
        for turn in 0..8 {
            asked.request(now);
            assert!(asked.is_requested(), "{turn}");
            asked.begin(server());
            assert!(!asked.is_requested());
            if turn % 2 == 0 {
                asked.refused();
                asked.answered(now);
            } else {
                asked.lost(server(), now);
            }
            let pause = REFUSED.saturating_mul(1 << turn).min(REFUSED_MAX);
            asked.request(now + pause / 2);
            assert!(!asked.is_requested(), "{turn}");
            now = now + pause;
        }
    }
}
