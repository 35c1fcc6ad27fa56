//! The load against the fake PostgreSQL with nothing between them.

use super::*;
use crate::fake::Answer;
use crate::style::{Style, work};

/// A world in a folder of its own, which the test removes.
fn world(name: &str) -> (World, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("pgweir-bench-test-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    (World::open(&folder).expect("loopback sockets"), folder)
}

fn direct(world: &mut World, style: Style, answer: Answer) -> FleetId {
    let port = world.port;
    world.fleet(port, work("bench", "", "bench", style, answer))
}

#[test]
fn a_closed_load_is_answered_and_settles() {
    let (mut world, folder) = world("closed");
    for (style, answer) in
        [(Style::Simple, Answer::Small), (Style::Extended, Answer::Rows), (Style::Prepared, Answer::Value)]
    {
        let fleet = direct(&mut world, style, answer);
        world.connect(fleet, 8).expect("eight logins");
        assert_eq!(world.fake_links(), 8);
        world.start(fleet, Mode::Closed).expect("questions");
        while world.done(fleet) < 100 {
            world.run_for(Duration::from_millis(5)).expect("answers");
        }
        world.settle(fleet).expect("the last answers");
        let done = world.done(fleet);
        assert_eq!(world.take_latencies_ns(fleet).len() as u64, done);
        world.run_for(Duration::from_millis(5)).expect("silence");
        assert_eq!(world.done(fleet), done, "nobody asks after settling");
        world.disconnect(fleet).expect("goodbyes");
        while world.fake_links() > 0 {
            world.run_for(Duration::from_millis(1)).expect("the fake hears the goodbyes");
        }
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn an_open_load_keeps_its_rate() {
    let (mut world, folder) = world("open");
    let fleet = direct(&mut world, Style::Simple, Answer::Small);
    world.connect(fleet, 4).expect("four logins");
    let began = Instant::now();
    world.start(fleet, Mode::Open { interval: Duration::from_millis(2) }).expect("questions");
    while world.done(fleet) < 50 {
        world.run_for(Duration::from_millis(2)).expect("answers");
    }
    assert!(began.elapsed() >= Duration::from_millis(98), "fifty questions, two milliseconds apart");
    world.settle(fleet).expect("the last answers");
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_storm_logs_in_again_and_again() {
    let (mut world, folder) = world("storm");
    let fleet = direct(&mut world, Style::Simple, Answer::Small);
    world.start(fleet, Mode::Storm { at_a_time: 4 }).expect("dials");
    while world.done(fleet) < 50 {
        world.run_for(Duration::from_millis(5)).expect("answers");
    }
    world.settle(fleet).expect("the last logins");
    world.disconnect(fleet).expect("goodbyes");
    assert!(world.take_latencies_ns(fleet).len() >= 50);
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn nobody_to_talk_to_is_an_error() {
    let (mut world, folder) = world("nobody");
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("its number").port();
    let fleet = world.fleet(free, work("bench", "", "bench", Style::Simple, Answer::Small));
    assert!(world.connect(fleet, 1).is_err());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_world_takes_its_unix_socket_with_it() {
    let (world, folder) = world("socket");
    let entries = || std::fs::read_dir(&folder).expect("our folder").count();
    assert_eq!(entries(), 1);
    drop(world);
    assert_eq!(entries(), 0, "the next world with this port could not listen");
    std::fs::remove_dir_all(folder).expect("ours");
}
