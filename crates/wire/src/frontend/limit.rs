//! How long PostgreSQL lets each message be. A pooler that lets more through would have it refused by the server, which
//! ends that connection: so the client is refused first. It checks nothing itself.

use super::tag;

/// Longest length that a message without room for user data may declare, in bytes.
pub const SMALL_LEN_MAX: usize = 10_000;

/// Longest length that a message with user data may declare, in bytes: PostgreSQL's largest allocation less one.
pub const LARGE_LEN_MAX: usize = 0x3fff_fffe;

/// Longest length that an answer to an authentication request may declare, in bytes.
pub const PASSWORD_LEN_MAX: usize = 65_535;

/// The longest length that a message with this tag may declare, in bytes; `None` if a client sends no such tag.
pub fn len_max(tag: u8) -> Option<usize> {
    match tag {
        tag::QUERY | tag::PARSE | tag::BIND | tag::FUNCTION_CALL | tag::COPY_DATA => {
            Some(LARGE_LEN_MAX)
        }
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
