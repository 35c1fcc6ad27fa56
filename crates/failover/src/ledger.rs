//! The ledger's tables, and the verdict about all requests once the cluster is whole again.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::seen::{Request, Told};

/// The role that clients, poolers and the probe log in as.
pub const ROLE: &str = "ledger";
pub const DATABASE: &str = "postgres";

/// Every id with the number of its rows, and the clients whose account differs from their rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<u64, u64>,
    torn: u64,
}

/// The ledger beside the results that clients have learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Told committed, and not there.
    pub lost: u64,
    /// There more than once.
    pub doubled: u64,
    /// Told that it has failed, and there.
    pub ghost: u64,
    /// Clients whose rows and account differ: half a transaction.
    pub torn: u64,
    pub unknown: u64,
    /// Unknown, and there.
    pub unknown_done: u64,
}

/// Makes the tables anew, and the role with this password.
///
/// # Errors
/// The primary does not take it.
pub fn prepare(cluster: &Cluster, clients: usize, password: &str) -> Result<(), String> {
    let primary = cluster.primary()?;
    let has_role = cluster.query(primary, &format!("select 1 from pg_roles where rolname = '{ROLE}'"))?;
    let verb = if has_role.rows.is_empty() { "create" } else { "alter" };
    let sql = format!(
        "{verb} role {ROLE} login password '{password}'; \
         drop table if exists ledger, accounts, probe; \
         create table ledger (id bigint not null, client int not null); \
         create table accounts (client int primary key, entries bigint not null) with (fillfactor = 50); \
         insert into accounts select number, 0 from generate_series(0, {clients} - 1) as number; \
         create table probe (one int); \
         grant select, insert, update on ledger, accounts, probe to {ROLE}"
    );
    cluster.query(primary, &sql).map(drop)
}

impl Ledger {
    /// As the primary has it.
    ///
    /// # Errors
    /// There is no primary, or it does not answer.
    pub fn read(cluster: &Cluster) -> Result<Self, String> {
        let primary = cluster.primary()?;
        let answer = cluster.query(primary, "select id, count(*) from ledger group by id")?;
        let number = |value: &Option<String>| value.as_deref()?.parse().ok();
        let row = |row: &Vec<Option<String>>| Some((number(row.first()?)?, number(row.get(1)?)?));
        let rows = answer.rows.iter().map(|each| row(each).ok_or("a row of the ledger without numbers"));
        let rows = rows.collect::<Result<_, _>>()?;
        let torn = cluster.query(
            primary,
            "select count(*) from accounts where entries <> (select count(*) from ledger where ledger.client = accounts.client)",
        )?;
        let torn = torn.value().and_then(|value| value.parse().ok()).ok_or("a count that is no number")?;
        Ok(Self { rows, torn })
    }

    #[must_use]
    pub fn judge<'a>(&self, requests: impl Iterator<Item = &'a Request>) -> Verdict {
        let mut verdict = Verdict { torn: self.torn, ..Verdict::default() };
        verdict.doubled = self.rows.values().filter(|count| **count > 1).count() as u64;
        for request in requests {
            let is_there = self.rows.contains_key(&request.id);
            match request.told {
                Told::Committed => verdict.lost += u64::from(!is_there),
                Told::Failed { .. } | Told::Ended { .. } | Told::Nothing => verdict.ghost += u64::from(is_there),
                Told::Unknown { .. } => {
                    verdict.unknown += 1;
                    verdict.unknown_done += u64::from(is_there);
                }
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::Kind;

    #[test]
    fn each_kind_of_wrong_is_found() {
        let code = String::new;
        let told = [
            (1, Told::Committed),
            (2, Told::Committed),
            (3, Told::Failed { code: code(), first: true }),
            (4, Told::Failed { code: code(), first: false }),
            (5, Told::Ended { code: code() }),
            (6, Told::Unknown { code: code() }),
            (7, Told::Unknown { code: code() }),
            (8, Told::Nothing),
            (9, Told::Committed),
        ];
        let request = |(id, told)| Request { client: 0, id, kind: Kind::Call, sent: 0.0, told_at: 0.0, told };
        let requests = told.map(request);
        let right = Ledger { rows: [(1, 1), (2, 1), (6, 1), (9, 1)].into(), torn: 0 };
        let unknown = Verdict { unknown: 2, unknown_done: 1, ..Verdict::default() };
        assert_eq!(right.judge(requests.iter()), unknown);
        let wrong = Ledger { rows: [(1, 2), (3, 1), (5, 1), (8, 1), (7, 1)].into(), torn: 3 };
        let found = Verdict { lost: 2, doubled: 1, ghost: 3, torn: 3, unknown: 2, unknown_done: 1 };
        assert_eq!(wrong.judge(requests.iter()), found);
    }
}
