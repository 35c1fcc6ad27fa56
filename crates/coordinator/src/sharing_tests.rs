//! The arithmetic as tables; then a coordinator with model pools, at random, held to the bound that `sharing` states.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::Machine;
use machine::action::Action;
use machine::mail::{Mail, ToCoordinator, ToWorker};
use queueing::classes::{Class, ClassId, ClassSet, Classes, Pattern, Rule};
use settings::{DatabaseSettings, PoolSize};

use super::sharing::{Claim, Group, PACE, SLICE, UNIT, shares};
use super::*;

fn claim(pool: u32, weight: u32, tokens: u32, wants: u32) -> Claim {
    Claim { pool: PoolId(pool), weight, min: 0, tokens, needed: wants, coming: 0, overdue: 0, tenured: tokens }
}

/// Shares in hundredths of a token.
fn hundredths(limit: u32, claims: &[Claim]) -> Vec<u64> {
    shares(limit, claims).into_iter().map(|share| share * 100 / UNIT).collect()
}

#[test]
fn shares_go_by_weight_up_to_what_is_asked_for() {
    assert_eq!(hundredths(4, &[]), []);
    assert_eq!(hundredths(4, &[claim(0, 1, 4, 4), claim(1, 1, 0, 4)]), [200, 200]);
    assert_eq!(hundredths(4, &[claim(0, 1, 4, 4), claim(1, 1, 0, 4), claim(2, 1, 0, 4)]), [133, 133, 133]);
    assert_eq!(hundredths(7, &[claim(0, 1, 4, 9), claim(1, 2, 0, 9), claim(2, 4, 0, 9)]), [100, 200, 400]);
    // One has enough with one; the others share what that leaves.
    assert_eq!(hundredths(4, &[claim(0, 1, 1, 0), claim(1, 1, 3, 4), claim(2, 1, 0, 4)]), [100, 150, 150]);
    assert_eq!(hundredths(9, &[claim(0, 1, 1, 0), claim(1, 1, 2, 1), claim(2, 1, 5, 1)]), [100, 300, 500]);
    // More than there are tokens.
    assert_eq!(hundredths(1, &[claim(0, 1, 1, 0), claim(1, 1, 0, 1), claim(2, 1, 0, 1), claim(3, 1, 0, 1)]), [25; 4]);
}

#[test]
fn a_minimum_is_kept_where_the_cap_suffices_for_all_of_them() {
    let min = |min, claim: Claim| Claim { min, ..claim };
    assert_eq!(hundredths(4, &[min(3, claim(0, 1, 3, 1)), claim(1, 1, 1, 4)]), [300, 100]);
    assert_eq!(hundredths(4, &[min(3, claim(0, 1, 3, 1)), claim(1, 1, 1, 4), claim(2, 1, 0, 4)]), [300, 50, 50]);
    // No more than it has work for.
    assert_eq!(hundredths(4, &[min(3, claim(0, 1, 1, 0)), claim(1, 1, 3, 4)]), [100, 300]);
    // Who is given more than its minimum anyway is not given it twice.
    assert_eq!(hundredths(8, &[min(2, claim(0, 1, 3, 9)), claim(1, 1, 5, 9)]), [400, 400]);
    // They cannot all be kept: by weight.
    assert_eq!(hundredths(4, &[min(3, claim(0, 1, 3, 9)), min(3, claim(1, 1, 1, 9))]), [200, 200]);
}

#[test]
fn no_share_is_lost_or_made() {
    let mut random = Random(7);
    for _ in 0..2_000 {
        let claims: Vec<Claim> = (0..random.range(1, 9))
            .map(|pool| Claim {
                min: random.range(0, 3) as u32,
                ..claim(pool as u32, random.range(1, 5) as u32, random.range(0, 5) as u32, random.range(0, 5) as u32)
            })
            .collect();
        let limit = random.range(1, 20) as u32;
        let found = shares(limit, &claims);
        let demand: u64 = claims.iter().map(|claim| u64::from(claim.tokens + claim.needed)).sum();
        let (sum, most) = (found.iter().sum::<u64>(), demand.min(u64::from(limit)) * UNIT);
        assert!(sum <= most && sum + claims.len() as u64 > most, "{limit}: {claims:?} get {found:?}");
        let given = |(claim, share): (&Claim, &u64)| *share <= u64::from(claim.tokens + claim.needed) * UNIT;
        assert!(claims.iter().zip(&found).all(given), "{limit}: {claims:?} get {found:?}");
    }
}

fn at(ms: u64) -> Time {
    Time(ms * 1000)
}

fn turn(group: &mut Group, ms: u64, limit: u32, claims: &[Claim]) -> Option<(u32, u32)> {
    group.update_accounts(at(ms), limit, claims);
    let turn = group.next_transfer(at(ms), limit, claims)?;
    group.transfer_made(at(ms));
    Some((turn.from.0, turn.to.0))
}

#[test]
fn who_is_above_its_share_gives_one_back_and_only_one() {
    let mut group = Group::default();
    let coming = |coming, claim: Claim| Claim { coming, ..claim };
    // A newcomer, below the whole part of its share: no need to have waited.
    assert_eq!(turn(&mut group, 0, 4, &[claim(1, 1, 0, 4), claim(0, 1, 4, 4)]), Some((0, 1)));
    // The next one only after a pause.
    assert_eq!(turn(&mut group, 1, 4, &[claim(1, 1, 0, 4), coming(1, claim(0, 1, 4, 4))]), None);
    assert_eq!(turn(&mut group, 17, 4, &[claim(1, 1, 0, 4), coming(1, claim(0, 1, 4, 4))]), Some((0, 1)));
    // What comes is enough.
    assert_eq!(turn(&mut group, 99, 4, &[claim(1, 1, 0, 4), coming(2, claim(0, 1, 4, 4))]), None);
    // Halves: nobody gives anything any more, however long it lasts.
    assert_eq!(turn(&mut group, 5_000, 4, &[claim(1, 1, 2, 2), claim(0, 1, 2, 4)]), None);
}

#[test]
fn nobody_gives_what_it_has_not_had_for_a_slice() {
    let mut group = Group::default();
    let fresh = |tenured, claim: Claim| Claim { tenured, ..claim };
    assert_eq!(turn(&mut group, 0, 1, &[claim(1, 1, 0, 1), fresh(0, claim(0, 1, 1, 1))]), None);
    assert_eq!(turn(&mut group, 250, 1, &[claim(1, 1, 0, 1), fresh(1, claim(0, 1, 1, 1))]), Some((0, 1)));
}

#[test]
fn three_take_turns_at_one_token() {
    let mut group = Group::default();
    let (mut holder, mut seen) = (0, Vec::new());
    for step in 0..9 {
        let claims: Vec<Claim> = (0..3).map(|pool| claim(pool, 1, u32::from(pool == holder), 1)).collect();
        group.update_accounts(at(step * 260), 1, &claims);
        if let Some((_, to)) = turn(&mut group, step * 260, 1, &claims) {
            holder = to;
            let claims: Vec<Claim> = (0..3).map(|pool| claim(pool, 1, u32::from(pool == holder), 1)).collect();
            group.update_accounts(at(step * 260), 1, &claims);
        }
        seen.push(holder);
    }
    // The first of them need not have waited; then each in its turn.
    assert_eq!(seen, [1, 0, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn who_comes_has_neither_credit_nor_debt() {
    let mut group = Group::default();
    // The second has been away for long while somebody waited in others, and the third has just had more than its share.
    let claims = [claim(0, 1, 2, 1), claim(2, 1, 0, 2)];
    group.update_accounts(at(0), 2, &claims);
    group.update_accounts(at(1_000), 2, &claims);
    assert_eq!((group.behind_us(PoolId(0)), group.behind_us(PoolId(2))), (-1_000_000, 1_000_000));
    let claims = [claim(0, 1, 2, 1), claim(1, 1, 0, 2), claim(2, 1, 0, 2)];
    group.update_accounts(at(1_000), 2, &claims);
    assert_eq!(group.behind_us(PoolId(1)), 0);
    // The first goes, and comes back after longer than a slice.
    group.update_accounts(at(1_001), 2, &[claim(2, 1, 2, 2)]);
    group.update_accounts(at(1_400), 2, &[claim(2, 1, 2, 2)]);
    group.update_accounts(at(1_400), 2, &[claim(0, 1, 0, 1), claim(2, 1, 2, 2)]);
    assert_eq!(group.behind_us(PoolId(0)), 0);
}

#[test]
fn a_pause_shorter_than_a_slice_forgets_nothing() {
    let mut group = Group::default();
    group.update_accounts(at(0), 1, &[claim(0, 1, 1, 1), claim(1, 1, 0, 1)]);
    group.update_accounts(at(100), 1, &[claim(0, 1, 1, 1)]);
    group.update_accounts(at(200), 1, &[claim(0, 1, 1, 1), claim(1, 1, 0, 1)]);
    assert_eq!(group.behind_us(PoolId(1)), 50_000);
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ (self.0 >> 33);
        mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33
    }

    fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }
}

/// A pool as a worker has it: so many clients who all ask again as soon as they are answered.
#[derive(Debug, Default)]
struct Model {
    clients: u32,
    /// Whose work it has, and what that weighs beside the others', if not 1.
    classes: ClassSet,
    weight: u32,
    longest_ms: u64,
    from_ms: u64,
    until_ms: u64,
    /// When each server is ready, or its transaction ends; `None`: idle.
    servers: Vec<Option<u64>>,
    opening: Vec<u64>,
    asked: u32,
    yields: u32,
    /// Since `measured`: token-milliseconds, and those that its share is.
    held: u64,
    due: u64,
    /// What it had had beyond its share when that began.
    ahead_ms: u64,
    opened: u64,
}

impl Model {
    fn wanted(&self) -> u32 {
        let busy = self.servers.iter().flatten().count() as u32;
        self.clients.saturating_sub(busy)
    }

    fn is_there(&self, ms: u64) -> bool {
        (self.from_ms..self.until_ms).contains(&ms)
    }
}

struct Play {
    coordinator: Coordinator,
    pools: Vec<Model>,
    random: Random,
    ms: u64,
    opening_ms: u64,
    /// When connections were opened by transfers: the milliseconds.
    turns: Vec<u64>,
}

impl Play {
    fn new(seed: u64, cap: u32, pools: Vec<Model>) -> Play {
        let mut settings = Settings::default();
        settings.global.pools.max_server_connections = cap;
        settings.global.pools.default_pool_size = PoolSize::Fixed(100);
        for pool in 0..pools.len() {
            let entry = connections::databases::Database::new(&format!("db{pool}"), Vec::new());
            settings.databases.insert(entry.name.clone(), Arc::new(entry));
        }
        let mut coordinator = Coordinator::new(1, Arc::new(settings));
        for pool in 0..pools.len() {
            let key = PoolKey { database: format!("db{pool}").as_str().into(), user: "u".into() };
            assert_eq!(coordinator.pool_of(&key), Some(PoolId(pool as u32 + 1)));
        }
        Play { coordinator, pools, random: Random(seed), ms: 0, opening_ms: 5, turns: Vec::new() }
    }

    fn tell(&mut self, mail: ToCoordinator) {
        let mut mails = VecDeque::from([mail]);
        while let Some(mail) = mails.pop_front() {
            self.step(Event::Mail(Mail::ToCoordinator(mail)), &mut mails);
        }
    }

    fn step(&mut self, event: Event<'_>, mails: &mut VecDeque<ToCoordinator>) {
        let mut actions = Actions::new();
        self.coordinator.step(at(self.ms), &Board::new(1), event, &mut actions);
        for action in actions.take() {
            if let Action::Post { mail: Mail::ToWorker(_, mail), .. } = action {
                mails.extend(self.answer(mail));
            }
        }
    }

    /// What the worker does.
    fn answer(&mut self, mail: ToWorker) -> Option<ToCoordinator> {
        let worker = WorkerId(0);
        let model = |pools: &'_ mut Vec<Model>, pool: PoolId| std::mem::take(&mut pools[pool.0 as usize - 1]);
        let (pool, mut entry) = match &mail {
            ToWorker::Granted(Grant { pool, .. })
            | ToWorker::Recall { pool, .. }
            | ToWorker::Inquire { pool }
            | ToWorker::Dropped { pool, .. } => (*pool, model(&mut self.pools, *pool)),
            other => panic!("{other:?} is not of servers"),
        };
        let coming = entry.opening.len() as u32 + entry.servers.iter().filter(|server| server.is_none()).count() as u32;
        let reply = match mail {
            ToWorker::Granted(_) => {
                entry.asked -= 1;
                if entry.is_there(self.ms) && entry.wanted() > coming {
                    entry.opening.push(self.ms + self.opening_ms);
                    entry.opened += 1;
                    None
                } else {
                    Some(ToCoordinator::Freed { pool, holder: worker.into(), fresh: true })
                }
            }
            ToWorker::Recall { busy, .. } => {
                if let Some(idle) = entry.servers.iter().position(Option::is_none) {
                    entry.servers.remove(idle);
                    Some(ToCoordinator::Freed { pool, holder: worker.into(), fresh: false })
                } else if busy && entry.servers.len() + entry.opening.len() > entry.yields as usize {
                    entry.yields += 1;
                    self.turns.push(self.ms);
                    None
                } else {
                    Some(ToCoordinator::NothingIdle { pool, holder: worker.into(), busy })
                }
            }
            ToWorker::Inquire { .. } => {
                let count = if entry.is_there(self.ms) { entry.wanted().saturating_sub(coming) } else { 0 };
                Some(ToCoordinator::StillNeeded { pool, holder: worker.into(), count, classes: entry.classes })
            }
            ToWorker::Dropped { count, .. } => {
                entry.asked -= count;
                None
            }
            _ => None,
        };
        self.pools[pool.0 as usize - 1] = entry;
        reply
    }

    /// One millisecond: transactions end, servers are ready, somebody asks, the coordinator's time comes.
    fn tick(&mut self) {
        self.ms += 1;
        for index in 0..self.pools.len() {
            let (pool, worker, ms) = (PoolId(index as u32 + 1), WorkerId(0), self.ms);
            let entry = &mut self.pools[index];
            let (there, classes) = (entry.is_there(ms), entry.classes);
            let ready = entry.opening.iter().filter(|at| **at <= ms).count();
            entry.opening.retain(|at| *at > ms);
            entry.servers.extend(std::iter::repeat_n(None, ready));
            entry
                .servers
                .iter_mut()
                .filter(|server| server.is_some_and(|end| end <= ms))
                .for_each(|server| *server = None);
            let mut freed = 0;
            while entry.yields > 0
                && let Some(idle) = entry.servers.iter().position(Option::is_none)
            {
                entry.servers.remove(idle);
                entry.yields -= 1;
                freed += 1;
            }
            while there
                && entry.wanted() > 0
                && let Some(idle) = entry.servers.iter().position(Option::is_none)
            {
                entry.servers[idle] = Some(ms + self.random.range(1, entry.longest_ms));
            }
            let coming = (entry.opening.len() as u32) + entry.asked;
            let missing =
                if there { entry.wanted().saturating_sub(coming).min(4_u32.saturating_sub(coming)) } else { 0 };
            entry.asked += missing;
            for _ in 0..ready {
                self.tell(ToCoordinator::Opened { pool, holder: worker.into() });
            }
            for _ in 0..freed {
                self.tell(ToCoordinator::Freed { pool, holder: worker.into(), fresh: false });
            }
            for _ in 0..missing {
                self.tell(ToCoordinator::RequestServer { pool, holder: worker.into(), reserve: false, classes });
            }
        }
        if self.coordinator.next_deadline().is_some_and(|due| due <= at(self.ms)) {
            let mut mails = VecDeque::new();
            self.step(Event::DeadlineReached, &mut mails);
            for mail in mails {
                self.tell(mail);
            }
        }
        self.coordinator.check().expect("the coordinator's own invariants hold");
    }

    /// Plays until then, and counts from the last arrival on.
    fn run(&mut self, cap: u32, until_ms: u64) {
        let last = self.pools.iter().map(|pool| pool.from_ms).max().unwrap_or(0);
        while self.ms < until_ms {
            self.tick();
            if self.ms < last {
                continue;
            }
            if self.ms == last {
                for index in 0..self.pools.len() {
                    self.pools[index].ahead_ms = (-self.behind_us(index) / 1_000).max(0) as u64;
                }
            }
            let there = self.pools.iter().map(|pool| if pool.is_there(self.ms) { pool.clients } else { 0 });
            let claims: Vec<Claim> =
                there.zip(&self.pools).map(|(clients, pool)| claim(0, pool.weight.max(1), 0, clients)).collect();
            for (index, share) in shares(cap, &claims).into_iter().enumerate() {
                self.pools[index].due += share;
                self.pools[index].held += u64::from(self.coordinator.held(PoolId(index as u32 + 1)));
            }
        }
    }

    fn behind_us(&self, index: usize) -> i64 {
        let pool = PoolId(index as u32 + 1);
        self.coordinator.requests.behind_us(pool)
    }

    /// The bound of `sharing`, for every pool; and how many connections were opened by transfers.
    fn check(&self, cap: u32, seed: u64) {
        let longest = self.pools.iter().map(|pool| pool.longest_ms).max().unwrap_or(0);
        for (index, pool) in self.pools.iter().enumerate() {
            let measured = self.ms - self.pools.iter().map(|pool| pool.from_ms).max().unwrap_or(0);
            let share = pool.due.div_ceil(UNIT * measured);
            let slack = share * (2 * SLICE.as_millis() as u64 + longest + self.opening_ms) + pool.ahead_ms;
            let due = pool.due / UNIT;
            assert!(
                pool.held + slack >= due,
                "seed {seed}: pool {index} of {cap} tokens held {} of {due} ms, {slack} are allowed: {:?}",
                pool.held,
                self.pools
            );
        }
        self.check_turns(cap, seed);
    }

    fn check_turns(&self, cap: u32, seed: u64) {
        for (index, turn) in self.turns.iter().enumerate() {
            let within = |span_ms: u64| self.turns[index..].iter().take_while(|other| **other < turn + span_ms).count();
            let paced = 1_000 / PACE.as_millis() as usize + 1;
            assert!(within(1_000) <= paced, "seed {seed}: {} turns in a second", within(1_000));
            let tokens = cap as usize * (1_000 / SLICE.as_millis() as usize + 1);
            assert!(within(1_000) <= tokens, "seed {seed}: {} turns in a second for {cap} tokens", within(1_000));
        }
    }
}

#[test]
fn a_greedy_pool_leaves_the_others_their_halves() {
    let model = |clients, from_ms| Model { clients, from_ms, longest_ms: 10, until_ms: u64::MAX, ..Model::default() };
    let mut play = Play::new(1, 4, vec![model(500, 0), model(2, 1_000)]);
    play.run(4, 21_000);
    play.check(4, 1);
    let opened: Vec<u64> = play.pools.iter().map(|pool| pool.opened).collect();
    let held: Vec<u64> = play.pools.iter().map(|pool| pool.held).collect();
    // Halves need no transfers after the first ones.
    assert_eq!((opened, play.turns.len()), (vec![4, 2], 2));
    assert!(held[1] > 39_800, "{held:?}");
}

#[test]
fn seven_pools_take_turns_at_two_tokens() {
    let model = |clients| Model { clients, longest_ms: 20, until_ms: u64::MAX, ..Model::default() };
    let mut play = Play::new(1, 2, (0..7).map(|pool| model(1 + pool * 10)).collect());
    play.run(2, 60_000);
    play.check(2, 1);
    let held: Vec<u64> = play.pools.iter().map(|pool| pool.held).collect();
    let (least, most) = (held.iter().min(), held.iter().max());
    assert!(*least.expect("seven") * 100 > 95 * *most.expect("seven"), "{held:?}");
    // Some eight connections a second, which is what two tokens may have.
    let opened: u64 = play.pools.iter().map(|pool| pool.opened).sum();
    assert!((300..=2 * 4 * 60 + 7).contains(&opened), "{opened} were opened in a minute");
}

#[test]
fn random_pools_get_their_shares() {
    for seed in 0..25 {
        let mut random = Random(seed);
        let cap = random.range(1, 12) as u32;
        let pools = (0..random.range(2, 12)).map(|_| Model {
            clients: random.range(1, 30) as u32,
            longest_ms: [2, 20, 200, 1_000][random.range(0, 3) as usize],
            from_ms: random.range(0, 3_000),
            until_ms: u64::MAX,
            ..Model::default()
        });
        let pools = pools.collect();
        let mut play = Play::new(seed, cap, pools);
        play.run(cap, 30_000);
        play.check(cap, seed);
    }
}

#[test]
fn nothing_is_lost_when_pools_come_and_go() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let cap = random.range(1, 6) as u32;
        let pools = (0..random.range(2, 8)).map(|_| {
            let from_ms = random.range(0, 5_000);
            let until_ms = from_ms + random.range(1, 3_000);
            Model { clients: random.range(1, 9) as u32, longest_ms: 50, from_ms, until_ms, ..Model::default() }
        });
        let mut pools: Vec<Model> = pools.collect();
        // And one that is there from beginning to end.
        pools.push(Model { clients: 100, longest_ms: 50, until_ms: u64::MAX, ..Model::default() });
        let stays = PoolId(pools.len() as u32);
        let mut play = Play::new(seed, cap, pools);
        while play.ms < 10_000 {
            play.tick();
        }
        assert_eq!(play.coordinator.held(stays), cap, "seed {seed}: who is left gets everything");
        play.check_turns(cap, seed);
    }
}

/// Held by three pools of these classes, whose weights are 1, 4 and 2, under a cap of 7.
fn held_by_classes(seed: u64, pools: [(&[u8], u32); 3]) -> Vec<u64> {
    let any = || vec![Pattern::All];
    let weighted = |name, weight| Class { weight, ..Class::new(name) };
    let rule = Rule { databases: any(), users: any(), applications: any(), tags: Vec::new(), class: ClassId(1) };
    let all = vec![Class::new("default"), weighted("web", 4), weighted("jobs", 2)];
    let classes = Arc::new(Classes { all, rules: vec![rule], ..Classes::default() });
    let models = pools.iter().map(|(ids, weight)| {
        let mut classes = ClassSet::default();
        ids.iter().for_each(|id| classes.insert(ClassId(*id)));
        Model { clients: 20, classes, weight: *weight, longest_ms: 20, until_ms: u64::MAX, ..Model::default() }
    });
    let mut play = Play::new(seed, 7, models.collect());
    let settings = Settings { classes, ..Settings::clone(&play.coordinator.settings) };
    play.coordinator.settings = Arc::new(settings);
    play.run(7, 30_000);
    play.check(7, seed);
    play.pools.iter().map(|pool| pool.held).collect()
}

#[test]
fn a_class_has_its_share_of_a_cap_wherever_it_works() {
    for seed in 0..5 {
        // Each pool another class's.
        let held = held_by_classes(seed, [(&[0], 1), (&[1], 4), (&[2], 2)]);
        let share = |index: usize, parts: u64| (held[index] * 7 * 100).div_ceil(held.iter().sum::<u64>() * parts);
        assert!((95..=105).contains(&share(0, 1)) && (95..=105).contains(&share(1, 4)), "seed {seed}: {held:?}");
        // Two pools are one class's: they have its share together.
        let held = held_by_classes(seed, [(&[2], 2), (&[1], 2), (&[1], 2)]);
        let share = |index: usize| (held[index] * 3 * 100).div_ceil(held.iter().sum());
        assert!((0..3).all(|pool| (95..=105).contains(&share(pool))), "seed {seed}: {held:?}");
        // One pool has two classes' work: it may have what both may.
        let held = held_by_classes(seed, [(&[0, 1], 5), (&[2], 1), (&[2], 1)]);
        let share = (held[0] * 7 * 100).div_ceil(held.iter().sum::<u64>() * 5);
        assert!((95..=105).contains(&share), "seed {seed}: {held:?}");
    }
}

/// Pools that all want servers at one moment: so many asks, nobody answers.
fn storm(pools: usize) -> (Play, usize) {
    let mut play = Play::new(
        1,
        0,
        (0..pools).map(|_| Model { clients: 9, longest_ms: 9, until_ms: u64::MAX, ..Model::default() }).collect(),
    );
    play.opening_ms = 5_000;
    play.tick();
    let granted = play.pools.iter().map(|pool| pool.opening.len()).sum();
    (play, granted)
}

#[test]
fn so_many_log_in_at_once_and_no_more() {
    let (mut play, granted) = storm(40);
    assert_eq!(granted, units::limits::OPENING_PROCESS_MAX, "of 160 that are asked for");
    // One is done: one more.
    play.tell(ToCoordinator::Opened { pool: PoolId(1), holder: WorkerId(0).into() });
    let opening = |play: &Play| play.pools.iter().map(|pool| pool.opening.len()).sum::<usize>();
    assert_eq!(opening(&play), granted + 1);
    // Those that take longer than a second are waited for no more: their host may be down.
    while play.ms < 1_050 {
        play.tick();
    }
    assert_eq!(opening(&play), 2 * granted + 1);
}

#[test]
fn what_min_pool_size_keeps_is_replaced_ahead_of_its_end() {
    let database = connections::databases::Database {
        forced_user: Some("u".to_owned()),
        settings: DatabaseSettings {
            min_pool_size: Some(2),
            pool_size: Some(PoolSize::Fixed(3)),
            server_lifetime: Some(Duration::from_secs(100)),
            ..DatabaseSettings::default()
        },
        ..connections::databases::Database::new("db", Vec::new())
    };
    let settings =
        Settings { databases: BTreeMap::from([("db".to_owned(), Arc::new(database))]), ..Settings::default() };
    let mut coordinator = Coordinator::new(1, Arc::new(settings));
    let mut granted_at = Vec::new();
    for ms in (0..96_500).step_by(100) {
        let mut actions = Actions::new();
        if coordinator.next_deadline().is_some_and(|due| due <= at(ms)) {
            coordinator.step(at(ms), &Board::new(1), Event::DeadlineReached, &mut actions);
        }
        let grants = actions
            .take()
            .into_iter()
            .filter(|action| matches!(action, Action::Post { mail: Mail::ToWorker(_, ToWorker::Granted(_)), .. }));
        granted_at.extend(grants.map(|_| ms));
    }
    // Two at once, since the user is known; the third place is for whoever comes after the first of them.
    assert_eq!(granted_at, [0, 400, 95_200]);
}
