//! A pooler and a PostgreSQL where nothing is wrong, for tests to spoil.

use std::collections::BTreeMap;
use std::time::Duration;

use observe::{Ages, Backend, State};

use crate::facts::{Facts, Machine};
use crate::finding::{Finding, Weight};
use crate::pooler::{Pool, PoolServer, PooledDatabase, Pooler};
use crate::postgres::{DatabaseFigures, Identity, Postgres, Statements};

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn healthy() -> Facts {
    let identity = Identity {
        place: "10.0.0.9:5432".to_owned(),
        version: "18.1".to_owned(),
        database: "shop".to_owned(),
        role: "watcher".to_owned(),
        sees_all: true,
        is_standby: false,
        is_of_patroni: false,
        pid: 1,
    };
    let postgres = Postgres {
        identity,
        settings: settings(&[
            ("max_connections", "100"),
            ("port", "5432"),
            ("superuser_reserved_connections", "3"),
            ("reserved_connections", "0"),
            ("idle_in_transaction_session_timeout", "60000"),
            ("statement_timeout", "0"),
            ("lock_timeout", "5000"),
            ("log_lock_waits", "on"),
            ("log_temp_files", "0"),
            ("work_mem", "4096"),
            ("autovacuum", "on"),
            ("track_counts", "on"),
            ("autovacuum_max_workers", "3"),
            ("autovacuum_freeze_max_age", "200000000"),
            ("vacuum_failsafe_age", "1600000000"),
            ("autovacuum_multixact_freeze_max_age", "400000000"),
            ("vacuum_multixact_failsafe_age", "1600000000"),
            ("password_encryption", "scram-sha-256"),
            ("deadlock_timeout", "1000"),
        ]),
        backends: vec![backend(101, State::Idle)],
        databases: vec![DatabaseFigures { name: "shop".to_owned(), ..DatabaseFigures::default() }],
        statements: Some(Statements::default()),
        ..Postgres::default()
    };
    let text = str::to_owned;
    let pooler = Pooler {
        place: text("pooler:6432"),
        settings: settings(&[
            ("default_pool_size", "4"),
            ("max_server_connections", "0"),
            ("query_wait_timeout", "20"),
            ("idle_transaction_timeout", "0"),
            ("server_tls_sslmode", "verify-full"),
            ("client_tls_sslmode", "require"),
            ("auth_type", "scram-sha-256"),
            ("listen_addr", "*"),
        ]),
        databases: vec![PooledDatabase {
            name: text("shop"),
            host: Some(text("10.0.0.9")),
            port: 5432,
            database: text("shop"),
            size: 4,
            ..PooledDatabase::default()
        }],
        pools: vec![Pool { database: text("shop"), user: text("app"), servers: 1, ..Pool::default() }],
        servers: Some(vec![PoolServer {
            database: text("shop"),
            pid: 101,
            address: text("10.0.0.9"),
            is_encrypted: true,
        }]),
        ..Pooler::default()
    };
    let machine = Machine { cores: 4, memory: 16 << 30, backends: BTreeMap::new() };
    Facts { pooler: Some(pooler), postgres: Some(postgres), machine: Some(machine), ..Facts::default() }
}

/// The application's, in its database.
pub(super) fn backend(pid: i32, state: State) -> Backend {
    let text = |text: &str| Some(text.to_owned());
    Backend {
        pid,
        kind: text("client backend"),
        database: text("shop"),
        user: text("app"),
        application_name: text("web"),
        state: Some(state),
        ..Backend::default()
    }
}

/// One that has been in its state, and in its transaction, for so long.
pub(super) fn aged(pid: i32, state: State, seconds: u64) -> Backend {
    let age = Some(Duration::from_secs(seconds));
    Backend { ages: Ages { transaction: age, state: age, ..Ages::default() }, ..backend(pid, state) }
}

pub(super) fn postgres(facts: &mut Facts) -> &mut Postgres {
    facts.postgres.as_mut().expect("the example has one")
}

pub(super) fn pooler(facts: &mut Facts) -> &mut Pooler {
    facts.pooler.as_mut().expect("the example has one")
}

/// What is done to the example, and the weight of what is found then.
pub(super) type Case<'c> = (&'c str, &'c dyn Fn(&mut Facts), Option<Weight>);

/// Holds a rule against the example, spoilt in each of these ways.
pub(super) fn check(find: fn(&Facts) -> Option<Finding>, table: &[Case<'_>]) {
    assert_eq!(find(&healthy()), None, "nothing is wrong with the example");
    for (what, spoil, weight) in table {
        let mut facts = healthy();
        spoil(&mut facts);
        let found = find(&facts);
        assert_eq!(found.as_ref().map(|finding| finding.weight), *weight, "{what}: {found:?}");
        if let Some(found) = found {
            let is_whole = !found.title.is_empty() && !found.evidence.is_empty() && !found.mend.is_empty();
            assert!(is_whole, "{what}: {found:?}");
        }
    }
}
