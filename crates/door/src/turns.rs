//! Turns: at most `max_login_concurrency` logins are under way at a time. The others wait, and are served in the order in which they came.
//!
//! ```text
//!   NotAsked ─ SSLRequest, ClientHello or startup packet ─► Waits ─► Has ─► Over: proved, refused or gone
//!                                                                     └ after PATIENCE ─► Lingers ─ after LINGERING ─► Over
//! ```
//!
//! Without turns all of a storm of logins would end late, at about the same time, and many of their clients would have given up by then.
//!
//! Promises that clients which do not answer hold nobody up for long: while others wait, a login counts for [`PATIENCE`] and as
//! long as its password is hashed. What else it waits for, its client, a lookup or a directory, costs nothing here and has
//! bounds of its own. TLS costs memory, too: [`limits::LOGINS_BEGUN_MAX`] have begun it and are not over, unless the oldest has
//! lingered for [`LINGERING`]. Cancel requests in the clear and the console's owner need no turn.

use std::collections::BTreeMap;
use std::time::Duration;

use units::{ConnId, Time, limits};

use super::{Login, Phase};

/// How long a login may wait for others before the next one has its turn: some round trips in one data centre.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// How long it counts among those that take memory: many round trips to a client far away that is busy.
const LINGERING: Duration = Duration::from_millis(500);

/// At most so many logins get their turn in one step: each may be a TLS handshake, some 0.3 ms.
const BEGUN_AT_ONCE: usize = 4;

/// A login's turn.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LoginTurn {
    #[default]
    NotAsked,
    /// Its place among those that wait.
    Waits(u64),
    /// Since when, and its number.
    Has(Time, u64),
    /// It has had its turn, and takes memory. Since when, and its number.
    Lingers(Time, u64),
    /// It does not count any more.
    Over,
}

/// What a login has its turn for, once [`PATIENCE`] is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A thread hashes its password.
    Hashing,
    /// It waits for others, in the midst of TLS.
    Memory,
    /// It waits for others, and takes little.
    Nothing,
}

/// All logins that wait for their turn or have it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// `max_login_concurrency`; `None`: as many as there is memory for.
    most: Option<usize>,
    count: u64,
    waiting: BTreeMap<u64, ConnId>,
    having: BTreeMap<(Time, u64), ConnId>,
    lingering: BTreeMap<(Time, u64), ConnId>,
}

impl Turns {
    pub(super) fn new(most: u32) -> Turns {
        let mut turns = Turns::default();
        turns.configure(most);
        turns
    }

    pub(super) fn configure(&mut self, most: u32) {
        self.most = (most > 0).then_some(most as usize);
    }

    /// Whether other logins come before this one, which has something to be done. It is read on when its turn comes.
    pub(super) fn delay(&mut self, now: Time, conn: ConnId, login: &mut Login) -> bool {
        if login.turn == LoginTurn::NotAsked {
            login.turn = self.ask(now, conn);
        }
        let waits = matches!(login.turn, LoginTurn::Waits(_));
        if waits {
            login.phase = Phase::Queued;
        }
        waits
    }

    /// A login has nothing to be done any more that takes the pooler's time.
    pub(super) fn end(&mut self, login: &mut Login) {
        self.leave(std::mem::replace(&mut login.turn, LoginTurn::Over));
    }

    fn ask(&mut self, now: Time, conn: ConnId) -> LoginTurn {
        self.count += 1;
        if self.waiting.is_empty() && self.is_free() {
            return self.give(now, conn, self.count);
        }
        self.waiting.insert(self.count, conn);
        LoginTurn::Waits(self.count)
    }

    fn leave(&mut self, turn: LoginTurn) {
        match turn {
            LoginTurn::Waits(number) => _ = self.waiting.remove(&number),
            LoginTurn::Has(since, number) => _ = self.having.remove(&(since, number)),
            LoginTurn::Lingers(since, number) => _ = self.lingering.remove(&(since, number)),
            LoginTurn::NotAsked | LoginTurn::Over => {}
        }
    }

    /// The logins whose turn it is now. Of those that have had theirs for longer than [`PATIENCE`], `use_of` says what for.
    pub(super) fn next(
        &mut self,
        now: Time,
        use_of: impl Fn(ConnId) -> Use,
        mut change: impl FnMut(ConnId, LoginTurn),
    ) {
        if self.waiting.is_empty() {
            return;
        }
        while let Some(((since, number), conn)) = pop_older(&mut self.having, now, PATIENCE) {
            let turn = match use_of(conn) {
                Use::Hashing => self.give(now, conn, number),
                Use::Memory => {
                    self.lingering.insert((since, number), conn);
                    LoginTurn::Lingers(since, number)
                }
                Use::Nothing => LoginTurn::Over,
            };
            change(conn, turn);
        }
        while let Some((_, conn)) = pop_older(&mut self.lingering, now, LINGERING) {
            change(conn, LoginTurn::Over);
        }
        for _ in 0..BEGUN_AT_ONCE {
            if !self.is_free() {
                return;
            }
            let Some((number, conn)) = self.waiting.pop_first() else { return };
            let turn = self.give(now, conn, number);
            change(conn, turn);
        }
    }

    /// When [`Turns::next`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.waiting.is_empty() {
            return None;
        }
        if self.is_free() {
            return Some(Time::ZERO);
        }
        let first = |turns: &BTreeMap<(Time, u64), ConnId>, later| turns.keys().next().map(|&(since, _)| since + later);
        [first(&self.having, PATIENCE), first(&self.lingering, LINGERING)].into_iter().flatten().min()
    }

    fn is_free(&self) -> bool {
        self.most.is_none_or(|most| self.having.len() < most)
            && self.having.len() + self.lingering.len() < limits::LOGINS_BEGUN_MAX
    }

    fn give(&mut self, now: Time, conn: ConnId, number: u64) -> LoginTurn {
        self.having.insert((now, number), conn);
        LoginTurn::Has(now, number)
    }
}

/// The oldest of them, if it is that old.
fn pop_older(turns: &mut BTreeMap<(Time, u64), ConnId>, now: Time, age: Duration) -> Option<((Time, u64), ConnId)> {
    let (&(since, _), _) = turns.first_key_value()?;
    if since + age > now { None } else { turns.pop_first() }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    fn conn(number: u32) -> ConnId {
        ConnId::new(Kind::Login, 0, number, 0)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Those whose turn it is, and the turns that have changed.
    fn next(turns: &mut Turns, now: Time, computing: &[ConnId]) -> Vec<(ConnId, LoginTurn)> {
        let use_of = |conn| if computing.contains(&conn) { Use::Hashing } else { Use::Memory };
        next_of(turns, now, use_of)
    }

    fn next_of(turns: &mut Turns, now: Time, use_of: impl Fn(ConnId) -> Use) -> Vec<(ConnId, LoginTurn)> {
        let mut changed = Vec::new();
        turns.next(now, use_of, |conn, turn| changed.push((conn, turn)));
        changed
    }

    #[test]
    fn one_that_takes_little_does_not_linger() {
        let mut turns = Turns::new(1);
        conns(0..2).for_each(|conn| _ = turns.ask(at(0), conn));
        let changed = next_of(&mut turns, at(10), |_| Use::Nothing);
        assert_eq!(changed, [(conn(0), LoginTurn::Over), (conn(1), LoginTurn::Has(at(10), 2))]);
        assert!(turns.lingering.is_empty());
    }

    fn conns(numbers: std::ops::Range<usize>) -> impl Iterator<Item = ConnId> {
        numbers.map(|number| conn(u32::try_from(number).expect("it is small")))
    }

    #[test]
    fn without_a_limit_memory_is_the_limit() {
        let mut turns = Turns::new(0);
        let most = limits::LOGINS_BEGUN_MAX;
        let given: Vec<LoginTurn> = conns(0..most).map(|conn| turns.ask(at(0), conn)).collect();
        assert!(given.iter().all(|turn| matches!(turn, LoginTurn::Has(..))));
        assert_eq!(turns.next_deadline(), None, "nobody waits");
        for conn in conns(most..most + 3) {
            assert!(matches!(turns.ask(at(1), conn), LoginTurn::Waits(_)));
        }
        turns.leave(given[7]);
        assert_eq!(next(&mut turns, at(1), &[]).len(), 1);
        // They have had their turn, and linger.
        assert_eq!(turns.next_deadline(), Some(at(10)));
        assert_eq!(next(&mut turns, at(10), &[]).len(), most - 1);
        assert_eq!(turns.next_deadline(), Some(at(11)), "the one that came later");
        assert_eq!(next(&mut turns, at(11), &[]).len(), 1);
        let ends = at(0) + LINGERING;
        assert_eq!(turns.next_deadline(), Some(ends));
        assert_eq!(next(&mut turns, Time(ends.0 - 1), &[]), []);
        turns.leave(LoginTurn::Lingers(at(0), 1));
        assert!(matches!(next(&mut turns, Time(ends.0 - 1), &[])[..], [(_, LoginTurn::Has(..))]), "one is proved");
        let changed = next(&mut turns, ends, &[]);
        assert_eq!(changed.iter().filter(|(_, turn)| *turn == LoginTurn::Over).count(), most - 2);
        assert!(matches!(changed[..], [.., (_, LoginTurn::Has(..))]), "nobody is held up for longer");
        assert_eq!(turns.next_deadline(), None);
    }

    #[test]
    fn more_than_may_wait_in_order_until_one_leaves() {
        let mut turns = Turns::new(2);
        let given: Vec<LoginTurn> = (0..4).map(|number| turns.ask(at(1), conn(number))).collect();
        assert_eq!(
            given,
            [LoginTurn::Has(at(1), 1), LoginTurn::Has(at(1), 2), LoginTurn::Waits(3), LoginTurn::Waits(4)]
        );
        assert_eq!(next(&mut turns, at(2), &[]), []);
        turns.leave(given[1]);
        assert_eq!(turns.next_deadline(), Some(Time::ZERO));
        assert_eq!(next(&mut turns, at(3), &[]), [(conn(2), LoginTurn::Has(at(3), 3))]);
        // Who comes now stands behind the one that has waited.
        turns.leave(given[0]);
        assert_eq!(turns.ask(at(4), conn(9)), LoginTurn::Waits(5));
        assert_eq!(next(&mut turns, at(4), &[]), [(conn(3), LoginTurn::Has(at(4), 4))]);
        // Who leaves while it waits is skipped.
        turns.leave(LoginTurn::Waits(5));
        turns.leave(LoginTurn::Has(at(4), 4));
        assert_eq!((next(&mut turns, at(5), &[]), turns.next_deadline()), (vec![], None));
    }

    #[test]
    fn one_that_waits_for_others_stops_counting_and_one_that_is_hashed_for_does_not() {
        let mut turns = Turns::new(2);
        (0..3).for_each(|number| _ = turns.ask(at(0), conn(number)));
        assert_eq!(turns.next_deadline(), Some(at(10)));
        assert_eq!(next(&mut turns, at(9), &[]), []);
        let changed = next(&mut turns, at(10), &[conn(0)]);
        assert_eq!(
            changed,
            [
                (conn(0), LoginTurn::Has(at(10), 1)),
                (conn(1), LoginTurn::Lingers(at(0), 2)),
                (conn(2), LoginTurn::Has(at(10), 3))
            ]
        );
        // Nobody waits: nobody has to stop.
        assert_eq!(next(&mut turns, at(100), &[]), []);
    }

    #[test]
    fn a_reload_that_takes_the_limit_away_lets_all_go_on_a_few_at_a_time() {
        let mut turns = Turns::new(1);
        (0..10).for_each(|number| _ = turns.ask(at(0), conn(number)));
        turns.configure(0);
        assert_eq!(turns.next_deadline(), Some(Time::ZERO));
        assert_eq!(next(&mut turns, at(0), &[]).len(), BEGUN_AT_ONCE);
        assert!(matches!(turns.ask(at(0), conn(99)), LoginTurn::Waits(_)), "it stands behind those that have waited");
        assert_eq!(next(&mut turns, at(0), &[]).len(), BEGUN_AT_ONCE);
        assert_eq!(next(&mut turns, at(0), &[]).len(), 2);
        assert_eq!(turns.next_deadline(), None);
    }
}
