//! The nearest known name to a misspelt one, by the number of letters to change.
//!
//! Promises an answer only where it is likely to be what was meant. Does not look at meanings.

/// Longer names are not compared: nobody mistypes that much, and the work grows with the square.
const NAME_LEN_MAX: usize = 64;

/// The known name that differs least from `name`, if it differs little enough.
#[must_use]
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let limit = (lower.len() / 4).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(&lower, &candidate.to_ascii_lowercase()), *candidate))
        .filter(|(changes, _)| *changes <= limit)
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out, replaced, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table = [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("pool_mod", "pool_mode", 1),
            ("pool_mdoe", "pool_mode", 1),
            ("listen_address", "listen_addr", 3),
            ("kitten", "sitting", 3),
        ];
        for (a, b, expected) in table {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["host", "port", "pool_mode", "pool_size"];
        assert_eq!(nearest("hots", &known), Some("host"));
        assert_eq!(nearest("POOL_MODE", &known), Some("pool_mode"));
        assert_eq!(nearest("color", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"x".repeat(5000), &known), None);
    }
}
