//! Refuses texts that contain the pooler's names of prepared statements, where session state is not followed.
//!
//! A client that sees these names in pg_prepared_statements could deallocate one and prepare something else for others
//! to run. Where session state is followed, a text is read for the names that it prepares and deallocates. In `classic`
//! it is searched for such names, also on servers without statements, since the pooler may prepare one there later.
//!
//! It does not find names after the first 64 kB of a text, names with escapes, and names that a function or a DO block
//! makes up.

use session_state::prepared::RESERVED;
use settings::PoolMode;

use crate::pool::Rules;
use crate::requests::{REFUSE_NAME, Requests};

/// Hexadecimal digits after [`RESERVED`].
const DIGITS: usize = 32;

/// Whether texts are searched for names.
#[inline]
pub(crate) fn searches_names(requests: &Requests<'_>) -> bool {
    reserves_names(&requests.link.pool.rules) && !requests.is_passed_over()
}

/// Whether names of statements on servers are searched for in the texts of a pool with these rules.
#[inline]
pub(crate) fn reserves_names(rules: &Rules) -> bool {
    !rules.follows() && rules.mode != PoolMode::Session && rules.max_prepared_statements > 0
}

/// A message with a text is about to be sent. If the text contains such a name, a statement that raises an error is
/// sent before it.
#[inline]
pub(crate) fn refuses_names(requests: &mut Requests<'_>, body: &[u8]) -> bool {
    let refuses = searches_names(requests) && has_server_name(body);
    if refuses {
        requests.run_prelude(&vec![REFUSE_NAME.to_vec()]);
    }
    refuses
}

/// Whether a text contains the name of a statement on servers, quoted or not.
#[inline]
pub(crate) fn has_server_name(text: &[u8]) -> bool {
    text.len() >= RESERVED.len() + DIGITS && text.contains(&b'_') && has_name_at_underscore(text)
}

fn has_name_at_underscore(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'_') {
        let start = (at + 1).checked_sub(RESERVED.len()).map(|start| &rest[start..=at]);
        let digits = rest.get(at + 1..at + 1 + DIGITS);
        let is_reserved = start.is_some_and(|start| start.eq_ignore_ascii_case(RESERVED));
        if is_reserved && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_however_it_is_written() {
        let name = format!("pgweir_{:032x}", 0xab);
        let table = [
            (format!("deallocate \"{name}\""), true),
            (format!("DEALLOCATE {}", name.to_uppercase()), true),
            (format!("select a_b, c_d; prepare {name} as select 1"), true),
            (name.clone(), true),
            (name[..name.len() - 1].to_owned(), false),
            (format!("select {}", name.replace("ab", "xy")), false),
            ("select * from pgweir_queue_of_a_client_of_more_than_thirty_nine_bytes".to_owned(), false),
            (format!("select _{}", "0".repeat(40)), false),
            (String::new(), false),
        ];
        for (text, found) in table {
            assert_eq!(has_server_name(text.as_bytes()), found, "{text}");
        }
    }
}
