//! What lies where the history's file should be: seconds in frames, and the bytes of one.
//!
//! Asserts that reading ends, and takes what is whole whatever stands around it; that a second that is taken is the same when it is written and read
//! again; and that all that it takes of memory is given back.

use activity::history::frames::{Frame, Packed, frame, framed, skipped};
use activity::history::packed::{Unpacked, Unpacker};
use activity::history::{Glance, Options, Span};
use activity::{At, History};

const WHOLE: Span = Span { from: At(0), to: At(u64::MAX) };

/// One run of the target: the bytes as a file, and as a second.
pub fn run(bytes: &[u8]) {
    let mut rest = bytes;
    let mut unpacker = Unpacker::new().expect("memory");
    while !rest.is_empty() {
        let len = match frame(rest) {
            Frame::Whole { packed, len } => {
                assert_eq!(framed(packed.at, packed.after, packed.bytes), (rest[..len].to_vec(), packed.sum));
                second(packed.bytes);
                if let Unpacked::Second(unpacked) = unpacker.unpack(&packed) {
                    let unpacked = unpacked.to_vec();
                    second(&unpacked);
                }
                len
            }
            Frame::Damaged { len } => len,
            Frame::Short => skipped(rest),
        };
        assert!(len > 0 && len <= rest.len(), "it goes on");
        rest = &rest[len..];
    }
    second(bytes);
    // Whatever is before it, a second is found.
    let after = [bytes, &framed(At(7), None, b"whole").0].concat();
    let mut rest = &after[..];
    let is_found = loop {
        rest = match frame(rest) {
            Frame::Whole { packed: Packed { bytes: b"whole", .. }, .. } => break true,
            Frame::Whole { len, .. } | Frame::Damaged { len } => &rest[len..],
            Frame::Short if rest.is_empty() => break false,
            Frame::Short => &rest[skipped(rest)..],
        };
    };
    assert!(is_found);
}

fn second(bytes: &[u8]) {
    // At a glance it is what it is in full.
    let glance = Glance::of(bytes);
    let mut history = History::default();
    if history.restore(bytes, WHOLE) == Ok(true)
        && let Some((_, stored)) = history.stored()
    {
        let kept = history.seconds().next().map(|second| history.glance(second));
        // Structs as maps, which we do not write, are read in full alone.
        assert!(glance.is_err() || glance.as_ref().ok() == kept.as_ref(), "{glance:?} {kept:?}");
        let mut again = History::default();
        assert_eq!(again.restore(&stored, WHOLE), Ok(true));
        assert_eq!(again.stored().map(|(_, bytes)| bytes), Some(stored), "it is the same again");
        assert_eq!((again.bytes(), again.seconds().len()), (history.bytes(), 1));
    }
    history.configure(Options { memory_max: 0, ..Options::default() });
    assert_eq!((history.bytes(), history.seconds().len()), (0, 0));
}
