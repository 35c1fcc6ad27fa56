//! Seconds, packed one after the other: each with what came before it in its block, since most of a second repeats the one before.
//!
//! ```text
//!   block ─ first frame ─ frame ─ frame …      one stream of zstd, flushed after each second
//!           after: None   after: the sum of the one before
//! ```
//!
//! Promises: what was packed can be read up to the last whole frame, whatever was lost behind it; a lost frame costs the rest of its block, a minute
//! at most. A frame is unpacked only behind the one that it names, so those of two writers in one file are not mixed up.

use std::io;

use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

use super::At;
use super::frames::{Packed, SECOND_LEN_MAX, Sum, framed};

/// Time in one block.
pub const BLOCK_MS: u64 = 60_000;

/// Of a busy second's 25 kB, level 1 leaves 2,180 bytes, 3 leaves 2,070, 6 leaves 1,900 in 0.1 ms, and 9 leaves 1,880.
const LEVEL: i32 = 6;

/// What came before is compared with: a megabyte of it, some dozen busy seconds.
const WINDOW_LOG: u32 = 20;

/// What writes.
pub struct Packer {
    encoder: Encoder<'static>,
    /// Of the block: when it was begun, and the last frame. `None`: the next second begins one.
    block: Option<(At, Sum)>,
}

impl Packer {
    /// # Errors
    /// There is no memory for it.
    pub fn new() -> io::Result<Packer> {
        let mut encoder = Encoder::new(LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        Ok(Packer { encoder, block: None })
    }

    /// The next second begins a block: in a new file, and after a frame that may not have been written.
    pub fn part(&mut self) {
        self.block = None;
    }

    /// The second's frame.
    ///
    /// # Errors
    /// zstd cannot: there is no memory.
    pub fn pack(&mut self, at: At, second: &[u8]) -> io::Result<Vec<u8>> {
        let goes_on = |begun: At| begun <= at && at.0 - begun.0 < BLOCK_MS;
        let block = self.block.take().filter(|(begun, _)| goes_on(*begun));
        if block.is_none() {
            self.encoder.reinit()?;
        }
        let mut out = vec![0; zstd::zstd_safe::compress_bound(second.len()) + 64];
        let mut filled = OutBuffer::around(&mut out[..]);
        let mut given = InBuffer::around(second);
        while given.pos() < second.len() {
            self.encoder.run(&mut given, &mut filled)?;
        }
        while self.encoder.flush(&mut filled)? > 0 {}
        let (frame, sum) = framed(at, block.map(|(_, sum)| sum), filled.as_slice());
        self.block = Some((block.map_or(at, |(begun, _)| begun), sum));
        Ok(frame)
    }
}

/// What reads.
pub struct Unpacker {
    decoder: Decoder<'static>,
    last: Option<Sum>,
    out: Vec<u8>,
}

/// What has become of a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Unpacked<'u> {
    Second(&'u [u8]),
    /// The frame before it is missing, or its block was passed over.
    Behind,
    /// It is no stream of zstd.
    Damaged,
}

impl Unpacker {
    /// # Errors
    /// There is no memory for it.
    pub fn new() -> io::Result<Unpacker> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(Unpacker { decoder, last: None, out: Vec::new() })
    }

    /// To be given all frames of a block, from its first one.
    pub fn unpack(&mut self, packed: &Packed<'_>) -> Unpacked<'_> {
        let last = self.last.take();
        if packed.after.is_some() && packed.after != last {
            return Unpacked::Behind;
        }
        if packed.after.is_none() && self.decoder.reinit().is_err() {
            return Unpacked::Damaged;
        }
        if self.fill(packed.bytes).is_err() {
            return Unpacked::Damaged;
        }
        self.last = Some(packed.sum);
        Unpacked::Second(&self.out)
    }

    /// The block of this frame is not wanted.
    pub fn pass(&mut self) {
        self.last = None;
    }

    fn fill(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.clear();
        let mut given = InBuffer::around(bytes);
        let mut part = [0; 1 << 15];
        loop {
            let mut filled = OutBuffer::around(&mut part[..]);
            self.decoder.run(&mut given, &mut filled)?;
            let is_full = filled.pos() == filled.capacity();
            self.out.extend_from_slice(filled.as_slice());
            if self.out.len() > SECOND_LEN_MAX {
                return Err(io::Error::other("a second has 4 MB at most"));
            }
            if given.pos() == bytes.len() && !is_full {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Frame, frame};
    use super::*;

    /// A second of which most is as in the one before.
    fn second(at: u64) -> Vec<u8> {
        let lines = (0..400_u32).map(|line| format!("{:x}\n", line.wrapping_mul(2_654_435_761)));
        lines.chain([format!("at {at}\n")]).collect::<String>().into_bytes()
    }

    fn read(mut bytes: &[u8]) -> Vec<u64> {
        let (mut unpacker, mut found) = (Unpacker::new().expect("memory"), Vec::new());
        while let Frame::Whole { packed, len } = frame(bytes) {
            if let Unpacked::Second(unpacked) = unpacker.unpack(&packed) {
                assert_eq!(unpacked, second(packed.at.0), "{:?}", packed.at);
                found.push(packed.at.0 / 1000);
            }
            bytes = &bytes[len..];
        }
        assert!(bytes.is_empty());
        found
    }

    fn packed(packer: &mut Packer, seconds: std::ops::Range<u64>) -> Vec<Vec<u8>> {
        seconds.map(|at| packer.pack(At(at * 1000), &second(at * 1000)).expect("memory")).collect()
    }

    #[test]
    fn what_was_packed_is_unpacked_and_repeats_cost_little() {
        let frames = packed(&mut Packer::new().expect("memory"), 100..300);
        assert_eq!(read(&frames.concat()), (100..300).collect::<Vec<_>>());
        assert!(frames[1].len() * 5 < frames[0].len(), "{} {}", frames[0].len(), frames[1].len());
        assert!(frames[60].len() > frames[59].len() * 5, "a block has a minute");
    }

    #[test]
    fn a_lost_frame_costs_the_rest_of_its_block() {
        let mut frames = packed(&mut Packer::new().expect("memory"), 0..130);
        frames.remove(30);
        assert_eq!(read(&frames.concat()), (0..30).chain(60..130).collect::<Vec<_>>());
    }

    #[test]
    fn two_writers_are_not_mixed_up() {
        let (one, other) = (&mut Packer::new().expect("memory"), &mut Packer::new().expect("memory"));
        let mut frames = packed(one, 0..3);
        frames.extend(packed(other, 3..5));
        // The first one's, among those of the second.
        frames.extend(packed(one, 5..6));
        frames.extend(packed(other, 6..8));
        one.part();
        frames.extend(packed(one, 8..10));
        assert_eq!(read(&frames.concat()), [0, 1, 2, 3, 4, 8, 9]);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_a_block() {
        let mut packer = Packer::new().expect("memory");
        let mut frames = packed(&mut packer, 50..52);
        let back = packed(&mut packer, 20..22);
        assert!(matches!(frame(&back[0]), Frame::Whole { packed, .. } if packed.after.is_none()));
        frames.extend(back);
        assert_eq!(read(&frames.concat()), [50, 51, 20, 21]);
    }

    #[test]
    fn other_bytes_are_no_stream() {
        let (bytes, _) = framed(At(0), None, b"nothing that zstd has written");
        let Frame::Whole { packed, .. } = frame(&bytes) else { panic!("it is whole") };
        assert_eq!(Unpacker::new().expect("memory").unpack(&packed), Unpacked::Damaged);
    }
}
