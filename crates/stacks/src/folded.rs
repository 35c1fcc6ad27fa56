//! Samples, folded: each stack once, with how often it was seen.
//!
//! ```text
//!   postgres;client backend;main;PostgresMain;exec_simple_query 12        one line of the text
//! ```
//!
//! Promises bounded memory: beyond [`STACKS_MAX`] different stacks only counts are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::limits::STACKS_MAX;

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A process or a thread, not a function.
    Label,
    Pooler,
    PostgreSql,
    Libc,
    Kernel,
    Library,
    Unknown,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Label, Kind::Pooler, Kind::PostgreSql, Kind::Libc, Kind::Kernel, Kind::Library, Kind::Unknown];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Label => "process, thread",
            Kind::Pooler => "pgweir",
            Kind::PostgreSql => "PostgreSQL",
            Kind::Libc => "C library",
            Kind::Kernel => "kernel",
            Kind::Library => "other libraries",
            Kind::Unknown => "unknown",
        }
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    pub name: String,
    pub kind: Kind,
}

/// How often each stack was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    stacks: BTreeMap<Vec<Frame>, u64>,
    count: u64,
}

impl Folded {
    /// Counts a stack, the outermost call first.
    pub fn add(&mut self, stack: Vec<Frame>) {
        self.count += 1;
        let is_kept = self.stacks.len() < STACKS_MAX || self.stacks.contains_key(&stack);
        let kept = if is_kept { stack } else { vec![Frame { name: "[other stacks]".to_owned(), kind: Kind::Unknown }] };
        *self.stacks.entry(kept).or_default() += 1;
    }

    /// All samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn stacks(&self) -> impl Iterator<Item = (&[Frame], u64)> {
        self.stacks.iter().map(|(stack, count)| (stack.as_slice(), *count))
    }

    /// A line a stack, as other tools read them: calls with `;` between them, and the count. A `;` in a name becomes `:`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (stack, count) in self.stacks() {
            let names: Vec<String> = stack.iter().map(|frame| frame.name.replace(';', ":")).collect();
            writeln!(text, "{} {count}", names.join(";")).expect("writing to a String cannot fail");
        }
        text
    }

    /// The functions that samples were in themselves, the most frequent first; at most `most`.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(&Frame, u64)> {
        let mut counts: BTreeMap<&Frame, u64> = BTreeMap::new();
        for (stack, count) in self.stacks() {
            if let Some(frame) = stack.last() {
                *counts.entry(frame).or_default() += count;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
        counts.truncate(most);
        counts
    }

    /// The share of samples that were in code of each kind themselves.
    pub(crate) fn by_kind(&self) -> BTreeMap<Kind, u64> {
        let mut counts = BTreeMap::new();
        for (stack, count) in self.stacks() {
            *counts.entry(stack.last().map_or(Kind::Unknown, |frame| frame.kind)).or_default() += count;
        }
        counts
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Names with `;` between them, a kind by the first letter of each: K and C for kernel and C library, else PostgreSQL.
    pub(crate) fn folded(stacks: &[(&str, u64)]) -> Folded {
        let mut folded = Folded::default();
        let frame = |name: &str| Frame {
            name: name.to_owned(),
            kind: match name.chars().next() {
                Some('K') => Kind::Kernel,
                Some('C') => Kind::Libc,
                _ => Kind::PostgreSql,
            },
        };
        for (stack, count) in stacks {
            for _ in 0..*count {
                folded.add(stack.split(';').map(frame).collect());
            }
        }
        folded
    }

    #[test]
    fn equal_stacks_are_one_line() {
        let folded = folded(&[("main;b", 2), ("main;a", 1), ("main;b", 1), ("main", 1)]);
        assert_eq!(folded.text(), "main 1\nmain;a 1\nmain;b 3\n");
        assert_eq!(folded.count(), 5);
    }

    #[test]
    fn a_name_does_not_end_its_frame() {
        let mut folded = Folded::default();
        folded.add(vec![Frame { name: "a;b 7".to_owned(), kind: Kind::Unknown }]);
        assert_eq!(folded.text(), "a:b 7 1\n");
    }

    #[test]
    fn the_top_is_where_samples_were_themselves() {
        let folded = folded(&[("main;a", 2), ("main;b;a", 2), ("main;b", 3), ("main", 1)]);
        let top: Vec<_> = folded.top(2).into_iter().map(|(frame, count)| (frame.name.as_str(), count)).collect();
        assert_eq!(top, [("a", 4), ("b", 3)]);
        assert!(Folded::default().top(3).is_empty());
    }

    #[test]
    fn memory_is_bounded_and_no_sample_is_lost() {
        let mut folded = Folded::default();
        for number in 0..STACKS_MAX + 5 {
            folded.add(vec![Frame { name: number.to_string(), kind: Kind::Unknown }]);
        }
        folded.add(vec![Frame { name: "7".to_owned(), kind: Kind::Unknown }]);
        assert_eq!(folded.stacks.len(), STACKS_MAX + 1);
        assert_eq!(folded.stacks().map(|(_, count)| count).sum::<u64>(), folded.count());
    }
}
