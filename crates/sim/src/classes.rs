//! Worlds in which servers are shared by classes.

use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use queueing::classes::{Class, ClassId, Classes, Limits, Long, Pattern, Rate, Rule};

use crate::parameters::{self, APPLICATION_NAME};
use crate::random::Random;

/// In one world of four, drawn from their own stream: classes by `application_name` and by user.
pub(crate) fn decide(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x636c_6173_7365);
    if !random.chance(250) {
        return;
    }
    let any = || vec![Pattern::All];
    let exactly = |name: &str| vec![Pattern::Exactly(name.as_bytes().into())];
    let mut classes = Classes { ageing: Duration::from_millis(random.skewed(10, 5_000)), ..Classes::default() };
    for index in 0..random.range(1, 5) {
        let mut class = Class::new(&format!("class{index}"));
        class.weight = random.skewed(1, 16) as u32;
        class.priority = u8::from(random.chance(200));
        class.min = if random.chance(200) { random.range(1, 3) as u32 } else { 0 };
        class.max = random.chance(200).then(|| random.range(1, 4) as u32);
        let id = ClassId(classes.all.len() as u8);
        classes.all.push(class);
        let mut rule = Rule { databases: any(), users: any(), applications: any(), tags: Vec::new(), class: id };
        if random.chance(600) {
            let digit = random.below(u64::from(parameters::choices(APPLICATION_NAME))) as u8;
            rule.applications = exactly(parameters::value(APPLICATION_NAME, digit));
        } else {
            rule.users = exactly(&format!("user{}", random.below(4)));
        }
        classes.rules.push(rule);
    }
    // Also where that class has a rule of its own.
    let last = ClassId(classes.all.len() as u8 - 1);
    if random.chance(300) {
        let long = Long { class: last, after: Duration::from_micros(random.skewed(100, 100_000)) };
        let lanes = classes.all.len() - 1;
        classes.all[..lanes].iter_mut().for_each(|class| class.long = random.chance(600).then_some(long));
    }
    settings.classes = Arc::new(classes);
}

/// In another one of four: limits on classes. They delay but never refuse, since model clients do not expect such a
/// refusal.
pub(crate) fn limit(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x6c69_6d69_7473);
    if random.chance(250) {
        limit_by(&mut random, settings);
    }
}

/// Sets limits, replacing those of before.
pub(crate) fn limit_by(random: &mut Random, settings: &mut Settings) {
    for class in &mut Arc::make_mut(&mut settings.classes).all {
        let mut rate = |per_mille: u32, low: u64, high: u64| {
            let (per_second, burst) = (random.skewed(low, high) as u32, random.skewed(1, 50) as u32);
            random.chance(per_mille).then_some(Rate { per_second, burst })
        };
        let limits = Limits {
            transactions: rate(500, 100, 20_000),
            queries: rate(300, 100, 20_000),
            logins: rate(300, 20, 2_000),
            ..Limits::default()
        };
        let active = random.chance(600).then(|| random.skewed(1, 12) as u32);
        class.limits = Limits { active, ..limits };
    }
    let statements = random.range(1, 4) as u32;
    settings.global.classes.fingerprint_max_active = if random.chance(300) { statements } else { 0 };
}

/// Whether a session may have to wait for something other than a server.
pub(crate) fn are_limited(settings: &Settings) -> bool {
    let limited = settings.classes.all.iter().any(|class| class.limits != Limits::default());
    limited || settings.global.classes.limits_statements()
}

/// Whether a session may have to wait although a server is idle.
pub(crate) fn have_maximum(settings: &Settings) -> bool {
    settings.classes.all.iter().any(|class| class.max.is_some())
}
