//! The nearest known name to a misspelt one, by the number of letters to put in, take out, replace, or swap with their neighbour.
//!
//! Promises an answer only where it is likely to be what was meant. Does not look at meanings.

/// Longer names are not compared, since the work grows with the square.
const NAME_LEN_MAX: usize = 64;

/// The known name that differs least from `name`, if it differs little enough.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let limit = (lower.len() / 4).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_ascii_lowercase()), *candidate))
        .filter(|(changes, _)| *changes <= limit)
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["host", "port", "pool_mode", "pool_size"];
        assert_eq!(nearest("hots", &known), Some("host"));
        assert_eq!(nearest("pool_mdoe", &known), Some("pool_mode"));
        assert_eq!(nearest("POOL_MODE", &known), Some("pool_mode"));
        assert_eq!(nearest("color", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"x".repeat(5000), &known), None);
    }
}
