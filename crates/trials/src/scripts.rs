//! The two scripts of the documents, as pgbench defines them: TPC-B-like and SELECT only.
//!
//! Promises: the same statements, in the same order, over tables of the same shape and size as pgbench's, one round trip a
//! statement. Differs in where the tables are: in a schema of their own, named in every statement, so that no session has to
//! be told (which a pooler in transaction mode could not keep).

use measure::script::{ACCOUNTS, Draw, Script, TELLERS, Tables};

/// Where everything of ours is.
pub(crate) const SCHEMA: &str = "pgweir_bench";

/// The tables' names in the statements.
pub(crate) const TABLES: Tables = Tables { prefix: "pgweir_bench.", end: "" };

/// A script for pgbench, reading our tables.
pub(crate) fn for_pgbench(script: Script) -> String {
    let draws = "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\
                 \\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\n";
    let draw = Draw { aid: ":aid", bid: ":bid", tid: ":tid", delta: ":delta" };
    let lines: Vec<String> = (0..script.steps()).map(|step| script.sql(step, &draw, TABLES) + ";\n").collect();
    format!("{draws}{}", lines.concat())
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
    fn a_transaction_is_pgbenchs() {
        let text = for_pgbench(Script::TpcB);
        let words: Vec<&str> = text.lines().skip(4).filter_map(|line| line.split([' ', ';']).next()).collect();
        assert_eq!(words, ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"]);
        assert_eq!(for_pgbench(Script::Select).lines().count(), 5);
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
