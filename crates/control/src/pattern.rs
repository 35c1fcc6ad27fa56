//! The pattern of `SHOW … LIKE`, with SQL's meaning: `%` is any text, `_` one character, `\` takes the next as it is. Case matters.
//!
//! Promises to take time in proportion to text times pattern at most, and that a pattern has at most [`CONSOLE_PATTERN_MAX`] characters.
//= pg18 functions-matching#FUNCTIONS-LIKE

use units::limits::CONSOLE_PATTERN_MAX;

/// One place of a pattern.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Part {
    AnyText,
    AnyOne,
    Exactly(char),
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

impl Pattern {
    /// `None`: it ends within an escape, or is too long.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Pattern> {
        if text.chars().count() > CONSOLE_PATTERN_MAX {
            return None;
        }
        let (mut parts, mut chars) = (Vec::new(), text.chars());
        while let Some(char) = chars.next() {
            parts.push(match char {
                '%' => Part::AnyText,
                '_' => Part::AnyOne,
                '\\' => Part::Exactly(chars.next()?),
                other => Part::Exactly(other),
            });
        }
        Some(Pattern(parts))
    }

    /// Whether all of the text fits.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Behind the last `%`, and the text from where it was tried last: only that one has to be taken back.
        let mut last: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let part = self.0.get(at);
            if part == Some(&Part::AnyText) {
                at += 1;
                last = Some((at, rest.clone()));
                continue;
            }
            let ahead = rest.clone().next();
            match (part, ahead) {
                (None, None) => return true,
                (Some(Part::AnyOne), Some(_)) => {}
                (Some(Part::Exactly(wanted)), Some(found)) if *wanted == found => {}
                _ => {
                    let Some((behind, tried)) = &mut last else { return false };
                    if tried.next().is_none() {
                        return false;
                    }
                    (at, rest) = (*behind, tried.clone());
                    continue;
                }
            }
            rest.next();
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use units::random::Random;

    use super::*;

    fn fits(text: &str, pattern: &str) -> bool {
        Pattern::parse(pattern).expect("a pattern").fits(text)
    }

    #[test]
    fn a_table_of_patterns() {
        let table = [
            ("", "", true),
            ("", "%", true),
            ("", "%%", true),
            ("", "_", false),
            ("a", "", false),
            ("pool_mode", "pool%", true),
            ("pool_mode", "%mode", true),
            ("pool_mode", "%o%o%", true),
            ("pool_mode", "%o%o%o%o%", false),
            ("pool_mode", "pool_mod", false),
            ("pool_mode", "poolxmode", false),
            ("poolxmode", "pool_mode", true),
            ("poolxmode", "pool\\_mode", false),
            ("pool_mode", "pool\\_mode", true),
            ("50%", "50\\%", true),
            ("500", "50\\%", false),
            ("a\\b", "a\\\\b", true),
            ("Pool", "pool", false),
            ("größe", "gr__e", true),
            ("größe", "gr_e", false),
            ("aab", "%ab", true),
            ("aaab", "%aab", true),
            ("abcabd", "%abd", true),
            ("abcabd", "%ab_", true),
            ("abcabd", "a%c_b%", true),
            ("abcabd", "a%c__b%", false),
        ];
        for (text, pattern, expected) in table {
            assert_eq!(fits(text, pattern), expected, "{text:?} LIKE {pattern:?}");
        }
        assert_eq!(Pattern::parse("a\\"), None, "PostgreSQL refuses it, too");
        assert_eq!(Pattern::parse(&"é".repeat(CONSOLE_PATTERN_MAX + 1)), None);
        assert!(Pattern::parse(&"é".repeat(CONSOLE_PATTERN_MAX)).is_some());
    }

    /// The meaning, as it is said: slow, and plain.
    fn means(text: &[char], pattern: &[Part]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((Part::AnyText, rest)) => (0..=text.len()).any(|len| means(&text[len..], rest)),
            Some((Part::AnyOne, rest)) => text.split_first().is_some_and(|(_, text)| means(text, rest)),
            Some((Part::Exactly(wanted), rest)) => {
                text.split_first().is_some_and(|(found, text)| found == wanted && means(text, rest))
            }
        }
    }

    fn made_up(random: &mut Random, letters: &[char], len_max: u64) -> String {
        (0..random.below(len_max + 1)).map(|_| letters[random.below(letters.len() as u64) as usize]).collect()
    }

    #[test]
    fn it_means_what_is_said() {
        let mut random = Random::seeded(5);
        let mut fitting = 0;
        for _ in 0..20_000 {
            let text = made_up(&mut random, &['a', 'b', 'é', '%', '_'], 8);
            let source = made_up(&mut random, &['a', 'b', 'é', '%', '%', '_'], 8);
            let pattern = Pattern::parse(&source).expect("there is no escape in it");
            let chars: Vec<char> = text.chars().collect();
            let expected = means(&chars, &pattern.0);
            assert_eq!(pattern.fits(&text), expected, "{text:?} LIKE {source:?}");
            fitting += u32::from(expected);
        }
        assert!(fitting > 1_000, "{fitting} of them fit: too few to show anything");
    }

    #[test]
    fn a_text_that_is_escaped_fits_itself_only() {
        let mut random = Random::seeded(6);
        for _ in 0..5_000 {
            let text = made_up(&mut random, &['a', '%', '_', '\\'], 6);
            let other = made_up(&mut random, &['a', '%', '_', '\\'], 6);
            let escaped: String = text.chars().flat_map(|char| ['\\', char]).collect();
            let pattern = Pattern::parse(&escaped).expect("it is whole");
            assert!(pattern.fits(&text), "{text:?}");
            assert_eq!(pattern.fits(&other), text == other, "{other:?} LIKE {escaped:?}");
        }
    }
}
