//! Histories of hosts, and which of them is written to.

use connections::databases::{Database, Host};

use super::*;

fn address(port: u16) -> Address {
    Address { host: Host::Name("db".to_owned()), port }
}

/// One list of three hosts, at ports 1 to 3, and their observations.
struct Scene {
    primaries: Primaries,
    observed: BTreeMap<Address, Upstream>,
    policy: SplitBrain,
    now: u64,
    /// The log line of the last decision.
    said: String,
}

impl Scene {
    fn new(policy: SplitBrain) -> Scene {
        let mut database = Database::new("d", [1, 2, 3].map(address).to_vec());
        database.target_session_attrs = TargetSessionAttrs::Primary;
        let settings = Settings { databases: [("d".to_owned(), Arc::new(database))].into(), ..Settings::default() };
        let primaries = Primaries::new(&settings);
        Scene { primaries, observed: BTreeMap::new(), policy, now: 0, said: String::new() }
    }

    fn observe(&mut self, port: u16, state: HostState) -> &mut Scene {
        self.now += 1;
        let before =
            self.observed.get(&address(port)).filter(|before| before.state == state).map(|before| before.since);
        let at = Time(self.now);
        self.observed.insert(address(port), Upstream { at, state, since: before.unwrap_or(at) });
        let observed = |host: &Address| self.observed.get(host).copied().unwrap_or(Upstream::UNTRIED);
        let decisions = self.primaries.decide(at, &address(port), &observed, self.policy);
        if let Some(decision) = decisions.first() {
            self.said = decision.to_string();
        }
        self
    }

    /// The prober has an answer. `system`, `timeline`; each process was started at its own time.
    fn answers(&mut self, port: u16, role: HostRole, system: u64, timeline: u32) -> &mut Scene {
        let started = Some(format!("{port}").into());
        let origin = Origin { role, system: Some(system), timeline: Some(timeline), started };
        self.primaries.note_origin(&address(port), origin);
        self.observe(port, HostState::Alive { role: Some(role) })
    }

    fn primary(&mut self, port: u16, timeline: u32) -> &mut Scene {
        self.answers(port, HostRole::Primary, 7, timeline)
    }

    fn standby(&mut self, port: u16, timeline: u32) -> &mut Scene {
        self.answers(port, HostRole::Standby, 7, timeline)
    }

    fn lose(&mut self, port: u16) -> &mut Scene {
        self.observe(port, HostState::Silent)
    }

    fn hint(&mut self, port: u16, is_primary: bool) {
        self.hint_of(HintSource::Console, port, is_primary);
    }

    fn hint_of(&mut self, source: HintSource, port: u16, is_primary: bool) {
        self.primaries.note_hint(Time(self.now), &Hint { host: address(port), is_primary, source });
    }

    /// The port that is written to, and the epoch.
    fn decision(&self) -> (Option<u16>, u32) {
        let known = self.primaries.of(&[1, 2, 3].map(address)).expect("the list");
        (known.host().map(|host| host.port), known.epoch)
    }
}

fn hold() -> Scene {
    Scene::new(SplitBrain::Hold)
}

#[test]
fn a_primary_is_followed_to_its_successor() {
    let mut scene = hold();
    assert_eq!(scene.standby(2, 1).standby(3, 1).decision(), (None, 0));
    assert_eq!(scene.primary(1, 1).decision(), (Some(1), 1));
    assert_eq!(scene.lose(1).decision(), (Some(1), 1), "silence is no proof of another");
    assert_eq!(scene.primary(3, 2).decision(), (Some(3), 2));
    assert_eq!(scene.said, "the primary is db:3, epoch 2, timeline 2: db:1 does not answer");
}

#[test]
fn a_primary_that_was_frozen_and_wakes_up_gets_nothing() {
    let mut scene = hold();
    scene.primary(1, 1).lose(1).primary(2, 2);
    assert_eq!(scene.primary(1, 1).decision(), (Some(2), 2));
    // Nor while its successor is restarted.
    assert_eq!(scene.lose(2).primary(1, 1).decision(), (Some(2), 2));
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2));
    // Once it is a standby it may be promoted again.
    assert_eq!(scene.standby(1, 2).lose(2).primary(1, 3).decision(), (Some(1), 3));
}

#[test]
fn a_successor_whose_timeline_was_not_seen_is_not_followed_by_an_earlier_one() {
    let mut scene = hold();
    scene.primary(1, 5).standby(2, 5).lose(1);
    // A server has logged in there, and the prober has not asked yet.
    assert_eq!(scene.observe(2, HostState::Alive { role: Some(HostRole::Primary) }).decision(), (Some(2), 2));
    scene.observe(2, HostState::Failed { until: Time(99) });
    assert_eq!(scene.primary(1, 5).decision(), (Some(2), 2), "it was frozen and wakes up");
}

#[test]
fn two_that_accept_writes_hold_all_until_one_does_not() {
    let mut scene = hold();
    scene.primary(1, 1).primary(2, 2).primary(1, 1);
    assert_eq!(scene.decision(), (None, 1));
    assert_eq!(scene.said, "two primaries: clients wait, as split_brain is hold. These hosts accept writes: db:2 db:1");
    assert_eq!(scene.primary(2, 2).decision(), (None, 1), "it lasts");
    assert_eq!(scene.standby(2, 2).decision(), (Some(1), 1), "the one of before has them again");
    scene.primary(2, 2);
    assert_eq!(scene.standby(1, 2).decision(), (Some(2), 2));
}

#[test]
fn a_primary_that_was_seen_before_the_other_was_promoted_is_asked_before_all_are_held() {
    let failed = HostState::Failed { until: Time(99) };
    let promoted = || {
        let mut scene = hold();
        scene.primary(1, 1).standby(2, 1).primary(2, 2);
        assert_eq!(scene.decision(), (Some(1), 1), "it may be gone");
        assert!(scene.primaries.contested().eq([&Arc::new(address(1))]));
        scene
    };
    let mut stopped = promoted();
    assert_eq!(stopped.observe(1, failed).decision(), (Some(2), 2), "at once");
    assert_eq!(stopped.primaries.contested().count(), 0);
    let mut demoted = promoted();
    assert_eq!(demoted.standby(1, 2).decision(), (Some(2), 2));
    let mut alive = promoted();
    assert_eq!(alive.primary(2, 2).decision(), (Some(1), 1), "it is asked still");
    assert_eq!(alive.primary(1, 1).decision(), (None, 1));
    assert_eq!(alive.primaries.contested().count(), 0);
    let mut withdrawn = promoted();
    assert_eq!(withdrawn.standby(2, 2).primaries.contested().count(), 0);
    // Frozen, or nobody can ask it: its database is paused, its name has no address.
    let mut unanswered = promoted();
    unanswered.now += limits::CONTEST_LASTS.as_micros() as u64;
    assert_eq!(unanswered.primary(2, 2).decision(), (None, 1));
    assert_eq!(unanswered.lose(1).decision(), (Some(2), 2));
    let mut demoted = promoted();
    demoted.hint(1, false);
    assert_eq!(demoted.primary(3, 2).decision(), (None, 1), "which of the others?");
}

#[test]
fn of_two_on_one_timeline_the_other_follows_though_the_first_was_not_asked_again() {
    let contested = || {
        let mut scene = hold();
        scene.primary(1, 1).standby(2, 1).standby(3, 1).lose(1).primary(2, 2).primary(3, 2);
        assert_eq!(scene.decision(), (Some(2), 2));
        scene
    };
    assert_eq!(contested().standby(2, 2).decision(), (Some(3), 3));
    assert_eq!(contested().lose(2).decision(), (Some(3), 3));
    let mut failed = contested();
    assert_eq!(failed.observe(2, HostState::Failed { until: Time(99) }).decision(), (None, 2), "it may be restarted");
    assert_eq!(
        failed.said,
        "two primaries: clients wait, as split_brain is hold. These hosts accept writes: db:3 db:2"
    );
    failed.now += limits::DISPUTE_LASTS.as_micros() as u64;
    assert_eq!(failed.primary(3, 2).decision(), (Some(3), 3));
    let mut back = contested();
    back.observe(2, HostState::Failed { until: Time(99) });
    assert_eq!(back.standby(3, 2).primary(2, 2).decision(), (Some(2), 2));
}

#[test]
fn a_primary_that_wakes_up_gets_nothing_before_its_timeline_is_seen() {
    let alive = HostState::Alive { role: Some(HostRole::Primary) };
    let failed = HostState::Failed { until: Time(99) };
    let woken = || {
        let mut scene = hold();
        // Host 1 was promoted, and frozen before the prober has asked it.
        scene.primary(2, 1).standby(1, 1).lose(2).observe(1, alive);
        assert_eq!(scene.lose(1).primary(2, 3).decision(), (Some(2), 3));
        // A login that had begun before is answered.
        assert_eq!(scene.observe(1, alive).primary(2, 3).decision(), (Some(2), 3), "that is no second primary");
        scene
    };
    assert_eq!(woken().observe(2, failed).decision(), (Some(2), 3));
    assert_eq!(woken().observe(2, failed).primary(1, 2).decision(), (Some(2), 3), "it is on an earlier timeline");
    assert_eq!(woken().observe(2, failed).primary(1, 4).decision(), (Some(1), 4), "it was promoted again");
    let mut unasked = woken();
    unasked.observe(2, failed).now += limits::CONTEST_LASTS.as_micros() as u64;
    assert_eq!(unasked.observe(1, alive).decision(), (Some(1), 4), "the prober is not let in any more");
}

#[test]
fn timelines_of_a_prober_that_is_off_by_now_are_not_known() {
    let mut scene = hold();
    scene.primary(1, 1).standby(2, 1).answers(3, HostRole::Standby, 8, 1);
    let mut database = Database::new("d", [1, 2, 3].map(address).to_vec());
    database.target_session_attrs = TargetSessionAttrs::Primary;
    let mut settings = Settings { databases: [("d".to_owned(), Arc::new(database))].into(), ..Settings::default() };
    settings.global.servers.host_check_interval = None;
    scene.primaries.configure(&settings);
    assert_eq!(scene.observe(2, HostState::Alive { role: Some(HostRole::Primary) }).decision(), (Some(1), 1));
    assert_eq!(scene.primaries.contested().count(), 0);
    let known = scene.primaries.of(&[1, 2, 3].map(address)).expect("the list");
    assert!(known.is_foreign(&address(3)), "that has not changed");
}

#[test]
fn of_two_that_accept_writes_split_brain_may_choose_one() {
    let mut stay = Scene::new(SplitBrain::Stay);
    assert_eq!(stay.primary(1, 1).primary(2, 2).decision(), (Some(1), 1));
    let mut highest = Scene::new(SplitBrain::HighestTimeline);
    assert_eq!(highest.primary(1, 1).primary(2, 2).decision(), (Some(2), 2));
    assert_eq!(highest.primary(1, 1).decision(), (Some(2), 2));
}

#[test]
fn two_standbys_that_are_promoted_each_by_itself_hold_all() {
    let mut scene = hold();
    scene.primary(1, 1).lose(1);
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2));
    assert_eq!(scene.primary(3, 2).primary(2, 2).decision(), (None, 2));
}

#[test]
fn a_copy_on_the_same_timeline_is_no_successor() {
    let mut scene = hold();
    scene.primary(1, 4).lose(1);
    assert_eq!(scene.primary(2, 4).decision(), (Some(1), 1));
    assert_eq!(scene.primary(1, 4).decision(), (None, 1), "both accept writes");
}

#[test]
fn another_system_is_never_chosen() {
    let mut scene = hold();
    scene.primary(1, 1).answers(2, HostRole::Primary, 8, 9);
    assert_eq!(scene.decision(), (Some(1), 1));
    assert_eq!(scene.said, "not used, since they belong to another database system than the primary: db:2");
    let is_foreign =
        |scene: &Scene, port| scene.primaries.of(&[1, 2, 3].map(address)).expect("the list").is_foreign(&address(port));
    assert!(is_foreign(&scene, 2) && !is_foreign(&scene, 1));
    assert_eq!(scene.lose(1).answers(2, HostRole::Primary, 8, 9).decision(), (Some(1), 1));
    // Host 2 was made anew from the primary.
    scene.standby(2, 1);
    assert!(!is_foreign(&scene, 2));
    assert_eq!(scene.said, "no host belongs to another database system than the primary any more");
}

#[test]
fn a_hint_chooses_between_hosts_that_accept_writes() {
    let mut scene = hold();
    scene.standby(2, 1).hint(2, true);
    assert_eq!(scene.primary(1, 1).decision(), (Some(1), 1), "it is a standby");
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2));
    assert_eq!(scene.said, "the primary is db:2, epoch 2, timeline 2: db:1 is not the primary any more, as it is said");
    assert_eq!(scene.primary(1, 3).primary(2, 2).decision(), (None, 2), "the hint ended with the decision");
    scene.hint(1, true);
    assert_eq!(scene.primary(1, 3).decision(), (Some(1), 3));
    // A hint does not send clients to a primary that wakes up.
    scene.lose(2).lose(1).hint(2, true);
    assert_eq!(scene.primary(2, 2).decision(), (Some(1), 3));
    scene.primary(1, 3).now += 3_600_000_000;
    assert_eq!(scene.primary(2, 4).primary(1, 3).decision(), (None, 3), "an old hint hides no split brain");
}

#[test]
fn patroni_s_leader_counts_for_its_lease_and_not_against_an_administrator() {
    let age = std::time::Duration::from_secs(5);
    let patroni = || HintSource::Patroni { scope: "c".to_owned(), age };
    let mut scene = hold();
    scene.primary(1, 1).hint_of(patroni(), 1, true);
    assert_eq!(scene.primary(2, 2).decision(), (Some(1), 1), "the leader keeps the writes");
    scene.now += (limits::LEADER_HOLDS - age).as_micros() as u64;
    assert_eq!(scene.primary(2, 2).primary(1, 1).decision(), (None, 1), "Patroni has not confirmed it");
    scene.hint_of(patroni(), 1, true);
    assert_eq!(scene.primary(1, 1).decision(), (Some(1), 1));
    scene.hint(2, true);
    scene.hint_of(patroni(), 1, true);
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2));
    scene.hint_of(patroni(), 1, true);
    let both = scene.primary(1, 2).primary(2, 2).decision();
    assert_eq!(both, (None, 2), "it is not believed so soon after an administrator");
}

const HOUR_US: u64 = 3_600_000_000;

#[test]
fn an_administrator_s_choice_lasts_until_the_other_is_promoted_anew() {
    let mut scene = hold();
    scene.primary(1, 1).primary(2, 2).primary(1, 1).hint(1, true);
    assert_eq!(scene.primary(1, 1).decision(), (Some(1), 1));
    scene.now += HOUR_US;
    assert_eq!(scene.primary(2, 2).decision(), (Some(1), 1));
    assert_eq!(scene.lose(1).primary(2, 2).decision(), (Some(1), 1), "nor does it follow");
    scene.primary(1, 1).standby(2, 2).primary(2, 3);
    assert_eq!(scene.primary(1, 1).decision(), (None, 1), "it is promoted anew");
    scene.hint(2, true);
    assert_eq!(scene.primary(2, 3).decision(), (Some(2), 2));
    // One that was not used is named, and the other is on the same timeline.
    let mut copy = hold();
    copy.primary(1, 4).primary(2, 4).primary(1, 4).hint(2, true);
    assert_eq!(copy.primary(2, 4).decision(), (Some(2), 2));
    copy.now += HOUR_US;
    assert_eq!(copy.primary(1, 4).decision(), (Some(2), 2));
}

#[test]
fn a_host_that_was_passed_over_may_follow_once_it_has_been_a_standby() {
    let mut scene = hold();
    scene.primary(1, 1).primary(2, 2).primary(1, 1).hint(1, true);
    scene.primary(1, 1).now += HOUR_US;
    // Host 2 was made anew from the primary, and gets the same timeline at its promotion.
    assert_eq!(scene.standby(2, 1).lose(1).primary(2, 2).decision(), (Some(2), 2));
    let mut unknown = hold();
    let alive = |role| HostState::Alive { role: Some(role) };
    unknown.observe(1, alive(HostRole::Primary)).observe(2, alive(HostRole::Primary)).hint(2, true);
    assert_eq!(unknown.observe(2, alive(HostRole::Primary)).decision(), (Some(2), 2));
    unknown.observe(1, alive(HostRole::Standby)).lose(2);
    assert_eq!(unknown.observe(1, alive(HostRole::Primary)).decision(), (Some(1), 3));
}

#[test]
fn a_list_whose_host_was_made_anew_begins_anew() {
    let mut scene = hold();
    scene.primary(1, 5).standby(2, 5).answers(2, HostRole::Primary, 8, 1);
    let mut database = Database::new("d", [2, 4].map(address).to_vec());
    database.target_session_attrs = TargetSessionAttrs::Primary;
    scene
        .primaries
        .configure(&Settings { databases: [("d".to_owned(), Arc::new(database))].into(), ..Settings::default() });
    scene.answers(2, HostRole::Primary, 8, 1);
    let known = scene.primaries.of(&[2, 4].map(address)).expect("the list");
    assert_eq!(known.host().map(|host| host.port), Some(2));
}

#[test]
fn one_of_two_is_said_to_be_the_primary_no_more() {
    for (demoted, expected) in [(1, (Some(2), 2)), (2, (Some(1), 1))] {
        let mut scene = hold();
        scene.primary(1, 1).primary(2, 2).primary(1, 1).hint(demoted, false);
        assert_eq!(scene.primary(1, 1).decision(), expected, "DEMOTED {demoted}");
        scene.now += HOUR_US;
        assert_eq!(scene.primary(2, 2).primary(1, 1).decision(), expected, "DEMOTED {demoted}");
    }
    let mut three = hold();
    three.primary(1, 1).primary(2, 2).primary(3, 2).primary(1, 1).hint(1, false);
    assert_eq!(three.primary(1, 1).decision(), (None, 1), "which of the others?");
    let mut alone = hold();
    alone.primary(1, 1).hint(1, false);
    assert_eq!(alone.primary(1, 1).decision(), (Some(1), 1), "no other accepts writes");
}

#[test]
fn a_hint_counts_at_once_though_the_other_has_just_failed_and_where_timelines_are_not_known() {
    let mut scene = hold();
    scene.primary(1, 1).primary(2, 2).primary(1, 1).observe(1, HostState::Failed { until: Time(99) }).hint(2, true);
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2));
    let mut unknown = hold();
    let alive = HostState::Alive { role: Some(HostRole::Primary) };
    unknown.observe(1, alive).observe(2, alive);
    assert_eq!(unknown.decision(), (Some(1), 1));
    unknown.hint(2, true);
    assert_eq!(unknown.observe(2, alive).decision(), (Some(2), 2));
    unknown.now += HOUR_US;
    assert_eq!(unknown.observe(1, alive).decision(), (Some(2), 2));
}

#[test]
fn a_copy_on_the_same_timeline_gets_nothing_while_its_primary_is_restarted() {
    let mut scene = Scene::new(SplitBrain::HighestTimeline);
    scene.primary(1, 4).primary(2, 4);
    assert_eq!(scene.decision(), (Some(1), 1));
    scene.observe(1, HostState::Failed { until: Time(99) });
    assert_eq!(scene.primary(2, 4).decision(), (Some(1), 1));
}

#[test]
fn a_list_without_its_primary_takes_none_that_is_out_of_date() {
    let mut scene = hold();
    scene.primary(1, 1).standby(2, 1).standby(3, 1).lose(1).primary(3, 2).lose(3);
    let mut database = Database::new("d", [1, 2].map(address).to_vec());
    database.target_session_attrs = TargetSessionAttrs::Primary;
    scene
        .primaries
        .configure(&Settings { databases: [("d".to_owned(), Arc::new(database))].into(), ..Settings::default() });
    let decision = |scene: &Scene| {
        let known = scene.primaries.of(&[1, 2].map(address)).expect("the list");
        (known.host().map(|host| host.port), known.epoch)
    };
    assert_eq!(decision(scene.primary(1, 1)), (None, 2), "it was frozen and wakes up");
    assert_eq!(decision(scene.primary(2, 3)), (Some(2), 3));
}

#[test]
fn a_restored_primary_on_the_same_timeline_is_taken_if_somebody_says_so() {
    let mut scene = hold();
    scene.primary(1, 4).lose(1).primary(2, 4).hint(2, true);
    assert_eq!(scene.primary(2, 4).decision(), (Some(2), 2));
}

#[test]
fn a_host_that_fails_for_a_moment_ends_no_dispute() {
    let mut scene = hold();
    scene.primary(1, 1).primary(2, 2).primary(1, 1).observe(1, HostState::Failed { until: Time(99) });
    assert_eq!(scene.primary(2, 2).decision(), (None, 1));
    assert_eq!(scene.primary(1, 1).decision(), (None, 1));
    scene.observe(1, HostState::Failed { until: Time(99) }).now += 60_000_000;
    assert_eq!(scene.primary(2, 2).decision(), (Some(2), 2), "it is gone");
}

#[test]
fn a_promotion_that_a_login_has_shown_is_on_a_later_timeline() {
    let mut scene = hold();
    let alive = HostState::Alive { role: Some(HostRole::Primary) };
    scene.primary(1, 1).standby(2, 1).lose(1).observe(2, alive);
    assert_eq!(scene.decision(), (Some(2), 2));
    assert_eq!(scene.lose(2).primary(1, 1).decision(), (Some(2), 2), "the one before is out of date");
}

#[test]
fn two_at_the_start_are_told_once() {
    let mut scene = hold();
    let origin =
        |timeline| Origin { role: HostRole::Primary, system: Some(7), timeline: Some(timeline), started: None };
    let alive = HostState::Alive { role: Some(HostRole::Primary) };
    scene.primaries.note_origin(&address(1), origin(1));
    scene.primaries.note_origin(&address(2), origin(2));
    scene.observed.insert(address(2), Upstream::new(Time(0), alive));
    assert_eq!(scene.observe(1, alive).decision(), (None, 0));
    let since = scene.primaries.of(&[1, 2, 3].map(address)).expect("the list").since;
    scene.observe(1, alive).observe(2, alive);
    assert_eq!(scene.primaries.of(&[1, 2, 3].map(address)).expect("the list").since, since);
    scene.hint(2, true);
    assert_eq!(scene.observe(2, alive).decision(), (Some(2), 1));
}

#[test]
fn a_primary_that_is_upgraded_where_it_is_stays() {
    let mut scene = hold();
    scene.primary(1, 5).lose(1).answers(1, HostRole::Primary, 8, 1);
    assert_eq!(scene.decision(), (Some(1), 1));
    assert_eq!(scene.lose(1).answers(2, HostRole::Primary, 8, 2).decision(), (Some(2), 2));
}

#[test]
fn a_list_that_gets_another_host_keeps_its_primary() {
    let mut scene = hold();
    scene.primary(1, 1).lose(1).primary(2, 2).primary(1, 1);
    let mut database = Database::new("d", [1, 2, 3, 4].map(address).to_vec());
    database.target_session_attrs = TargetSessionAttrs::Primary;
    scene
        .primaries
        .configure(&Settings { databases: [("d".to_owned(), Arc::new(database))].into(), ..Settings::default() });
    let known = scene.primaries.of(&[1, 2, 3, 4].map(address)).expect("the list");
    assert_eq!((known.host().map(|host| host.port), known.epoch), (Some(2), 2));
}

#[test]
fn an_upgrade_keeps_the_decision() {
    let mut old = hold();
    old.primary(1, 1).lose(1).primary(2, 2).primary(1, 1);
    let hosts = [1, 2, 3].map(address);
    let known = old.primaries.of(&hosts).expect("the list").clone();
    let mut new = hold();
    new.primary(1, 1).primary(2, 2).primary(1, 1);
    assert_eq!(new.decision(), (None, 1), "it has not seen that host 1 was frozen");
    let decisions = new.primaries.inherit(&hosts, &known);
    assert_eq!((&decisions[0].primary, new.primary(1, 1).decision()), (&known, (Some(2), 2)));
    assert_eq!(new.primaries.inherit(&hosts, &known), [], "it is the same");
    assert_eq!(new.primaries.inherit(&[4, 5].map(address), &known), [], "no database has one of these hosts");
    new.lose(2).primary(3, 3);
    assert_eq!(new.primaries.inherit(&hosts, &known), [], "a later promotion was seen here");
    assert_eq!(new.primaries.inherit(&hosts, &Primary::default()), [], "nothing was decided");
}

#[test]
fn an_upgrade_with_other_hosts_keeps_the_decision() {
    let mut old = hold();
    old.primary(1, 1).lose(1).primary(2, 2).primary(1, 1);
    let known = old.primaries.of(&[1, 2, 3].map(address)).expect("the list").clone();
    // A host was taken out of the list; another one was listed before.
    for hosts in [vec![1, 2], vec![3, 2, 1], vec![1, 2, 4]] {
        let mut new = hold();
        new.primary(1, 1);
        let decisions = new.primaries.inherit(&hosts.iter().copied().map(address).collect::<Vec<_>>(), &known);
        assert_eq!((decisions.len(), new.primary(1, 1).decision()), (1, (Some(2), 2)), "{hosts:?}");
    }
    // The primary itself was taken out: none that is out of date takes its place.
    let mut new = hold();
    let gone = Primary { writes: Writes::At(Arc::new(address(9))), ..known };
    assert_eq!(new.primaries.inherit(&[9, 1, 2].map(address), &gone).len(), 1);
    assert_eq!(new.primary(1, 1).decision().0, None);
    assert_eq!(new.primary(3, 3).decision().0, Some(3));
}

#[test]
fn a_server_under_two_addresses_is_one() {
    let mut scene = hold();
    let origin = Origin { role: HostRole::Primary, system: Some(7), timeline: Some(1), started: Some("1".into()) };
    scene.primary(1, 1).primaries.note_origin(&address(2), origin);
    assert_eq!(scene.observe(2, HostState::Alive { role: Some(HostRole::Primary) }).decision(), (Some(1), 1));
}

#[test]
fn without_a_prober_the_primary_of_before_keeps_the_writes_while_it_is_alive() {
    let mut scene = hold();
    let alive = |role| HostState::Alive { role: Some(role) };
    scene.observe(1, alive(HostRole::Primary)).observe(2, alive(HostRole::Primary));
    assert_eq!(scene.decision(), (Some(1), 1));
    assert_eq!(scene.observe(1, HostState::Failed { until: Time(99) }).decision(), (Some(2), 2));
    assert_eq!(scene.observe(1, alive(HostRole::Primary)).decision(), (Some(2), 2));
}

#[test]
fn a_dispute_on_one_timeline_ends_when_one_of_the_two_is_a_standby() {
    for ends in [2, 3] {
        let other = 5 - ends;
        let mut scene = hold();
        scene.primary(1, 1).standby(2, 1).standby(3, 1).lose(1).primary(2, 2);
        scene.primary(3, 2).primary(2, 2);
        assert_eq!(scene.decision(), (None, 2), "each was promoted by itself");
        assert_eq!(scene.standby(ends, 2).decision().0, Some(other));
    }
}

#[test]
fn an_administrator_s_choice_outlasts_the_host_that_was_chosen() {
    let mut scene = hold();
    scene.primary(1, 1).standby(3, 1).primary(2, 2);
    scene.hint(1, true);
    assert_eq!(scene.primary(1, 1).decision().0, Some(1));
    assert_eq!(scene.lose(1).primary(3, 2).decision().0, Some(3));
    assert_eq!(scene.primary(2, 2).decision().0, Some(3), "it was passed over");
}

#[test]
fn an_administrator_s_choice_counts_against_a_host_that_is_down() {
    let mut scene = hold();
    scene.primary(1, 4).standby(2, 4).lose(1);
    scene.hint(2, true);
    assert_eq!(scene.primary(2, 4).decision().0, Some(2), "it was restored on that timeline");
    assert_eq!(scene.primary(1, 4).decision().0, Some(2), "its machine boots");
}

#[test]
fn a_host_that_is_said_not_to_be_the_primary_does_not_follow_one_that_is_lost() {
    let mut scene = hold();
    scene.primary(1, 1).standby(2, 1).standby(3, 1).lose(1);
    scene.hint(2, false);
    assert_eq!(scene.primary(2, 2).decision().0, Some(1), "promoted by mistake");
    assert_eq!(scene.primary(3, 2).decision().0, Some(3));
}

#[test]
fn of_two_hosts_of_another_system_the_one_that_is_left_is_named() {
    let mut scene = hold();
    scene.primary(1, 1).answers(2, HostRole::Standby, 8, 1).answers(3, HostRole::Standby, 8, 1);
    scene.standby(2, 1);
    assert_eq!(scene.said, "not used, since they belong to another database system than the primary: db:3");
}
