//! Messages that may not pass: those that are longer than `max_packet_size`, and with `disable_pqexec` a client's Query.
//!
//! Headers alone are looked at, before the bytes are dealt with. Where neither is set, which is the default, nothing is.
//!
//! //= pgbouncer config.md#max_packet_size
//! //= pgbouncer config.md#disable_pqexec

use connections::Barred;
use machine::Settings;
use wire::frontend::tag;
use wire::{HEADER_LEN, Header};

/// The longest message that the protocol has is one byte longer: this is no bound.
const UNBOUNDED: u32 = i32::MAX as u32;

/// What is looked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Of a whole message, its header included.
    len_max: usize,
    refuses_query: bool,
}

/// A message that may not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Where it begins in the bytes that have just come; 0: before them.
    pub at: usize,
    pub why: Barred,
}

impl Screen {
    /// `None`: there is nothing to look for.
    #[must_use]
    pub fn of(settings: &Settings) -> Option<Screen> {
        let len_max = settings.global.network.max_packet_size;
        let refuses_query = settings.global.startup.disable_pqexec;
        (len_max < UNBOUNDED || refuses_query).then_some(Screen { len_max: len_max as usize, refuses_query })
    }

    /// The first message that may not pass of `kept` and then `bytes`, which begin with the last `skip` bytes of another one.
    #[must_use]
    pub fn stops(self, skip: u32, kept: &[u8], bytes: &[u8], is_client: bool) -> Option<Stopped> {
        let mut at = skip as usize;
        loop {
            let header = header_at(kept, bytes, at)?;
            let len = header.total_len();
            let found = if len > self.len_max {
                Some(Barred::TooLarge { len, max: self.len_max })
            } else if is_client && self.refuses_query && header.tag == tag::QUERY {
                Some(Barred::Query)
            } else {
                None
            };
            if let Some(why) = found {
                return Some(Stopped { at: at.saturating_sub(kept.len()), why });
            }
            at += len;
        }
    }
}

/// The header at a place of two pieces; `None`: it is not all there, or is none, which whoever reads the message will say.
fn header_at(kept: &[u8], bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = [0; HEADER_LEN];
    for (index, byte) in header.iter_mut().enumerate() {
        let place = at + index;
        *byte = *kept.get(place).or_else(|| bytes.get(place - kept.len().min(place)))?;
    }
    Header::parse(&header).ok()?
}

#[cfg(test)]
mod tests {
    use wire::frontend::{Query, encode_sync};

    use super::*;

    const SCREEN: Screen = Screen { len_max: 20, refuses_query: false };

    fn messages() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_sync(&mut bytes);
        Query { text: b"select 1" }.encode(&mut bytes);
        Query { text: b"a text that is long" }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_message_that_is_too_long_is_found_wherever_the_bytes_are_split() {
        let bytes = messages();
        for split in 0..bytes.len() {
            let (kept, new) = bytes.split_at(split);
            let found = SCREEN.stops(0, kept, new, true).expect("it is there");
            let why = Barred::TooLarge { len: 25, max: 20 };
            assert_eq!((found.at, found.why), (19_usize.saturating_sub(split), why), "{split}");
        }
        assert_eq!(SCREEN.stops(0, &[], &bytes[..23], true), None, "its header is not there yet");
        assert!(SCREEN.stops(0, &[], &bytes[..24], true).is_some(), "that is enough");
        let wide = Screen { len_max: 25, ..SCREEN };
        assert_eq!(wide.stops(0, &[], &bytes, true), None, "exactly as long as may be");
    }

    #[test]
    fn the_rest_of_another_message_is_passed_over() {
        let bytes = messages();
        // The Sync's length, seen as a header, would be nonsense.
        let found = SCREEN.stops(4, &[], &bytes[1..], true).expect("it is there");
        assert_eq!(found.at, 18);
        assert_eq!(SCREEN.stops(1_000, &[], &bytes, true), None);
    }

    #[test]
    fn a_query_of_a_client_is_refused_where_it_is_to_be() {
        let strict = Screen { len_max: 1_000, refuses_query: true };
        let found = strict.stops(0, &[], &messages(), true).expect("it is there");
        assert_eq!((found.at, found.why), (5, Barred::Query));
        assert_eq!(strict.stops(0, &[], &messages(), false), None, "a server's Q is another matter");
    }

    #[test]
    fn nothing_is_looked_for_by_default() {
        assert_eq!(Screen::of(&Settings::default()), None);
    }
}
