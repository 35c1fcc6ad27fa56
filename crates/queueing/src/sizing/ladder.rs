//! The sizes that are tried: a ladder whose rungs lie a factor of the square root of two apart.
//!
//! Throughput is a function of the ratio of sizes: from 40 servers to 41 nothing can be seen, from 2 to 3 everything. So a
//! ladder from 2 to 80 has 12 rungs, and at its peak a curve of contention loses 3 % to the next one at most.

/// What a size e times as large must bring, as a logarithm: 1.5 % for one twice as large.
const PRICE: f64 = 0.015 / std::f64::consts::LN_2;

/// Rungs from a floor to a ceiling, both among them, in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ladder(Vec<u32>);

impl Ladder {
    /// `floor` is at least 1 and at most `ceiling`.
    pub(super) fn new(floor: u32, ceiling: u32) -> Ladder {
        assert!(0 < floor && floor <= ceiling, "a ladder leads upwards");
        let mut rungs = vec![floor];
        let mut exact = f64::from(floor);
        while exact < f64::from(ceiling) {
            exact *= std::f64::consts::SQRT_2;
            let rung = (exact.round() as u32).min(ceiling);
            if rung > rungs[rungs.len() - 1] {
                rungs.push(rung);
            }
        }
        Ladder(rungs)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn size(&self, rung: usize) -> u32 {
        self.0[rung]
    }

    /// The highest.
    pub(super) fn top(&self) -> usize {
        self.0.len() - 1
    }

    /// What `rung` must bring more than `base`, as a logarithm: less than nothing if it is lower.
    pub(super) fn bar(&self, rung: usize, base: usize) -> f64 {
        let ln = |rung| f64::from(self.size(rung)).ln();
        PRICE * (ln(rung) - ln(base))
    }

    /// The lowest rung that is not below `size`; the highest if all are.
    pub(super) fn above(&self, size: u32) -> usize {
        self.0.iter().position(|&rung| rung >= size).unwrap_or(self.top())
    }

    /// The highest rung that is not above `size`; the lowest if all are.
    pub(super) fn below(&self, size: u32) -> usize {
        self.0.iter().rposition(|&rung| rung <= size).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_rise_from_the_floor_to_the_ceiling() {
        assert_eq!(Ladder::new(2, 80).0, [2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 80]);
        assert_eq!(Ladder::new(1, 5).0, [1, 2, 3, 4, 5]);
        assert_eq!(Ladder::new(7, 7).0, [7]);
        for floor in 1..20 {
            for ceiling in floor..200 {
                let Ladder(rungs) = Ladder::new(floor, ceiling);
                assert_eq!((rungs[0], rungs[rungs.len() - 1]), (floor, ceiling));
                assert!(rungs.windows(2).all(|pair| pair[0] < pair[1]), "{rungs:?}");
            }
        }
    }

    #[test]
    fn twice_the_size_must_bring_a_little_more() {
        let ladder = Ladder::new(2, 80);
        for (rung, base, expected) in [(2, 0, 0.015), (0, 2, -0.015), (3, 3, 0.0), (8, 0, 0.06), (11, 11, 0.0)] {
            assert!((ladder.bar(rung, base) - expected).abs() < 1e-9, "{rung} {base}");
        }
        assert_eq!(ladder.size(ladder.top()), 80);
    }

    #[test]
    fn a_size_between_two_rungs_is_the_lower_one() {
        let ladder = Ladder::new(2, 80);
        let below = |size| ladder.size(ladder.below(size));
        assert_eq!((below(1), below(2), below(5), below(63), below(500)), (2, 2, 4, 45, 80));
        let above = |size| ladder.size(ladder.above(size));
        assert_eq!((above(1), above(2), above(5), above(63), above(500)), (2, 2, 6, 64, 80));
    }
}
