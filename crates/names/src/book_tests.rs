//! Tables of what a book answers, and when.

use super::*;

const HOLDS: Holds = Holds { answer: Duration::from_secs(15), failure: Duration::from_secs(5) };

fn ips(texts: &[&str]) -> Arc<[IpAddr]> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

fn shown(found: &Found) -> String {
    match found {
        Ok(addresses) => addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(","),
        Err(why) => format!("({why})"),
    }
}

/// A book, a clock, and whoever asks: numbers, in order.
struct Scene {
    book: Book<u32>,
    now: Instant,
    asked: u32,
}

impl Scene {
    fn new() -> Scene {
        Scene { book: Book::new(HOLDS, false), now: Instant::now(), asked: 0 }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn ask(&mut self, name: &str) -> String {
        self.asked += 1;
        match self.book.ask(name, self.asked, self.now).0 {
            Asked::Known(found) => shown(&found),
            Asked::LookUp => "look up".to_owned(),
            Asked::Wait => "wait".to_owned(),
        }
    }

    fn found(&mut self, name: &str, found: Result<&[&str], (bool, &str)>) -> String {
        let found = found.map(ips).map_err(|(is_passing, why)| Failure { is_passing, why: why.to_owned() });
        let Outcome { answers, news, again } = self.book.found(name, found, self.now);
        let mut words: Vec<String> = answers.iter().map(|(who, found)| format!("{who}:{}", shown(found))).collect();
        words.extend(news.map(|news| match news {
            News::Moved { addresses, .. } => format!("moved to {}", shown(&Ok(addresses))),
            News::NoAnswer { why, .. } => format!("no answer: {why}"),
            News::Back { .. } => "back".to_owned(),
        }));
        words.extend(again.then(|| "again".to_owned()));
        words.join("; ")
    }
}

#[test]
fn one_lookup_answers_all_who_ask_meanwhile_and_holds_for_its_time() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask("db"), "look up");
    assert_eq!(scene.ask("db"), "wait");
    assert_eq!(scene.book.in_flight(), 1);
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "1:10.0.0.1; 2:10.0.0.1");
    scene.pass(14);
    assert_eq!(scene.ask("db"), "10.0.0.1");
    scene.pass(1);
    assert_eq!(scene.ask("db"), "look up");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "4:10.0.0.1", "nothing has changed");
}

#[test]
fn a_failure_holds_for_its_own_time() {
    let mut scene = Scene::new();
    scene.ask("db");
    assert_eq!(scene.found("db", Err((false, "no such name"))), "1:(no such name)");
    scene.pass(4);
    assert_eq!(scene.ask("db"), "(no such name)");
    scene.pass(1);
    assert_eq!(scene.ask("db"), "look up");
}

#[test]
fn a_silent_name_server_changes_nothing_and_is_told_once_but_a_name_that_is_gone_is_gone() {
    let mut scene = Scene::new();
    scene.ask("db");
    scene.found("db", Ok(&["10.0.0.1"]));
    for (second, expected) in ["2:10.0.0.1; no answer: timed out", "3:10.0.0.1"].into_iter().enumerate() {
        scene.pass(20);
        assert_eq!(scene.ask("db"), "look up", "{second}");
        assert_eq!(scene.found("db", Err((true, "timed out"))), expected);
    }
    scene.pass(20);
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "4:10.0.0.1; back");
    scene.pass(20);
    scene.ask("db");
    assert_eq!(scene.found("db", Err((false, "no such name"))), "5:(no such name)");
    scene.pass(20 + LAST_KNOWN_MAX.as_secs());
    scene.ask("db");
    assert_eq!(scene.found("db", Err((true, "timed out"))), "6:(timed out)", "too old to be used");
}

#[test]
fn addresses_take_turns_and_one_that_has_just_failed_comes_last() {
    let mut scene = Scene::new();
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1", "10.0.0.2", "10.0.0.3"])), "1:10.0.0.1,10.0.0.2,10.0.0.3");
    assert_eq!(scene.ask("db"), "10.0.0.2,10.0.0.3,10.0.0.1");
    assert_eq!(scene.ask("db"), "10.0.0.3,10.0.0.1,10.0.0.2");
    scene.book.shun("db", "10.0.0.1".parse().expect("an address"), scene.now);
    assert_eq!(scene.ask("db"), "10.0.0.2,10.0.0.3,10.0.0.1");
    scene.pass(SHUNNED.as_secs());
    scene.ask("db");
    scene.found("db", Ok(&["10.0.0.1", "10.0.0.2"]));
    assert_eq!(scene.ask("db"), "10.0.0.1,10.0.0.2");
}

#[test]
fn another_set_of_addresses_is_news_and_another_order_is_none() {
    let mut scene = Scene::new();
    scene.ask("db");
    scene.found("db", Ok(&["10.0.0.1", "10.0.0.2"]));
    scene.pass(15);
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.2", "10.0.0.1"])), "2:10.0.0.1,10.0.0.2");
    scene.pass(15);
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.9"])), "3:10.0.0.9; moved to 10.0.0.9");
}

#[test]
fn what_is_found_first_is_news_where_somebody_was_connected_before() {
    let mut scene = Scene { book: Book::new(HOLDS, true), ..Scene::new() };
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "1:10.0.0.1; moved to 10.0.0.1");
    scene.pass(15);
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "2:10.0.0.1");
}

#[test]
fn what_is_wanted_anew_is_looked_up_anew_also_if_a_lookup_is_under_way() {
    let mut scene = Scene::new();
    scene.ask("db");
    scene.found("db", Ok(&["10.0.0.1"]));
    scene.book.forget_all(scene.now);
    assert_eq!(scene.ask("db"), "look up");
    scene.book.forget_all(scene.now);
    assert_eq!(scene.ask("db"), "wait");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1"])), "again", "it was asked before");
    assert_eq!(scene.found("db", Ok(&["10.0.0.2"])), "2:10.0.0.2; 3:10.0.0.2; moved to 10.0.0.2");
}

#[test]
fn a_zone_whose_serial_has_changed_has_its_names_looked_up() {
    let mut scene = Scene::new();
    for name in ["a.db.example", "b.db.example", "c.other.example", "plain", "dot."] {
        scene.ask(name);
        scene.found(name, Ok(&["10.0.0.1"]));
    }
    assert_eq!(scene.book.zones().into_iter().collect::<Vec<_>>(), ["db.example", "other.example"]);
    assert!(scene.book.serial_found("db.example", 7, scene.now).is_empty(), "the first one is no change");
    assert!(scene.book.serial_found("db.example", 7, scene.now).is_empty());
    assert_eq!(scene.book.serial_found("db.example", 8, scene.now), ["a.db.example", "b.db.example"]);
    let zones = scene.book.known_zones();
    assert_eq!((zones[0].serial, zones[0].names, zones[1].serial), (8, 2, 0));
    assert!(scene.book.serial_found("db.example", 9, scene.now).is_empty(), "they are being looked up");
    assert_eq!(scene.found("a.db.example", Ok(&["10.0.0.3"])), "again");
    assert_eq!(scene.found("a.db.example", Ok(&["10.0.0.4"])), "moved to 10.0.0.4");
}

#[test]
fn names_have_a_bound_and_none_that_somebody_waits_for_is_dropped() {
    let mut scene = Scene::new();
    scene.ask("first");
    for number in 0..NAMES_MAX + 5 {
        scene.pass(1);
        let name = format!("name{number}");
        scene.ask(&name);
        scene.found(&name, Ok(&["10.0.0.1"]));
    }
    assert!(scene.book.names.len() <= NAMES_MAX);
    assert_eq!(scene.ask("first"), "wait");
}

#[test]
fn a_name_in_doubt_is_looked_up_each_second_though_nobody_asks() {
    let mut scene = Scene::new();
    let now = scene.now;
    scene.book.doubt("db", now);
    assert_eq!(scene.book.next_recheck(now), None, "nobody has asked for it");
    scene.ask("db");
    assert_eq!(scene.found("db", Ok(&["10.0.0.1", "10.0.0.2"])), "1:10.0.0.1,10.0.0.2");
    assert_eq!(scene.book.next_recheck(scene.now), None, "it is in no doubt");
    scene.pass(3);
    scene.book.doubt("db", scene.now);
    assert!(scene.book.next_recheck(scene.now) <= Some(scene.now), "at once");
    assert_eq!(scene.book.recheck(scene.now), ["db"]);
    assert_eq!(scene.ask("db"), "10.0.0.2,10.0.0.1", "what is known counts meanwhile");
    scene.book.doubt("db", scene.now);
    assert_eq!((scene.book.next_recheck(scene.now), scene.book.recheck(scene.now)), (None, vec![]), "it is under way");
    // A name server turns the order round: that is no move.
    assert_eq!(scene.found("db", Ok(&["10.0.0.2", "10.0.0.1"])), "");
    scene.book.doubt("db", scene.now);
    assert_eq!(scene.book.next_recheck(scene.now), Some(scene.now + RECHECK), "once a second");
    assert!(scene.book.recheck(scene.now).is_empty());
    scene.pass(1);
    assert_eq!(scene.book.recheck(scene.now), ["db"]);
    assert_eq!(scene.found("db", Ok(&["10.0.0.3"])), "moved to 10.0.0.3");
    assert_eq!(scene.ask("db"), "10.0.0.3");
    // The doubt ends.
    scene.pass(14);
    assert_eq!(scene.book.next_recheck(scene.now), None);
}

#[test]
fn a_name_in_doubt_that_is_gone_for_a_moment_is_found_when_it_is_back() {
    let mut scene = Scene::new();
    scene.ask("db");
    scene.found("db", Ok(&["10.0.0.1"]));
    scene.pass(1);
    scene.book.doubt("db", scene.now);
    assert_eq!(scene.book.recheck(scene.now), ["db"]);
    assert_eq!(scene.found("db", Err((false, "no such name"))), "");
    assert_eq!(scene.ask("db"), "(no such name)");
    scene.pass(1);
    assert_eq!(scene.book.recheck(scene.now), ["db"], "a second later, whatever dns_nxdomain_ttl says");
    assert_eq!(scene.found("db", Ok(&["10.0.0.2"])), "moved to 10.0.0.2");
    assert_eq!(scene.ask("db"), "10.0.0.2");
}
