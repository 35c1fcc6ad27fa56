//! What a console shows: pgweir's, or PgBouncer's, which lacks some of it.
//= pgbouncer usage.md#show-commands

use std::collections::BTreeMap;

use super::answer::{Answer, Cells};
use super::{Ask, part};
use crate::facts::Unseen;
use crate::pooler::{FoundSize, Pool, PoolServer, PooledDatabase, Pooler, Traffic, UserLimits};

/// The console's own name among databases.
const CONSOLE: &str = "pgbouncer";

/// Asks a console all that rules want to know.
///
/// # Errors
/// It does not even show its settings, in its words.
pub fn pooler(place: String, ask: &mut Ask<'_>, unseen: &mut Vec<Unseen>) -> Result<Pooler, String> {
    let settings = settings(&ask("SHOW CONFIG")?);
    let mut read = Pooler { place, settings, ..Pooler::default() };
    read.databases = part(ask, unseen, "the pooler's databases", "SHOW DATABASES", databases);
    read.pools = part(ask, unseen, "the pooler's pools", "SHOW POOLS", pools);
    read.traffic = part(ask, unseen, "the pooler's statistics", "SHOW STATS", traffic);
    read.users = part(ask, unseen, "the pooler's users", "SHOW USERS", users);
    read.servers = part(ask, unseen, "the pooler's servers", "SHOW SERVERS", |answer| Some(servers(answer)));
    // Not in PgBouncer, where nothing is missing without them.
    read.sizes = ask("SHOW SIZING").map(|answer| sizes(&answer)).unwrap_or_default();
    read.events = ask("SHOW EVENTS").map(|answer| events(&answer)).unwrap_or_default();
    unseen.push(Unseen {
        what: "clients that query_wait_timeout has refused".to_owned(),
        why: "no console counts them; the log has a line for each".to_owned(),
        mend: Some("grep -c query_wait_timeout LOGFILE".to_owned()),
    });
    Ok(read)
}

fn settings(answer: &Answer) -> BTreeMap<String, String> {
    answer.cells().map(|row| (row.text("key"), row.text("value"))).collect()
}

fn databases(answer: &Answer) -> Vec<PooledDatabase> {
    let own = answer.cells().filter(|row| row.get("name") != Some(CONSOLE));
    own.map(|row| PooledDatabase {
        name: row.text("name"),
        host: row.get("host").map(str::to_owned),
        port: row.number("port"),
        database: row.text("database"),
        forced_user: row.get("force_user").filter(|user| !user.is_empty()).map(str::to_owned),
        size: row.number("pool_size"),
        // PgBouncer has had two names for it.
        reserve: row.maybe("reserve_pool_size").or(row.maybe("reserve_pool")).unwrap_or_default(),
        connections_max: row.number("max_connections"),
        target_session_attrs: None,
    })
    .collect()
}

fn pools(answer: &Answer) -> Vec<Pool> {
    let own = answer.cells().filter(|row| row.get("database") != Some(CONSOLE));
    own.map(|row| {
        let servers =
            ["sv_active", "sv_active_cancel", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"];
        Pool {
            database: row.text("database"),
            user: row.text("user"),
            clients: row.number("cl_active"),
            waiting: row.number("cl_waiting"),
            servers: servers.into_iter().map(|name| row.number::<u32>(name)).sum(),
            wait_max: std::time::Duration::from_secs(row.number("maxwait")) + row.micros("maxwait_us"),
        }
    })
    .collect()
}

fn traffic(answer: &Answer) -> Vec<Traffic> {
    let own = answer.cells().filter(|row| row.get("database") != Some(CONSOLE));
    own.map(|row| Traffic {
        database: row.text("database"),
        transactions: row.number("total_xact_count"),
        transaction_time: row.micros("total_xact_time"),
        wait_time: row.micros("total_wait_time"),
    })
    .collect()
}

fn users(answer: &Answer) -> Vec<UserLimits> {
    answer.all(|row| UserLimits {
        name: row.text("name"),
        size: row.maybe("pool_size"),
        connections_max: row.number("max_user_connections"),
    })
}

fn servers(answer: &Answer) -> Vec<PoolServer> {
    let pid = |row: &Cells<'_>| row.maybe("remote_pid");
    let read = |row: Cells<'_>| {
        Some(PoolServer {
            database: row.text("database"),
            pid: pid(&row)?,
            address: row.text("addr"),
            is_encrypted: row.get("tls").is_some_and(|tls| !tls.is_empty()),
        })
    };
    answer.cells().filter_map(read).collect()
}

fn sizes(answer: &Answer) -> Vec<FoundSize> {
    answer.all(|row| FoundSize {
        database: row.text("database"),
        user: row.text("user"),
        size: row.number("size"),
        settled: row.maybe("settled"),
        floor: row.number("floor"),
        ceiling: row.number("ceiling"),
        why: row.text("why"),
    })
}

fn events(answer: &Answer) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in answer.cells() {
        *counts.entry(row.text("event")).or_default() += row.number::<u64>("count");
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &str, rows: &[&str]) -> Answer {
        let row = |row: &&str| row.split('|').map(|value| (value != "-").then(|| value.to_owned())).collect();
        Answer { names: names.split('|').map(str::to_owned).collect(), rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn a_console_is_read_by_the_names_of_its_columns() {
        let mut ask = |sql: &str| match sql {
            "SHOW CONFIG" => Ok(table("key|value", &["default_pool_size|20"])),
            "SHOW DATABASES" => {
                let names = "name|host|port|database|force_user|pool_size|reserve_pool_size|max_connections";
                Ok(table(names, &["pgbouncer|-|6432|pgbouncer|pgbouncer|2|0|0", "shop|db|5432|shop|-|20|5|30"]))
            }
            "SHOW POOLS" => {
                let names = "database|user|cl_active|cl_waiting|sv_active|sv_idle|maxwait|maxwait_us";
                Ok(table(names, &["shop|app|3|4|2|1|1|500000"]))
            }
            "SHOW EVENTS" => Ok(table("event|count", &["max_waiting|2", "max_waiting|3"])),
            "SHOW SERVERS" => Ok(table("database|addr|remote_pid|tls", &["shop|10.0.0.1|77|TLSv1.3/…"])),
            other => Err(format!("08P01: invalid command '{other}'")),
        };
        let mut unseen = Vec::new();
        let read = pooler("here".to_owned(), &mut ask, &mut unseen).expect("it answers");
        assert_eq!(read.setting("default_pool_size"), "20");
        let [shop] = &read.databases[..] else { panic!("{:?}", read.databases) };
        assert_eq!((shop.size, shop.reserve, shop.connections_max, shop.forced_user.as_deref()), (20, 5, 30, None));
        assert_eq!((read.pools[0].servers, read.pools[0].wait_max.as_millis()), (3, 1500));
        assert_eq!(read.events["max_waiting"], 5);
        assert!(read.servers.expect("shown")[0].is_encrypted);
        const REFUSED: &str = "clients that query_wait_timeout has refused";
        let what: Vec<&str> = unseen.iter().map(|unseen| unseen.what.as_str()).collect();
        assert_eq!(
            what,
            ["the pooler's statistics", "the pooler's users", REFUSED],
            "a console without SIZING lacks nothing"
        );
    }

    #[test]
    fn what_shows_no_settings_is_no_console() {
        let mut ask = |_: &str| Err("42704: unrecognized configuration parameter".to_owned());
        assert!(pooler("here".to_owned(), &mut ask, &mut Vec::new()).is_err());
    }
}
