//! The parameters of a startup packet that are to be set for the session, in one allocation.
//!
//! A packet of 10,000 bytes holds 3,333 parameters. Kept one by one they would cost 50 times as much, and its client has
//! proved nothing yet. If a name comes more than once, its last value counts, as in PostgreSQL.

use std::cmp::Ordering;

use units::heap;

/// Names and values in the order of the packet, no name twice.
#[derive(Debug, Default)]
pub struct StartupParameters {
    /// Each name and each value is ended by a NUL byte, which neither contains.
    pairs: Vec<u8>,
}

impl StartupParameters {
    /// Neither may contain a NUL byte: where these come from, it ends a string.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        debug_assert!(!name.contains(&0) && !value.contains(&0));
        for text in [name, value] {
            self.pairs.extend_from_slice(text);
            self.pairs.push(0);
        }
    }

    /// Once all are there: leaves the last value of each name. PostgreSQL compares names without regard to case.
    pub fn merge(&mut self) {
        if self.iter().nth(1).is_none() {
            return heap::fit(&mut self.pairs);
        }
        let pairs: Vec<(&[u8], &[u8])> = self.iter().collect();
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_unstable_by(|&a, &b| compare_names(pairs[a].0, pairs[b].0).then(a.cmp(&b)));
        let same = |a: usize, b: usize| compare_names(pairs[a].0, pairs[b].0) == Ordering::Equal;
        let mut counts = vec![true; pairs.len()];
        for two in order.windows(2) {
            counts[two[0]] = !same(two[0], two[1]);
        }
        let mut merged = StartupParameters::default();
        for (index, (name, value)) in pairs.iter().enumerate() {
            if counts[index] {
                merged.push(name, value);
            }
        }
        heap::fit(&mut merged.pairs);
        *self = merged;
    }

    /// Drops those whose names do not pass.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8]) -> bool) {
        if self.iter().all(|(name, _)| keeps(name)) {
            return;
        }
        let mut kept = StartupParameters::default();
        for (name, value) in self.iter().filter(|(name, _)| keeps(name)) {
            kept.push(name, value);
        }
        heap::fit(&mut kept.pairs);
        *self = kept;
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut texts = self.pairs.split(|&byte| byte == 0);
        std::iter::from_fn(move || {
            let (name, value) = (texts.next()?, texts.next()?);
            Some((name, value))
        })
    }

    /// The value of a parameter.
    pub fn get(&self, wanted: &[u8]) -> Option<&[u8]> {
        self.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).last()
    }

    /// Bytes of memory that they take.
    pub fn weight(&self) -> usize {
        heap::taken(self.pairs.capacity())
    }
}

fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(pairs: &[(&str, &str)]) -> StartupParameters {
        let mut parameters = StartupParameters::default();
        for (name, value) in pairs {
            parameters.push(name.as_bytes(), value.as_bytes());
        }
        parameters.merge();
        parameters
    }

    fn shown(parameters: &StartupParameters) -> String {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{}={}", show(name), show(value))).collect();
        pairs.join(" ")
    }

    #[test]
    fn the_last_value_of_a_name_counts_in_any_spelling() {
        let table: [(&[(&str, &str)], &str); 5] = [
            (&[], ""),
            (&[("a", "1"), ("b", "2")], "a=1 b=2"),
            (&[("b", "1"), ("a", "2"), ("B", "3")], "a=2 B=3"),
            (&[("a", ""), ("a", ""), ("a", "")], "a="),
            (&[("a", "1"), ("", "2"), ("", "3")], "a=1 =3"),
        ];
        for (pairs, wanted) in table {
            assert_eq!(shown(&merged(pairs)), wanted, "{pairs:?}");
        }
    }

    #[test]
    fn names_can_be_looked_up_and_dropped() {
        let mut parameters = merged(&[("TimeZone", "UTC"), ("work_mem", "1MB")]);
        assert_eq!(parameters.get(b"timezone"), Some(&b"UTC"[..]));
        parameters.retain(|name| name != b"work_mem");
        assert_eq!(shown(&parameters), "TimeZone=UTC");
    }

    #[test]
    fn the_longest_packet_of_the_shortest_parameters_takes_no_more_than_its_bytes() {
        let mut parameters = StartupParameters::default();
        for number in 0..3_333_u32 {
            parameters.push(&[1 + (number % 255) as u8], b"");
        }
        parameters.merge();
        assert!(parameters.weight() <= 1024, "{}", parameters.weight());
        let mut parameters = StartupParameters::default();
        for number in 0..2_500_u16 {
            parameters.push(&[b'a' + (number % 26) as u8, 0x80 + (number / 26) as u8], b"");
        }
        parameters.merge();
        assert_eq!(parameters.iter().count(), 2_500);
        assert!(parameters.weight() <= 10_240, "{}", parameters.weight());
    }
}
