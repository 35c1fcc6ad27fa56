//! What a proxy, or whoever comes from its network, sends first: the header of the PROXY protocol.
//!
//! Asserts that it does not matter in which pieces it comes: a part that is enough gives what the whole does, one that is wrong stays wrong, and
//! one that is neither becomes either before it is too long; and that no more bytes are taken than the header has.

use wire::proxy_header::{LEN_MAX, begins, parse};

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let whole = parse(bytes);
    // Every length of a short one; of a long one those about its parts.
    let lens = (0..bytes.len().min(300)).chain(bytes.len().saturating_sub(3)..bytes.len());
    for len in lens {
        match parse(&bytes[..len]) {
            Ok(Some((client, used))) => {
                assert!(used <= len);
                assert_eq!(whole, Ok(Some((client, used))));
            }
            Ok(None) => assert!(len < LEN_MAX),
            Err(wrong) => assert_eq!(whole.map_err(drop), Err(()), "{wrong:?}"),
        }
    }
    match whole {
        Ok(found) => {
            assert!(begins(bytes));
            assert!(found.is_some() || bytes.len() < LEN_MAX);
            assert!(found.is_none_or(|(_, used)| used <= LEN_MAX && parse(&bytes[..used]) == whole));
        }
        Err(_) => assert!(parse(&[bytes, b"more"].concat()).is_err()),
    }
}
