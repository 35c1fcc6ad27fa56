//! How long PostgreSQL lets each message be. A pooler that lets more through would have it refused by the server, which
//! ends that connection: so the client is refused first. It checks nothing itself.

use super::tag;

/// Longest length that a message without room for user data may declare, in bytes.
pub const SMALL_LEN_MAX: usize = 10_000;

/// Longest length that a message with user data may declare, in bytes: PostgreSQL's largest allocation less one.
pub const LARGE_LEN_MAX: usize = 0x3fff_fffe;

/// Longest length that an answer to an authentication request may declare, in bytes.
pub const PASSWORD_LEN_MAX: usize = 65_535;

/// Longest length that a line of a SASL exchange may declare, in bytes. It goes under the tag of a password, so
/// [`len_max`] cannot tell it.
pub const SASL_LEN_MAX: usize = 1_024;

/// The longest length that a message with this tag may declare, in bytes; `None` if a client sends no such tag.
pub fn len_max(tag: u8) -> Option<usize> {
    match tag {
        tag::QUERY | tag::PARSE | tag::BIND | tag::FUNCTION_CALL | tag::COPY_DATA => Some(LARGE_LEN_MAX),
        tag::DESCRIBE
        | tag::EXECUTE
        | tag::CLOSE
        | tag::SYNC
        | tag::FLUSH
        | tag::TERMINATE
        | tag::COPY_DONE
        | tag::COPY_FAIL => Some(SMALL_LEN_MAX),
        tag::PASSWORD => Some(PASSWORD_LEN_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fourteen_tags_have_a_limit_and_no_others() {
        let known: Vec<u8> = (0..=255).filter(|tag| len_max(*tag).is_some()).collect();
        assert_eq!(known, b"BCDEFHPQSXcdfp");
    }

    #[test]
    fn user_data_has_room_and_names_have_less() {
        assert_eq!(len_max(tag::QUERY), Some(1_073_741_822));
        assert_eq!(len_max(tag::COPY_DATA), Some(1_073_741_822));
        assert_eq!(len_max(tag::SYNC), Some(10_000));
        assert_eq!(len_max(tag::PASSWORD), Some(65_535));
    }
}
