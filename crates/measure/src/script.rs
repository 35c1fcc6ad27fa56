//! The two transactions of pgbench, statement by statement: TPC-B-like and SELECT only.
//!
//! Promises: statements and their order are pgbench's, one round trip each; the values of a transaction follow from a seed and its number, so
//! that contestants are asked the same.
//! Does not pipeline, and does not prepare.

use std::fmt::Display;

/// Rows of pgbench's tables at scale 1.
pub const ACCOUNTS: u64 = 100_000;
pub const TELLERS: u64 = 10;

/// A transaction on pgbench's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// pgbench's default: three UPDATEs, a SELECT and an INSERT in a transaction, seven round trips.
    TpcB,
    /// `pgbench -S`: one SELECT by primary key.
    Select,
}

/// What the tables are called, and what ends a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Before `accounts`, `tellers`, `branches` and `history`.
    pub prefix: &'static str,
    pub end: &'static str,
}

/// pgbench's own tables and texts.
pub const PGBENCH: Tables = Tables { prefix: "pgbench_", end: ";" };

/// The values of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw<T> {
    pub aid: T,
    pub bid: T,
    pub tid: T,
    pub delta: T,
}

impl Script {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Script::TpcB => "TPC-B",
            Script::Select => "SELECT",
        }
    }

    /// Round trips.
    #[must_use]
    pub fn steps(self) -> u8 {
        match self {
            Script::TpcB => 7,
            Script::Select => 1,
        }
    }

    /// Rows in the answer to a step.
    #[must_use]
    pub fn rows(self, step: u8) -> usize {
        usize::from(matches!((self, step), (Script::Select, _) | (Script::TpcB, 2)))
    }

    /// The statement of a step.
    #[must_use]
    pub fn sql<T: Display>(self, step: u8, draw: &Draw<T>, tables: Tables) -> String {
        let Tables { prefix, end } = tables;
        let Draw { aid, bid, tid, delta } = draw;
        match (self, step) {
            (Script::Select, _) | (Script::TpcB, 2) => {
                format!("SELECT abalance FROM {prefix}accounts WHERE aid = {aid}{end}")
            }
            (Script::TpcB, 0) => format!("BEGIN{end}"),
            (Script::TpcB, 1) => {
                format!("UPDATE {prefix}accounts SET abalance = abalance + {delta} WHERE aid = {aid}{end}")
            }
            (Script::TpcB, 3) => {
                format!("UPDATE {prefix}tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}{end}")
            }
            (Script::TpcB, 4) => {
                format!("UPDATE {prefix}branches SET bbalance = bbalance + {delta} WHERE bid = {bid}{end}")
            }
            (Script::TpcB, 5) => format!(
                "INSERT INTO {prefix}history (tid, bid, aid, delta, mtime) \
                 VALUES ({tid}, {bid}, {aid}, {delta}, CURRENT_TIMESTAMP){end}"
            ),
            (Script::TpcB, _) => format!("END{end}"),
        }
    }
}

impl Draw<i64> {
    /// The values of the transaction with this number, from 0, on tables of this scale.
    #[must_use]
    pub fn of(seed: u64, number: u64, scale: u32) -> Self {
        let scale = u64::from(scale);
        // The remainder's bias is one in billions for these bounds.
        let below = |which: u64, bound: u64| {
            let drawn = split_mix(seed, number.wrapping_mul(4).wrapping_add(which)) % bound;
            i64::try_from(drawn).expect("bounds are far below 2^63")
        };
        Self {
            aid: 1 + below(0, ACCOUNTS * scale),
            bid: 1 + below(1, scale),
            tid: 1 + below(2, TELLERS * scale),
            delta: below(3, 10_001) - 5000,
        }
    }
}

/// The number at a place of SplitMix64's sequence.
fn split_mix(seed: u64, place: u64) -> u64 {
    let mut mixed = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_pgbenchs_and_follows_from_its_number() {
        let texts = |number| -> Vec<String> {
            (0..7).map(|step| Script::TpcB.sql(step, &Draw::of(0, number, 3), PGBENCH)).collect()
        };
        let words: Vec<String> =
            texts(7).iter().map(|sql| sql.split([' ', ';']).next().unwrap_or("").to_owned()).collect();
        assert_eq!(words, ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"]);
        assert_eq!(texts(7), texts(7));
        assert_ne!(texts(7), texts(8));
        let (update, select) = (&texts(7)[1], &texts(7)[2]);
        assert_eq!(update.split("aid = ").nth(1), select.split("aid = ").nth(1), "the row that was updated is read");
    }

    #[test]
    fn tables_have_the_names_that_they_are_given() {
        let tables = Tables { prefix: "pgweir_bench.", end: "" };
        let draw = Draw { aid: ":aid", bid: ":bid", tid: ":tid", delta: ":delta" };
        assert_eq!(Script::Select.sql(0, &draw, tables), "SELECT abalance FROM pgweir_bench.accounts WHERE aid = :aid");
        assert_eq!(Script::TpcB.sql(6, &draw, tables), "END");
    }

    /// The first numbers of SplitMix64 from seed 7: whoever reruns a published test asks for the same rows.
    #[test]
    fn values_are_those_of_earlier_records() {
        assert_eq!(
            [0, 1, 2].map(|place| split_mix(1_234_567, place)),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_stay_within_the_tables_and_reach_all_of_them() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..10_000 {
            let Draw { aid, bid, tid, delta } = Draw::of(7, number, 3);
            assert!((1..=300_000).contains(&aid) && (1..=3).contains(&bid) && (1..=30).contains(&tid));
            assert!((-5000..=5000).contains(&delta));
            seen.insert(tid);
        }
        assert_eq!(seen.len(), 30, "every teller is drawn");
    }
}
