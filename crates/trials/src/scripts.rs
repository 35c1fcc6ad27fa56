//! The two scripts of the documents, as pgbench defines them: TPC-B-like and SELECT only.
//!
//! Promises: the same statements, in the same order, over tables of the same shape and size as pgbench's, one round trip a
//! statement. Differs in where the tables are: in a schema of their own, named in every statement, so that no session has to
//! be told (which a pooler in transaction mode could not keep).

use client::put;

/// Where everything of ours is.
pub(crate) const SCHEMA: &str = "pgweir_bench";

/// Rows of pgbench's tables at scale 1.
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// pgbench's default: a transaction of three UPDATEs, a SELECT and an INSERT, in seven round trips.
    TpcB,
    /// `pgbench -S`: one SELECT by primary key.
    Select,
}

impl Script {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Script::TpcB => "TPC-B",
            Script::Select => "SELECT",
        }
    }

    /// Round trips of a transaction.
    pub(crate) fn steps(self) -> u8 {
        match self {
            Script::TpcB => 7,
            Script::Select => 1,
        }
    }

    /// The same for pgbench, reading our tables.
    pub(crate) fn for_pgbench(self) -> String {
        let draws = "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\
                     \\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\n";
        let draw = Draw::words();
        let lines: Vec<String> = (0..self.steps()).map(|step| self.text(step, &draw) + ";\n").collect();
        format!("{draws}{}", lines.concat())
    }

    /// Appends the statement of a step as a Query message.
    pub(crate) fn ask(self, step: u8, draw: &Draw<i64>, out: &mut Vec<u8>) {
        put(out, b'Q', &[self.text(step, draw).as_bytes(), b"\0"]);
    }

    fn text<T: std::fmt::Display>(self, step: u8, draw: &Draw<T>) -> String {
        let Draw { aid, bid, tid, delta } = draw;
        match (self, step) {
            (Script::Select, _) | (Script::TpcB, 2) => {
                format!("SELECT abalance FROM {SCHEMA}.accounts WHERE aid = {aid}")
            }
            (Script::TpcB, 0) => "BEGIN".to_owned(),
            (Script::TpcB, 1) => {
                format!("UPDATE {SCHEMA}.accounts SET abalance = abalance + {delta} WHERE aid = {aid}")
            }
            (Script::TpcB, 3) => {
                format!("UPDATE {SCHEMA}.tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}")
            }
            (Script::TpcB, 4) => {
                format!("UPDATE {SCHEMA}.branches SET bbalance = bbalance + {delta} WHERE bid = {bid}")
            }
            (Script::TpcB, 5) => format!(
                "INSERT INTO {SCHEMA}.history (tid, bid, aid, delta, mtime) \
                 VALUES ({tid}, {bid}, {aid}, {delta}, CURRENT_TIMESTAMP)"
            ),
            (Script::TpcB, _) => "END".to_owned(),
        }
    }

    /// Rows that the answer to a step must have.
    pub(crate) fn rows(self, step: u8) -> u32 {
        u32::from(matches!((self, step), (Script::Select, _) | (Script::TpcB, 2)))
    }
}

/// The values of one transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draw<T> {
    aid: T,
    bid: T,
    tid: T,
    delta: T,
}

impl Draw<&'static str> {
    fn words() -> Self {
        Self { aid: ":aid", bid: ":bid", tid: ":tid", delta: ":delta" }
    }
}

/// Draws values, the same ones from the same seed.
pub(crate) struct Dice {
    state: u64,
    scale: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, scale: u32) -> Self {
        Self { state: seed, scale: u64::from(scale) }
    }

    pub(crate) fn draw(&mut self) -> Draw<i64> {
        Draw {
            aid: 1 + self.below(ACCOUNTS * self.scale),
            bid: 1 + self.below(self.scale),
            tid: 1 + self.below(TELLERS * self.scale),
            delta: self.below(10_001) - 5000,
        }
    }

    /// Even enough below 2^63: the remainder's bias is one in billions here.
    fn below(&mut self, bound: u64) -> i64 {
        i64::try_from(self.next() % bound).expect("bounds are far below 2^63")
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What makes the tables, one statement a step, with a word for each. Accounts come in slices, so that a person sees how far
/// it is.
pub(crate) fn tables(scale: u32) -> Vec<(String, String)> {
    const SLICE: u32 = 10;
    let mut steps = Vec::new();
    let mut step = |words: &str, sql: String| steps.push((words.to_owned(), sql));
    let table = |name: &str, columns: &str| format!("CREATE TABLE {SCHEMA}.{name} ({columns})");
    step("tables", table("branches", "bid int not null, bbalance int, filler char(88)"));
    step("tables", table("tellers", "tid int not null, bid int, tbalance int, filler char(84)"));
    step("tables", table("accounts", "aid int not null, bid int, abalance int, filler char(84)"));
    step("tables", table("history", "tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)"));
    step("rows", format!("INSERT INTO {SCHEMA}.branches SELECT b, 0 FROM generate_series(1, {scale}) b"));
    let tellers = u64::from(scale) * TELLERS;
    step(
        "rows",
        format!("INSERT INTO {SCHEMA}.tellers SELECT t, (t - 1) / 10 + 1, 0 FROM generate_series(1, {tellers}) t"),
    );
    for from in (0..scale).step_by(SLICE as usize) {
        let until = (from + SLICE).min(scale);
        let (low, high) = (u64::from(from) * ACCOUNTS + 1, u64::from(until) * ACCOUNTS);
        step(
            &format!("rows of scale {until} of {scale}"),
            format!(
                "INSERT INTO {SCHEMA}.accounts SELECT a, (a - 1) / {ACCOUNTS} + 1, 0, '' FROM generate_series({low}, {high}) a"
            ),
        );
    }
    for (name, key) in [("branches", "bid"), ("tellers", "tid"), ("accounts", "aid")] {
        step("primary keys", format!("ALTER TABLE {SCHEMA}.{name} ADD PRIMARY KEY ({key})"));
    }
    for name in ["branches", "tellers", "accounts", "history"] {
        step("vacuum", format!("VACUUM ANALYZE {SCHEMA}.{name}"));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_the_tables() {
        let mut dice = Dice::new(7, 3);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            let Draw { aid, bid, tid, delta } = dice.draw();
            assert!((1..=300_000).contains(&aid) && (1..=3).contains(&bid) && (1..=30).contains(&tid));
            assert!((-5000..=5000).contains(&delta));
            seen.insert(tid);
        }
        assert_eq!(seen.len(), 30, "every teller is drawn");
    }

    #[test]
    fn a_transaction_is_pgbenchs() {
        let text = Script::TpcB.for_pgbench();
        let words: Vec<&str> = text.lines().skip(4).filter_map(|line| line.split([' ', ';']).next()).collect();
        assert_eq!(words, ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"]);
        assert_eq!(Script::Select.for_pgbench().lines().count(), 5);
    }

    #[test]
    fn all_accounts_are_made_once() {
        let steps = tables(25);
        let accounts: Vec<&String> = steps.iter().map(|(_, sql)| sql).filter(|sql| sql.contains("'' FROM")).collect();
        assert_eq!(accounts.len(), 3);
        assert!(accounts[0].ends_with("generate_series(1, 1000000) a"));
        assert!(accounts[2].ends_with("generate_series(2000001, 2500000) a"));
    }
}
