//! The trace that a statement belongs to, as its application writes it into a comment: the `traceparent` of W3C Trace Context.
//!
//! ```text
//!   select 1 /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/
//!                           version  trace id                    span id         flags
//! ```
//!
//! Promises that ids are not zero. Anything that is not exactly as the standard has it is none: the trace is then begun anew.
//!
//! W3C Trace Context, "3.2 Traceparent Header", "3.3 Tracestate Header".

/// The span that a statement is part of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whoever began the trace keeps it.
    pub is_sampled: bool,
}

/// How long version 00 is; later ones may have more behind it.
const LEN: usize = 55;

/// How long a `tracestate` may be that is passed on.
const STATE_LEN_MAX: usize = 512;

impl TraceParent {
    /// `None`: it is not as the standard has it.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let (known, rest) = text.split_at_checked(LEN)?;
        let [version] = digits(known.get(..2)?)?;
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !fits || [2, 35, 52].iter().any(|at| known[*at] != b'-') {
            return None;
        }
        let trace_id: [u8; 16] = digits(&known[3..35])?;
        let span_id: [u8; 8] = digits(&known[36..52])?;
        let [flags] = digits(&known[53..])?;
        let has_ids = trace_id != [0; 16] && span_id != [0; 8];
        has_ids.then_some(TraceParent { trace_id, span_id, is_sampled: flags & 1 != 0 })
    }
}

/// A `tracestate` as it may be passed on; empty: it is too long, or has what no header can have.
#[must_use]
pub fn trace_state(text: &[u8]) -> &str {
    let is_clean = text.len() <= STATE_LEN_MAX && text.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if is_clean { std::str::from_utf8(text).unwrap_or_default() } else { "" }
}

/// Lower-case hexadecimal digits, two a byte.
fn digits<const LEN: usize>(text: &[u8]) -> Option<[u8; LEN]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; LEN];
    if text.len() != 2 * LEN {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_standard_has_is_read() {
        let read = TraceParent::parse(TEXT.as_bytes()).expect("it is as the standard has it");
        assert_eq!(read.trace_id[..2], [0x4b, 0xf9]);
        assert_eq!(read.span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(read.is_sampled);
        let flags = |flags: &str| TraceParent::parse(format!("{}{flags}", &TEXT[..53]).as_bytes());
        assert!(!flags("00").expect("fits").is_sampled && flags("03").expect("fits").is_sampled);
        assert!(TraceParent::parse(format!("cc{}", &TEXT[2..]).as_bytes()).is_some(), "a later version");
        assert!(TraceParent::parse(format!("cc{}-what-comes", &TEXT[2..]).as_bytes()).is_some());
    }

    #[test]
    fn anything_else_is_none() {
        let zeros = "0".repeat(32);
        let mistakes = [
            String::new(),
            TEXT[..54].to_owned(),
            format!("{TEXT}-"),
            format!("{TEXT} "),
            TEXT.to_uppercase(),
            TEXT.replace('-', "_"),
            format!("ff{}", &TEXT[2..]),
            format!("cc{}x", &TEXT[2..]),
            format!("00-{zeros}{}", &TEXT[35..]),
            format!("{}-{}-01", &TEXT[..35], &zeros[..16]),
            TEXT.replace('4', "g"),
            TEXT.replace('4', "é"),
            "\u{0}".repeat(55),
            "00-".repeat(1000),
        ];
        for text in mistakes {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_state_is_passed_on_only_if_a_header_could_have_it() {
        assert_eq!(trace_state(b"congo=t61rcWkgMzE,rojo=00f0"), "congo=t61rcWkgMzE,rojo=00f0");
        for text in [&b"a=b\r\nX: y"[..], "a=\u{e9}".as_bytes(), &[b'a'; 513], b"\x1b[2J", b"\xff"] {
            assert_eq!(trace_state(text), "");
        }
    }
}
