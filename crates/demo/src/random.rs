//! Randomness from the kernel: passwords and names nobody can guess.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;

/// A password of 128 random bits, in 32 characters that need no quoting in a URL or a shell.
///
/// # Panics
/// If `/dev/urandom` cannot be read: without randomness a password would be worse than none.
#[must_use]
pub fn random_password() -> String {
    random_hex(16)
}

/// `bytes` random bytes as hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> String {
    let mut raw = vec![0_u8; bytes];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut raw))
        .expect("every Linux has /dev/urandom, and it never runs dry");
    raw.iter().fold(String::with_capacity(bytes * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

/// A number below `bound`, for picking a port; the tiny bias of the remainder does not matter there.
pub(crate) fn random_below(bound: u16) -> u16 {
    u16::from_str_radix(&random_hex(2), 16).expect("four hexadecimal digits fit") % bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_plain_and_never_the_same() {
        let (one, two) = (random_password(), random_password());
        assert_eq!(one.len(), 32);
        assert!(one.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(one, two);
    }
}
