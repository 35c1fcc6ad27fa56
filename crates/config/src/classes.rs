//! `[classes]`: what each class of clients may claim of the servers.
//!
//! Promises at most [`CLASSES_MAX`] classes, in the order of the file after `default`, which is always there; an entry
//! of that name changes it. As elsewhere in the file 0 stands for no limit, and an empty value or -1 for not set. Who
//! is in which class is said in class_file: see `rules`.

use std::time::Duration;

use ::settings::Over;
use queueing::classes::{CLASSES_MAX, Class, ClassId, Long, Overflow};
use queueing::limit_words::LimitWords;

use crate::entry::{Entry, EntryReader, Parameter};
use crate::problem::{Problem, clean, quoted};
use ::settings::value::INT_MAX;

/// The class of sessions that are in no other class.
pub const DEFAULT: &str = "default";
/// As long as a name of PostgreSQL's.
const NAME_CHARS_MAX: usize = 63;
/// A greater difference between two classes would have no visible effect.
const WEIGHT_MAX: i64 = 10_000;
/// The default for a long transaction: users do not wait so long for a page.
const LONG_AFTER: Duration = Duration::from_secs(1);

#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new("weight", "The class's share of server time beside other classes that have work: a class with 2 gets twice as much as one with 1. 1 to 10000. Default: 1."),
    Parameter::new("priority", "0 to 255. A class with a higher priority goes first, whatever the weights. A client that has waited for class_ageing counts one higher. Default: 0."),
    Parameter::new("min", "While the class has work and fewer servers of a pool than that, it goes before all others. Default: 0."),
    Parameter::new("max", "The most servers of a pool that the class has at a time; 0: no limit."),
    Parameter::new("max_waiting", "The most clients of the class that wait for a server in a pool, divided among the pool's workers and rounded up; 0: no limit. Clients that wait because of tps, qps or max_active do not count."),
    Parameter::new("overflow", "Which client gets an error when more than max_waiting would wait. `reject-newest`: the one that comes. `drop-oldest`: the one that has waited longest. Default: `reject-newest`."),
    Parameter::new("long", "The class for this class's long transactions. Once a statement has kept a server for long_after, transactions that begin with a similar one are in that class, until they have become short."),
    Parameter::new("long_after", "What counts as long, in seconds. Default: 1."),
    Parameter::new("database", "The entry of [databases] that the class's clients use, whatever database they name: another pool, with another size and mode. Decided at login, by rules without a tag."),
    Parameter::new("tps", "The most transactions that begin in a second, over all pools; 0: no limit."),
    Parameter::new("tps_burst", "How many transactions may begin at once after a quiet time. Default: as many as tps."),
    Parameter::new("qps", "The most queries in a second, over all pools; 0: no limit."),
    Parameter::new("qps_burst", "The same for queries. Default: as many as qps."),
    Parameter::new("logins", "The most logins in a second, over all pools; 0: no limit."),
    Parameter::new("logins_burst", "The same for logins. Default: as many as logins."),
    Parameter::new("max_active", "The most transactions at a time, over all pools; 0: no limit."),
    Parameter::new("over", "What happens to a client over tps, qps, logins or max_active. `delay`: it waits; in session mode, and while it is pinned, it keeps its server. `reject`: it gets an error that says when to try again. Default: `delay`."),
];

/// All classes: `default` first, then as the file has them.
pub(crate) fn read(entries: &[Entry], problems: &mut Vec<Problem>) -> Vec<Class> {
    let mut classes = vec![Class::new(DEFAULT)];
    let mut lanes = Vec::new();
    for entry in entries {
        let (class, lane) = class(entry, problems);
        lanes.extend(lane.map(|lane| (entry, lane)));
        if entry.name == DEFAULT {
            classes[0] = class;
        } else if classes.len() < CLASSES_MAX {
            classes.push(class);
        } else {
            let expected = format!("at most {} classes beside {DEFAULT}", CLASSES_MAX - 1);
            problems.push(Problem::error(&entry.place, &entry.key(""), "one more".to_owned(), expected));
            break;
        }
    }
    for (entry, lane) in lanes {
        let mut parameters = EntryReader { entry, problems };
        let long = lane.resolve(&classes, &mut parameters);
        if let Some(class) = classes.iter_mut().find(|class| *class.name == *entry.name) {
            class.long = long;
        }
    }
    classes
}

#[derive(Default)]
struct ClassDraft {
    limits: LimitWords,
    overflow: Option<&'static str>,
    over: Option<&'static str>,
    long: Option<String>,
    long_after: Option<Duration>,
}

/// Where the long transactions of a class go, before it is known whether there is such a class.
struct Lane {
    name: String,
    after: Duration,
}

impl Lane {
    fn resolve(self, classes: &[Class], parameters: &mut EntryReader) -> Option<Long> {
        let index = classes.iter().position(|class| *class.name == *self.name);
        let others = || classes.iter().map(|class| &*class.name).filter(|name| *name != parameters.entry.name);
        let Some(index) = index.filter(|_| self.name != parameters.entry.name) else {
            let names: Vec<&str> = others().collect();
            let mut expected = "another class of [classes]".to_owned();
            if let Some(near) = settings::nearest(&self.name, &names) {
                expected.push_str(&format!("; did you mean {near}?"));
            }
            parameters.error("long", quoted(&self.name), &clean(&expected));
            return None;
        };
        let class = ClassId(u8::try_from(index).ok()?);
        if classes[index].max.is_none() {
            let expected = format!("max= of {}: without, long transactions can have all servers", clean(&self.name));
            parameters.warning("long", quoted(&self.name), &expected);
        }
        Some(Long { class, after: self.after })
    }
}

fn class(entry: &Entry, problems: &mut Vec<Problem>) -> (Class, Option<Lane>) {
    let mut class = Class::new(&entry.name);
    let mut draft = ClassDraft::default();
    let mut parameters = EntryReader { entry, problems };
    name(&mut parameters);
    for (key, value) in parameters.pairs() {
        take(&mut class, &mut draft, &key, &value, &mut parameters);
    }
    draft.limits.apply(&mut class.limits);
    for name in draft.limits.missing_rates() {
        let expected = format!("{name}= beside it: without, there is no limit");
        parameters.warning(&format!("{name}_burst"), "a burst alone".to_owned(), &expected);
    }
    if draft.overflow == Some("drop-oldest") {
        class.overflow = Overflow::DropOldest;
    }
    class.limits.over = draft.over.and_then(Over::named).unwrap_or_default();
    judge(&class, &draft, &mut parameters);
    let after = draft.long_after.unwrap_or(LONG_AFTER);
    (class, draft.long.map(|name| Lane { name, after }))
}

fn take(class: &mut Class, draft: &mut ClassDraft, key: &str, value: &str, parameters: &mut EntryReader) {
    match key {
        "weight" => class.weight = parameters.number(key, value, 1, WEIGHT_MAX).unwrap_or(1),
        "priority" => class.priority = parameters.number(key, value, 0, u8::MAX.into()).unwrap_or(0),
        "min" => class.min = parameters.count(key, value).unwrap_or(0),
        "max" => class.max = unless_zero(key, value, INT_MAX, parameters),
        "max_waiting" => class.max_waiting = unless_zero(key, value, INT_MAX, parameters),
        "overflow" => draft.overflow = parameters.choice(key, value, &["reject-newest", "drop-oldest"]),
        "long" => draft.long = parameters.text(value),
        "long_after" => draft.long_after = parameters.limit(key, value).flatten(),
        "database" => class.database = parameters.text(value).map(Into::into),
        "over" => draft.over = parameters.choice(key, value, Over::NAMES),
        _ => match LimitWords::bounds(key) {
            Some(bounds) => {
                let number = parameters.number(key, value, (*bounds.start()).into(), (*bounds.end()).into());
                number.into_iter().for_each(|number| draft.limits.set(key, number));
            }
            None => parameters.unknown(key, PARAMETERS),
        },
    }
}

fn unless_zero(key: &str, value: &str, max: i64, parameters: &mut EntryReader) -> Option<u32> {
    parameters.number(key, value, 0, max).filter(|number| *number > 0)
}

/// The name stands in rules, columns and messages: one word of letters and digits.
fn name(parameters: &mut EntryReader) {
    let name = &parameters.entry.name;
    let is_word = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    if !is_word || name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let expected = format!("a name of at most {NAME_CHARS_MAX} letters, digits, _ - and .");
        parameters.error("", quoted(name), &expected);
    }
}

/// What cannot be meant.
fn judge(class: &Class, draft: &ClassDraft, parameters: &mut EntryReader) {
    if let Some(max) = class.max.filter(|max| *max < class.min) {
        parameters.error("min", quoted(&class.min.to_string()), &format!("at most max, which is {max}"));
    }
    if draft.long_after.is_some() && draft.long.is_none() {
        parameters.warning("long_after", "a time alone".to_owned(), "long= beside it: without, nothing is long");
    }
    if let (Some(word), None) = (draft.overflow, class.max_waiting) {
        parameters.warning("overflow", quoted(word), "max_waiting= beside it: without, any number may wait");
    }
    if let Some(word) = draft.over.filter(|_| draft.limits.is_none()) {
        parameters.warning("over", quoted(word), "tps=, qps=, logins= or max_active= beside it");
    }
}
