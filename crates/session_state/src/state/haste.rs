//! A `statement_timeout` so short that what the pooler says for itself might not be done in time. The setting is the
//! client's statements' own: it is taken away in front of what the pooler says, and set last.

use super::{Again, Base, State};

const NAME: &[u8] = b"statement_timeout";

/// From here on there is time enough.
const LONG_MS: u32 = 1_000;

impl State {
    /// Whether a statement here may have less than a second.
    pub fn is_hasty(&self) -> bool {
        let Some(setting) = self.settings.get(NAME) else { return false };
        setting.again.as_ref().is_none_or(is_short)
    }

    /// The same without the haste, on a server with this base.
    pub fn unhurried(&self, base: &Base) -> State {
        let mut state = self.clone();
        state.lose(NAME, base);
        state
    }

    /// What takes it away.
    pub fn write_unhurrying(out: &mut Vec<u8>) {
        out.extend_from_slice(b"RESET \"statement_timeout\";");
    }

    /// Of the names that are set, those whose values are set last.
    pub(super) fn comes_last(name: &[u8]) -> bool {
        name == NAME
    }
}

/// Whatever is not read to be long.
fn is_short(again: &Again) -> bool {
    let value = match again {
        Again::Value(value) => value,
        Again::Clause(clause) => match clause.iter().position(|byte| byte.is_ascii_digit()) {
            Some(at) => &clause[at..],
            None => return true,
        },
    };
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&value[..digits]).ok().and_then(|digits| digits.parse::<u32>().ok());
    let unit: Vec<u8> = value[digits..].iter().copied().filter(|byte| !b" '".contains(byte)).collect();
    let unit_ms = match unit.as_slice() {
        b"" | b"ms" => 1,
        b"s" => 1_000,
        b"min" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        _ => return true,
    };
    // 0 is no timeout at all.
    number.is_none_or(|number| number > 0 && number.saturating_mul(unit_ms) < LONG_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_to_be_long_is_short() {
        let clause = |text: &str| is_short(&Again::Clause(text.as_bytes().into()));
        for text in ["= 1", "to '999ms'", "= 999", "='12us'", "= 1.5", "= '0x7d0'", "= '1e6'", "to DEFAULT"] {
            assert!(clause(&format!("statement_timeout {text}")), "{text}");
        }
        for text in ["= 0", "= 1000", "to '5s'", "= '1 min'", "='2h'", "= 99999999", "= 4294967295"] {
            assert!(!clause(&format!("statement_timeout {text}")), "{text}");
        }
        assert!(is_short(&Again::Value(b"50ms"[..].into())) && !is_short(&Again::Value(b"5s"[..].into())));
    }
}
