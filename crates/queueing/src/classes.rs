//! Classes: kinds of clients and statements, and the share of a pool's servers that each may claim.
//!
//! ```text
//!   database, user, application_name, comment tags ──rules, first match──► class ──► weight, priority, min, max
//! ```
//!
//! Promises: every client is in exactly one class at any time; without a rule that fits it is in `default`, which is always
//! there. Clients choose their class only by what a rule looks at: where it looks at application_name or tags, it trusts them.
//! Does not do: counting, waiting ([`crate::queue`]), reading files (`config`).

use std::sync::Arc;
use std::time::Duration;

use ::settings::Over;
use sql::{CommentTag, WantedTags};

use crate::commented::{self, Commented};

/// Which class: an index into [`Classes::all`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// The class of sessions that are in no other class.
pub const DEFAULT: ClassId = ClassId(0);

/// No more classes than that: what each decision may cost is bounded by it.
pub const CLASSES_MAX: usize = 32;

/// Some of the classes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSet(u32);

const _: () = assert!(CLASSES_MAX <= u32::BITS as usize, "a bit for each class");

impl ClassSet {
    pub fn insert(&mut self, class: ClassId) {
        self.0 |= 1 << (class.0 % 32);
    }

    #[must_use]
    pub fn contains(self, class: ClassId) -> bool {
        self.0 & 1 << (class.0 % 32) != 0
    }

    /// Says whether one is among them from now on.
    pub(crate) fn set(&mut self, class: ClassId, is_in: bool) {
        let bit = class.0 % 32;
        self.0 = self.0 & !(1 << bit) | u32::from(is_in) << bit;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The only one; `None`: there are more, or none.
    pub(crate) fn only(self) -> Option<ClassId> {
        self.0.is_power_of_two().then(|| ClassId(self.0.trailing_zeros() as u8))
    }

    /// In their order.
    pub fn iter(self) -> impl Iterator<Item = ClassId> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = (left != 0).then(|| ClassId(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            first
        })
    }

    #[must_use]
    pub fn union(self, other: ClassSet) -> ClassSet {
        ClassSet(self.0 | other.0)
    }
}

/// What a class may claim, in each pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub name: Arc<str>,
    /// Its share of server time beside other classes that have work, relative to theirs. At least 1.
    pub weight: u32,
    /// Higher goes first, whatever the weights; a session that has waited for [`Classes::ageing`] counts one higher.
    pub priority: u8,
    /// With fewer servers than that, and work, it goes before everybody else.
    pub min: u32,
    /// It never has more servers than that.
    pub max: Option<u32>,
    /// No more sessions of it may wait in a pool.
    pub max_waiting: Option<u32>,
    /// Which session is refused when one more is about to wait.
    pub overflow: Overflow,
    pub limits: Limits,
    /// Where its long transactions go.
    pub long: Option<Long>,
    /// The entry of `[databases]` that its clients use, whatever they name: decided at login.
    pub database: Option<Arc<str>>,
}

/// Long transactions of a class are in another one, known by how they begin.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// Which has no `long` of its own that would matter.
    pub class: ClassId,
    /// A transaction that has had its server for this time is long.
    pub after: Duration,
}

/// What a class may do in the whole process, whatever is free.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Transactions that begin.
    pub transactions: Option<Rate>,
    /// Statements by the simple protocol, and Executes by the extended one.
    pub queries: Option<Rate>,
    /// Clients that log in.
    pub logins: Option<Rate>,
    /// Transactions at a time.
    pub active: Option<u32>,
    pub over: Over,
}

/// What is limited.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum LimitKind {
    Transactions,
    Queries,
    Logins,
    /// Transactions at a time.
    Active,
}

impl LimitKind {
    pub const ALL: [LimitKind; 4] = [LimitKind::Transactions, LimitKind::Queries, LimitKind::Logins, LimitKind::Active];

    /// As users write and read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Transactions => "tps",
            LimitKind::Queries => "qps",
            LimitKind::Logins => "logins",
            LimitKind::Active => "max_active",
        }
    }
}

/// A token bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Events a second; at least 1.
    pub per_second: u32,
    /// So many more at once, if there were none for long enough; at least 1.
    pub burst: u32,
}

/// Which session gets an error when a class's queue is full.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The session that comes last.
    #[default]
    RejectNewest,
    /// The session that has waited longest.
    DropOldest,
}

impl Class {
    /// A class about which nothing was said but its name.
    #[must_use]
    pub fn new(name: &str) -> Class {
        Class {
            name: name.into(),
            weight: 1,
            priority: 0,
            min: 0,
            max: None,
            max_waiting: None,
            overflow: Overflow::default(),
            limits: Limits::default(),
            long: None,
            database: None,
        }
    }
}

/// What a rule compares a name with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anything, also if there is nothing.
    All,
    Exactly(Box<[u8]>),
    /// `sidekiq*`
    BeginsWith(Box<[u8]>),
}

impl Pattern {
    #[must_use]
    pub fn fits(&self, name: &[u8]) -> bool {
        match self {
            Pattern::All => true,
            Pattern::Exactly(wanted) => **wanted == *name,
            Pattern::BeginsWith(start) => name.starts_with(start),
        }
    }
}

/// A tag that a rule requires, in a comment of a transaction's first text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagPattern {
    pub key: Box<[u8]>,
    pub value: Pattern,
}

/// One line of the rules. All of its fields have to fit; of several patterns in a field, one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub databases: Vec<Pattern>,
    pub users: Vec<Pattern>,
    pub applications: Vec<Pattern>,
    /// Empty: whatever tags there are, or none.
    pub tags: Vec<TagPattern>,
    pub class: ClassId,
}

impl TagPattern {
    fn fits(&self, tag: &CommentTag<'_>) -> bool {
        self.value.fits(&tag.value) && *tag.key == *self.key
    }
}

impl Rule {
    fn fits(&self, of: &Subject<'_>, tags: &[CommentTag<'_>]) -> bool {
        let tagged = |wanted: &TagPattern| tags.iter().any(|tag| wanted.fits(tag));
        self.suits(of) && (self.tags.is_empty() || self.tags.iter().any(tagged))
    }

    /// Whether it fits but for tags.
    fn suits(&self, of: &Subject<'_>) -> bool {
        let fits = |patterns: &[Pattern], name: &[u8]| patterns.iter().any(|pattern| pattern.fits(name));
        fits(&self.databases, of.database) && fits(&self.users, of.user) && fits(&self.applications, of.application)
    }
}

/// The rules that depend on a text's tags once the session is known: a session looks at them alone for every transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The keys of the tags that rules require, each once, and that of deadlines before them.
    keys: WantedTags,
    /// What rules require of them, in the order of the rules, up to the first that requires no tag.
    conditions: Box<[TagCondition]>,
    /// The class of a text that none of these fits.
    otherwise: ClassId,
}

/// A rule's requirement of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TagCondition {
    /// Of [`Standing::keys`].
    key: usize,
    value: Pattern,
    class: ClassId,
}

impl Standing {
    /// Whether the class hangs on the text.
    #[must_use]
    pub fn reads_tags(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The class of texts whose tags put them in no other.
    pub fn otherwise(&self) -> ClassId {
        self.otherwise
    }

    /// The class of a text, of somebody of this standing: as [`Classes::of`] says it. And what its comments say besides.
    #[must_use]
    pub fn class_of(&self, text: &[u8]) -> (ClassId, Commented) {
        // Those that could still come first.
        let mut conditions = &*self.conditions;
        let (mut class, mut commented) = (self.otherwise, Commented::Nothing);
        self.keys.each(text, |key, value| {
            if key == DEADLINE_KEY {
                commented.note(&value);
            }
            if let Some(first) =
                conditions.iter().position(|conditions| conditions.key == key && conditions.value.fits(&value))
            {
                class = conditions[first].class;
                conditions = &conditions[..first];
            }
        });
        (class, commented)
    }
}

/// Of [`Standing::keys`].
const DEADLINE_KEY: usize = 0;

/// What rules look at to find a session's class.
#[derive(Copy, Clone, Debug)]
pub struct Subject<'a> {
    /// As the client names it.
    pub database: &'a [u8],
    /// The user that logged in.
    pub user: &'a [u8],
    /// Empty: none.
    pub application: &'a [u8],
}

/// All classes, and the rules that say which sessions are in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The first is `default`; [`CLASSES_MAX`] at most.
    pub all: Vec<Class>,
    pub rules: Vec<Rule>,
    /// A session's priority counts one higher for each time of this length that it has waited.
    pub ageing: Duration,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes { all: vec![Class::new("default")], rules: Vec::new(), ageing: Duration::from_secs(5) }
    }
}

impl Classes {
    /// Whether everybody is in the same class, whatever they say.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.rules.is_empty() && self.all[0].long.is_none()
    }

    /// Whether a class has a database of its own.
    #[must_use]
    pub fn redirects(&self) -> bool {
        self.all.iter().any(|class| class.database.is_some())
    }

    /// Whether servers have to be counted by class.
    #[must_use]
    pub(crate) fn counts_servers(&self) -> bool {
        !self.is_single() || self.all[0].max.is_some()
    }

    /// Whether the queue of some class is bounded.
    #[must_use]
    pub fn bounds_queues(&self) -> bool {
        self.all.iter().any(|class| class.max_waiting.is_some())
    }

    #[cfg(test)]
    fn standing(&self, of: &Subject<'_>) -> Standing {
        let mut tagged = Vec::new();
        let otherwise = self.tagged_rules(of, &mut tagged);
        self.standing_by(&tagged, otherwise)
    }

    /// Which rules require tags of this session's texts, in their order, up to the first that does not: its class, or the default one.
    pub fn tagged_rules(&self, of: &Subject<'_>, tagged: &mut Vec<u32>) -> ClassId {
        for (index, rule) in (0..).zip(&self.rules).filter(|(_, rule)| rule.suits(of)) {
            if rule.tags.is_empty() {
                return rule.class;
            }
            tagged.push(index);
        }
        DEFAULT
    }

    /// What those rules leave to a text's tags.
    pub fn standing_by(&self, tagged: &[u32], otherwise: ClassId) -> Standing {
        let (mut keys, mut conditions) = (vec![Box::<[u8]>::from(commented::TAG)], Vec::new());
        for rule in tagged.iter().filter_map(|index| self.rules.get(*index as usize)) {
            for tag in &rule.tags {
                let key = keys.iter().position(|key| *key == tag.key).unwrap_or_else(|| {
                    keys.push(tag.key.clone());
                    keys.len() - 1
                });
                conditions.push(TagCondition { key, value: tag.value.clone(), class: rule.class });
            }
        }
        Standing { keys: WantedTags::new(keys), conditions: conditions.into(), otherwise }
    }

    #[must_use]
    pub fn class(&self, id: ClassId) -> &Class {
        self.all.get(usize::from(id.0)).unwrap_or(&self.all[0])
    }

    /// The class of the first rule that fits.
    #[must_use]
    pub fn of(&self, subject: &Subject<'_>, tags: &[CommentTag<'_>]) -> ClassId {
        self.rules.iter().find(|rule| rule.fits(subject, tags)).map_or(DEFAULT, |rule| rule.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::comment_tags;

    fn exactly(name: &str) -> Pattern {
        Pattern::Exactly(name.as_bytes().into())
    }

    fn rule(databases: Pattern, users: Pattern, applications: Pattern, class: u8) -> Rule {
        Rule {
            databases: vec![databases],
            users: vec![users],
            applications: vec![applications],
            tags: Vec::new(),
            class: ClassId(class),
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let mut tagged = rule(Pattern::All, Pattern::All, Pattern::All, 3);
        tagged.tags = vec![TagPattern { key: (*b"application").into(), value: exactly("web") }];
        let classes = Classes {
            all: ["default", "jobs", "reports", "web"].map(Class::new).to_vec(),
            rules: vec![
                rule(Pattern::All, Pattern::All, Pattern::BeginsWith((*b"sidekiq").into()), 1),
                rule(exactly("shop"), exactly("reporter"), Pattern::All, 2),
                tagged,
            ],
            ..Classes::default()
        };
        assert!(!classes.is_single() && Classes::default().is_single());
        let of = |database: &str, user: &str, application: &str, text: &str| {
            let subject =
                Subject { database: database.as_bytes(), user: user.as_bytes(), application: application.as_bytes() };
            let id = classes.of(&subject, &comment_tags(text.as_bytes()).collect::<Vec<_>>());
            assert_eq!(classes.standing(&subject).class_of(text.as_bytes()).0, id, "{text}");
            classes.class(id).name.to_string()
        };
        assert_eq!(of("shop", "app", "sidekiq 7", ""), "jobs");
        assert_eq!(of("shop", "reporter", "psql", "/*application:web*/ select 1"), "reports");
        assert_eq!(of("mail", "reporter", "psql", "/*application:web*/ select 1"), "web");
        assert_eq!(of("mail", "reporter", "psql", "/*application:website*/ select 1"), "default");
        assert_eq!(of("mail", "reporter", "", ""), "default");
    }

    #[test]
    fn a_key_that_several_rules_ask_for_is_looked_for_once_and_decides_in_their_order() {
        let tagged = |class: u8, tags: &[(&str, Pattern)]| {
            let tag = |(key, value): &(&str, Pattern)| TagPattern { key: key.as_bytes().into(), value: value.clone() };
            let tags = tags.iter().map(tag).collect();
            Rule { tags, ..rule(Pattern::All, Pattern::All, Pattern::All, class) }
        };
        let names = ["default", "a", "b", "c", "d"];
        let classes = Classes {
            all: names.map(Class::new).to_vec(),
            rules: vec![
                tagged(1, &[("app", exactly("a")), ("job", exactly("a"))]),
                tagged(2, &[("app", exactly("b")), ("apple", Pattern::All)]),
                tagged(3, &[("job", Pattern::BeginsWith((*b"c").into()))]),
                tagged(4, &[("app", Pattern::All)]),
            ],
            ..Classes::default()
        };
        let subject = Subject { database: b"shop", user: b"app", application: b"" };
        let standing = classes.standing(&subject);
        assert_eq!(standing.keys.keys().count(), 3 + 1);
        let values = ["app:a", "app:b", "app:x", "apple:x", "job:a", "job:cat", "job:x", "", "appl:x", "jo:a"];
        for first in values {
            for (begin, end) in [("", ""), ("/*x:y*/ ", ""), ("", " /* x='y' */ ;")] {
                for second in values {
                    let text = format!("{begin}/*{first},{second}*/select 1 /*{second} , {first}*/{end}");
                    let tags = comment_tags(text.as_bytes()).collect::<Vec<_>>();
                    assert_eq!(standing.class_of(text.as_bytes()).0, classes.of(&subject, &tags), "{text}");
                }
            }
        }
    }
}
