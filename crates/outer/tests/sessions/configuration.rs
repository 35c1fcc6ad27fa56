//! A session has, in what it has not set itself, the values with which new servers begin, also when PostgreSQL's configuration has changed.

use outer::{Client, Stage, Wishes, eventually};

fn time_zone(client: &mut Client) -> String {
    let answer = client.query("show timezone").expect("an answer comes");
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    answer.value().expect("one value").to_owned()
}

/// Two sessions on one server, one of which has a time zone of its own.
fn sessions(stage: &Stage) -> (Client, Client) {
    let (follower, mut owner) = (stage.client(), stage.client());
    owner.query("set timezone = 'Europe/Zurich'").expect("an answer comes");
    (follower, owner)
}

#[test]
fn after_reconnect_sessions_have_what_new_servers_begin_with() {
    let stage = Stage::set(&Wishes { pool: 1, workers: 1, ..Wishes::default() });
    let (mut follower, mut owner) = sessions(&stage);
    drop(stage.direct("alter role postgres set timezone = 'Asia/Tokyo'"));
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("trusted");
    let answer = console.query("reconnect").expect("an answer comes");
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    // It waits in its login until the new server is there.
    let mut newcomer = stage.client();
    assert_eq!(time_zone(&mut newcomer), "Asia/Tokyo");
    assert_eq!((time_zone(&mut follower), time_zone(&mut owner)), ("Asia/Tokyo".into(), "Europe/Zurich".into()));
    assert_eq!((time_zone(&mut newcomer), time_zone(&mut follower)), ("Asia/Tokyo".into(), "Asia/Tokyo".into()));
}

#[test]
fn a_new_configuration_reaches_sessions_that_have_set_nothing() {
    let stage = Stage::set(&Wishes { pool: 1, workers: 1, ..Wishes::default() });
    let (mut follower, mut owner) = sessions(&stage);
    // The server has had both values of its sessions before the change, and after each of two.
    for zone in ["Asia/Tokyo", "America/Lima"] {
        drop(stage.direct(&format!("alter system set timezone = '{zone}'")));
        drop(stage.direct("select pg_reload_conf()"));
        eventually("the new time zone", || {
            assert_eq!(time_zone(&mut owner), "Europe/Zurich");
            time_zone(&mut follower) == zone
        });
        assert_eq!((time_zone(&mut owner), time_zone(&mut follower)), ("Europe/Zurich".into(), zone.into()));
        let mut newcomer = stage.client();
        assert_eq!((time_zone(&mut newcomer), time_zone(&mut follower)), (zone.into(), zone.into()));
    }
}

#[test]
fn a_function_from_past_the_pooler_sets_the_time_zone_of_its_caller_alone() {
    let stage = Stage::set(&Wishes { pool: 1, workers: 1, ..Wishes::default() });
    let (mut caller, mut other) = (stage.client(), stage.client());
    let before = time_zone(&mut other);
    assert_eq!(time_zone(&mut caller), before);
    // The pooler may not know of it yet when it runs.
    drop(stage.direct(
        "create function to_tokyo() returns void language plpgsql \
         as $$begin perform set_config('timezone', 'Asia/Tokyo', false); end$$",
    ));
    caller.query("select to_tokyo()").expect("an answer comes");
    assert_eq!((time_zone(&mut other), time_zone(&mut caller)), (before, "Asia/Tokyo".into()));
}
