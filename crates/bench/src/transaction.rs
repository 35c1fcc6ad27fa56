//! The two transactions of pgbench as our own clients ask them, one statement after the other.
//!
//! Promises: statements and their order are pgbench's; the values of a transaction follow from its number, so that contestants
//! are asked the same. Does not: pipeline, or prepare.

/// A transaction on pgbench's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// pgbench's default: three UPDATEs, a SELECT and an INSERT in a transaction, seven round trips.
    TpcB,
    /// `pgbench -S`: one SELECT by primary key.
    Select,
}

/// Rows of pgbench's tables at scale 1.
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;

impl Script {
    /// In the names of parts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Script::TpcB => "tpcb",
            Script::Select => "select",
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

    /// The statement of a step of the transaction with this number, on tables of this scale.
    #[must_use]
    pub fn sql(self, step: u8, number: u64, scale: u32) -> String {
        let scale = u64::from(scale);
        let below = |which: u64, bound: u64| mixed(number.wrapping_mul(4).wrapping_add(which)) % bound;
        let (aid, bid, tid) = (1 + below(0, ACCOUNTS * scale), 1 + below(1, scale), 1 + below(2, TELLERS * scale));
        let delta = below(3, 10_001) as i64 - 5000;
        match (self, step) {
            (Script::Select, _) | (Script::TpcB, 2) => {
                format!("SELECT abalance FROM pgbench_accounts WHERE aid = {aid};")
            }
            (Script::TpcB, 0) => "BEGIN;".to_owned(),
            (Script::TpcB, 1) => {
                format!("UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {aid};")
            }
            (Script::TpcB, 3) => format!("UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {tid};"),
            (Script::TpcB, 4) => {
                format!("UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {bid};")
            }
            (Script::TpcB, 5) => format!(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, {bid}, {aid}, {delta}, CURRENT_TIMESTAMP);"
            ),
            (Script::TpcB, _) => "END;".to_owned(),
        }
    }
}

/// A number whose bits have nothing to do with the given one's (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_pgbenchs_and_follows_from_its_number() {
        let words = |number| (0..7).map(|step| Script::TpcB.sql(step, number, 3)).collect::<Vec<String>>();
        let verbs: Vec<String> =
            words(7).iter().map(|sql| sql.split([' ', ';']).next().unwrap_or("").to_owned()).collect();
        assert_eq!(verbs, ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"]);
        assert_eq!(words(7), words(7));
        assert_ne!(words(7), words(8));
        let (update, select) = (&words(7)[1], &words(7)[2]);
        assert_eq!(update.split("aid = ").nth(1), select.split("aid = ").nth(1), "the row that was updated is read");
    }

    #[test]
    fn values_stay_within_the_tables_and_reach_all_of_them() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..10_000 {
            let sql = Script::TpcB.sql(3, number, 3);
            let tid: u64 =
                sql.split("tid = ").nth(1).and_then(|rest| rest.trim_end_matches(';').parse().ok()).expect("a number");
            assert!((1..=30).contains(&tid));
            seen.insert(tid);
        }
        assert_eq!(seen.len(), 30);
    }
}
