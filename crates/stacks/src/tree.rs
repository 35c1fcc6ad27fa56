//! Folded stacks as a tree of calls, laid out: where each box of a flame graph begins, how wide it is, and what is too narrow to be seen.
//!
//! Boxes are in units of samples. Siblings that are too narrow are one box that names them, if that one is wide enough.

use std::collections::BTreeMap;

use crate::folded::{Folded, Frame, Kind};

/// So many names stand for the narrow siblings.
const NAMED_MAX: usize = 10;

/// A call below another, and all that it called.
#[derive(Debug, Default)]
struct Call<'a> {
    count: u64,
    calls: BTreeMap<&'a Frame, Call<'a>>,
}

/// One box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plate {
    /// 0 is the outermost.
    pub(crate) depth: usize,
    /// In samples, as the width.
    pub(crate) begin: u64,
    pub(crate) width: u64,
    /// Samples in the function itself.
    pub(crate) own: u64,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Names of those that this box stands for.
    pub(crate) others: Vec<String>,
}

/// All boxes that are at least `narrowest` samples wide, of at most `depth_max` levels.
pub(crate) fn plates(folded: &Folded, narrowest: u64, depth_max: usize) -> Vec<Plate> {
    let mut root = Call::default();
    for (stack, count) in folded.stacks() {
        root.count += count;
        let mut call = &mut root;
        for frame in stack.iter().take(depth_max) {
            call = call.calls.entry(frame).or_default();
            call.count += count;
        }
    }
    let mut plates = Vec::new();
    root.lay(0, 0, narrowest.max(1), &mut plates);
    plates
}

impl Call<'_> {
    /// Lays out what is called from here: the widest first. Recursion is bounded by `depth_max`.
    fn lay(&self, depth: usize, mut begin: u64, narrowest: u64, plates: &mut Vec<Plate>) {
        let (mut wide, narrow): (Vec<_>, Vec<_>) = self.calls.iter().partition(|(_, call)| call.count >= narrowest);
        let rank = |(a, a_call): &(&&Frame, &Call), (b, b_call): &(&&Frame, &Call)| {
            b_call.count.cmp(&a_call.count).then(a.cmp(b))
        };
        wide.sort_by(rank);
        for (frame, call) in wide {
            let own = call.count - call.calls.values().map(|call| call.count).sum::<u64>();
            let (name, kind) = (frame.name.clone(), frame.kind);
            plates.push(Plate { depth, begin, width: call.count, own, name, kind, others: Vec::new() });
            call.lay(depth + 1, begin, narrowest, plates);
            begin += call.count;
        }
        plates.extend(rest(depth, begin, narrow).filter(|plate| plate.width >= narrowest));
    }
}

/// One box for many narrow ones.
fn rest(depth: usize, begin: u64, mut narrow: Vec<(&&Frame, &Call)>) -> Option<Plate> {
    let width = narrow.iter().map(|(_, call)| call.count).sum();
    narrow.sort_by(|(a, a_call), (b, b_call)| b_call.count.cmp(&a_call.count).then(a.cmp(b)));
    let named = narrow.iter().take(NAMED_MAX).map(|(frame, call)| format!("{} {}", frame.name, call.count));
    let others: Vec<String> = named.collect();
    let name = format!("{} more", narrow.len());
    (!narrow.is_empty()).then_some(Plate { depth, begin, width, own: 0, name, kind: Kind::Unknown, others })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folded::tests::folded;

    fn drawn(plates: &[Plate]) -> Vec<String> {
        let one = |plate: &Plate| {
            let Plate { depth, begin, width, own, name, .. } = plate;
            format!("{depth} {begin}+{width} {name} own {own}")
        };
        plates.iter().map(one).collect()
    }

    #[test]
    fn a_call_lies_on_its_caller_and_the_widest_comes_first() {
        let folded = folded(&[("main;a", 1), ("main;b;c", 3), ("main;b", 1), ("start", 2)]);
        let expected = ["0 0+5 main own 0", "1 0+4 b own 1", "2 0+3 c own 3", "1 4+1 a own 1", "0 5+2 start own 2"];
        assert_eq!(drawn(&plates(&folded, 1, 10)), expected);
    }

    #[test]
    fn narrow_siblings_are_one_box_that_names_them() {
        let folded = folded(&[("m;a", 5), ("m;b", 2), ("m;c", 1), ("m;d;e", 1)]);
        let found = plates(&folded, 3, 10);
        assert_eq!(drawn(&found), ["0 0+9 m own 0", "1 0+5 a own 5", "1 5+4 3 more own 0"]);
        assert_eq!(found[2].others, ["b 2", "c 1", "d 1"]);
        assert_eq!(drawn(&plates(&folded, 5, 10)), ["0 0+9 m own 0", "1 0+5 a own 5"], "the rest is too narrow, too");
    }

    #[test]
    fn what_is_deeper_counts_for_the_last_level() {
        let folded = folded(&[("a;b;c;d", 2)]);
        assert_eq!(drawn(&plates(&folded, 1, 2)), ["0 0+2 a own 0", "1 0+2 b own 2"]);
        assert!(plates(&Folded::default(), 1, 5).is_empty());
    }
}
