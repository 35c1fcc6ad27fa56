//! Which backend is whose, where names, pids and times could mislead.

mod world;

use std::sync::Arc;
use std::time::Duration;

use activity::{At, Moment, Origin, Reading, Row, join, tree};
use machine::Settings;
use observe::{Backend, LockMode, Prepared};
use world::World;
use world::observed::{answer, at_host, lock, moment};

fn joined(change: impl FnOnce(&mut activity::Answer)) -> Moment {
    let snapshots = at_host(&World::new().snapshots);
    let mut answer = answer();
    change(&mut answer);
    moment(answer, &snapshots, &Settings::default())
}

fn row(moment: &Moment, pid: i32) -> &Row {
    moment.row(0, pid).unwrap_or_else(|| panic!("{pid}: {moment:?}"))
}

#[test]
fn a_server_behind_a_name_is_the_poolers() {
    let moment = joined(|_| {});
    assert_eq!(row(&moment, 815).origin, Origin::Client);
    assert_eq!(row(&moment, 900).origin, Origin::Stranger);
}

/// What pgweir itself runs is told from what applications run: by the names of its connections, and by the states of servers that it prepares.
#[test]
fn connections_of_pgweir_itself_are_its_own() {
    for name in ["pgweir observer", "pgweir doctor", "pgweir run"] {
        let moment = joined(|answer| {
            let stranger = answer.backends.iter_mut().find(|backend| backend.pid == 900).expect("it is there");
            stranger.application_name = Some(name.to_owned());
        });
        assert_eq!(row(&moment, 900).origin, Origin::Own, "{name}");
    }
    let with_state = |state: &'static str| {
        let mut snapshots = at_host(&World::new().snapshots);
        for server in snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.servers) {
            (server.state, server.link) = (state, None);
        }
        row(&moment(answer(), &snapshots, &Settings::default()), 815).origin
    };
    let origins = ["tested", "new", "idle", "being_canceled"].map(with_state);
    assert_eq!(origins, [Origin::Own, Origin::Own, Origin::Server, Origin::Server]);
}

#[test]
fn a_pid_that_has_come_again_on_another_machine_is_a_strangers() {
    for age in [10, 1000] {
        let moment = joined(|answer| answer.backends[0].ages.backend = Some(Duration::from_secs(age)));
        assert_eq!(row(&moment, 815).origin, Origin::Stranger, "{age} s");
        assert!(
            moment.rows.iter().any(|row| row.host.is_none() && row.origin == Origin::Client),
            "its client is there"
        );
    }
    // Behind an address there is one machine, whose clock may have been put forward.
    let mut snapshots = at_host(&World::new().snapshots);
    for server in snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.servers) {
        server.ends.host = Arc::clone(&server.ends.address);
    }
    for (age, origin) in [(10, Origin::Stranger), (1000, Origin::Client)] {
        let mut answer = answer();
        answer.backends[0].ages.backend = Some(Duration::from_secs(age));
        let reading = Reading { address: "127.0.0.1:5432".into(), answer: Ok(answer) };
        let moment = join(At::default(), vec![reading], &snapshots, &Settings::default());
        assert_eq!(row(&moment, 815).origin, origin, "{age} s");
    }
    let moment = joined(|answer| answer.backends[0].ages.backend = None);
    assert_eq!(row(&moment, 815).origin, Origin::Client, "a role without rights is told no age");
}

#[test]
fn a_session_that_came_after_the_question_has_a_row_of_its_own() {
    let at_once = joined(|_| {});
    let late = joined(|answer| {
        answer.age = Duration::from_secs(80);
        answer.backends[0].ages.backend = Some(Duration::from_secs(10));
    });
    assert_eq!(row(&late, 815).origin, Origin::Server);
    let clients = |moment: &Moment| moment.rows.iter().filter(|row| row.session.is_some()).count();
    assert_eq!(clients(&late), clients(&at_once), "nobody is lost");
}

#[test]
fn a_lock_that_is_not_waited_for_any_more_is_not_the_rows() {
    assert!(row(&joined(|_| {}), 901).waiter.is_some());
    let gone = joined(|answer| answer.backends[2].wait = None);
    assert!(row(&gone, 901).waiter.is_none());
}

/// Their locks have no process, and block as others do.
#[test]
fn two_prepared_transactions_are_two_blockers() {
    let moment = joined(|answer| {
        answer.locks[0] = lock(-725, LockMode::AccessShare, None);
        answer.locks.insert(1, lock(-727, LockMode::RowShare, None));
        answer.locks.insert(2, lock(observe::PREPARED_PID, LockMode::RowShare, None));
        let prepared = |gid: &str, owner: &str| Prepared {
            gid: gid.to_owned(),
            owner: owner.to_owned(),
            database: "shop".to_owned(),
            age: Duration::from_secs(600),
        };
        answer.prepared = [(-725, prepared("first", "payer")), (-727, prepared("second", "app"))].into();
    });
    let told = |row: &Row| row.backend.as_deref().map(|backend: &Backend| (backend.kind.clone(), backend.user.clone()));
    let prepared = |owner: Option<&str>| Some((Some("prepared transaction".to_owned()), owner.map(str::to_owned)));
    assert_eq!(told(row(&moment, -725)), prepared(Some("payer")));
    assert_eq!(told(row(&moment, -727)), prepared(Some("app")));
    assert_eq!(told(row(&moment, 0)), prepared(None), "its gid could not be read");
    assert_eq!(row(&moment, -725).pid_shown(), Some(0), "it has no process");
    let mut roots: Vec<i32> =
        tree(&moment).iter().filter(|branch| branch.depth == 0).map(|branch| branch.pid).collect();
    roots.sort();
    assert_eq!(roots, [-727, -725, 0]);
}
