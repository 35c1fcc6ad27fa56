//! Packs seconds with zstd. Each is packed with the seconds before it in its block, since it repeats most of them.
//!
//! ```text
//!   block ─ first frame ─ frame ─ frame …      one stream of zstd, flushed after each second
//!           after: None   after: the sum of the one before
//! ```
//!
//! Promises: A file can be read up to its last whole frame. A lost frame costs the rest of its block, which is a minute at most. A frame is unpacked
//! only behind the frame that it names, so the frames of two writers in one file are not mixed up.

use std::io;

use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

use super::At;
use super::frames::{Packed, SECOND_LEN_MAX, Sum, framed};

/// Time in one block.
pub const BLOCK_MS: u64 = 60_000;

/// A busy second has 25 kB: level 1 leaves 2,180 bytes, 3 leaves 2,070, 6 leaves 1,900 in 0.1 ms, and 9 leaves 1,880.
const LEVEL: i32 = 6;

/// A second is compared with the megabyte before it, which holds some dozen busy seconds.
const WINDOW_LOG: u32 = 20;

/// Whether a reader takes the second: its frame may not be too long, even if zstd makes the bytes a little longer.
#[must_use]
pub fn fits(second: &[u8]) -> bool {
    second.len() <= SECOND_LEN_MAX - (SECOND_LEN_MAX >> 7)
}

/// Packs seconds into frames.
pub struct Packer {
    encoder: Encoder<'static>,
    /// The time of the block's first second, and the sum of its last frame. `None`: the next second begins a block.
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

    /// Makes the next second begin a block. Needed in a new file, and after a frame that may not have been written.
    pub fn part(&mut self) {
        self.block = None;
    }

    /// Returns the second's frame.
    ///
    /// # Errors
    /// The second is too long, or there is no memory for zstd.
    pub fn pack(&mut self, at: At, second: &[u8]) -> io::Result<Vec<u8>> {
        if !fits(second) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a second has 4 MB at most"));
        }
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

/// Unpacks frames.
pub struct Unpacker {
    decoder: Decoder<'static>,
    last: Option<Sum>,
    out: Vec<u8>,
}

/// The result of unpacking a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Unpacked<'u> {
    Second(&'u [u8]),
    /// The frame before it is missing, or its block was skipped.
    Behind,
    /// The bytes are no stream of zstd.
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

    /// Unpacks a frame. The caller passes all frames of a block, from the first one.
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

    /// The caller skips a frame. The rest of its block cannot be unpacked then.
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
    fn a_second_of_the_largest_size_is_read_even_if_it_cannot_be_packed() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let mut second: Vec<u8> = (0..SECOND_LEN_MAX).map(|_| random()).collect();
        let mut packer = Packer::new().expect("memory");
        assert!(packer.pack(At(0), &second).is_err());
        while !fits(&second) {
            second.pop();
        }
        let bytes = packer.pack(At(0), &second).expect("it fits");
        let Frame::Whole { packed, .. } = frame(&bytes) else { panic!("it is whole") };
        let is_read = Unpacker::new().expect("memory").unpack(&packed) == Unpacked::Second(&second);
        assert!(is_read);
    }

    #[test]
    fn other_bytes_are_no_stream() {
        let (bytes, _) = framed(At(0), None, b"nothing that zstd has written");
        let Frame::Whole { packed, .. } = frame(&bytes) else { panic!("it is whole") };
        assert_eq!(Unpacker::new().expect("memory").unpack(&packed), Unpacked::Damaged);
    }
}
