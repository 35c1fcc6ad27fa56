//! A hash over a text without what differs from one use to the next: what stands in strings and comments, which numbers
//! and parameters there are.
//!
//! Two texts with equal fingerprints are the same but for these and for minus signs before numbers; so they have the
//! same marks and words. The hash has 128 bits and a secret key: without the key no one can find two texts that meet,
//! or many that fall into one place of a table. Case and white space count, and so do lengths of lists: a program
//! writes its statements the same way each time, and to look away from that would cost more than it finds.
//!
//! This is the hot path. It does not divide a text into tokens: it goes over it eight bytes at a time and stops where one
//! of a few bytes stands that may begin a constant, a name in quotes or a comment. Where these end is told by the rules
//! of `scan`, which [`crate::Lexer`] goes by too.

use crate::chunk::{CHUNK_LEN, Chunk, Places};
use crate::lexer::{TokenKind, Unlexable, dollar, prefixed};
use crate::scan::{self, BEGINS, Begins};
use crate::text::Text;
use crate::unicode_names;
use std::fmt;

/// Of a text, under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) [u64; 2]);

impl Fingerprint {
    /// For a table of the caller's own.
    pub fn bits(self) -> [u64; 2] {
        self.0
    }
}

/// The secret that fingerprints depend on.
#[derive(Clone, Copy)]
pub struct Key {
    multiplier: u64,
    start: [u64; 2],
}

impl fmt::Debug for Key {
    /// Without the secret.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Key")
    }
}

impl Key {
    /// From 64 random bits. Equal seeds give equal keys.
    pub fn from_seed(seed: u64) -> Key {
        let mut state = seed;
        let mut next = || {
            // A step of the generator splitmix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        // An even multiplier would lose bits.
        Key { multiplier: next() | 1, start: [next(), next()] }
    }
}

/// What is added to the multiplier for what is left out, to hash the fewer than eight bytes before it. Even, as an odd
/// multiplier must stay odd. It does not stand among the bytes of the text, which may be any.
const NUMBER: u64 = 2;
const STRING: u64 = 4;
const PARAMETER: u64 = 6;
const COMMENT: u64 = 8;
const COPIED: u64 = 10;
const END: u64 = 12;
/// A string whose prefix is `U&`: before a string in dollars the same two are a name and an operator.
const ENCODED: u64 = 14;

/// Small, and passed by value: so it stays in registers.
#[derive(Clone, Copy)]
struct Hash {
    low: u64,
    high: u64,
}

impl Hash {
    #[inline(always)]
    fn mix(self, bits: u64, multiplier: u64) -> Hash {
        let mixed = self.low ^ bits;
        let product = u128::from(mixed) * u128::from(multiplier);
        // Each step can be turned back but for an overflow: what differs once goes on to differ.
        Hash { low: product as u64 ^ self.high, high: ((product >> 64) as u64).wrapping_add(mixed) }
    }

    /// The first `len` bytes of the chunk, which are fewer than eight, and what follows them. No eight bytes hash so,
    /// whatever they are: the multiplier is another one.
    #[inline(always)]
    fn mark(self, chunk: Chunk, len: usize, mark: u64, multiplier: u64) -> Hash {
        self.mix(chunk.first(len).bits(), multiplier.wrapping_add(mark))
    }
}

/// The quotes of names among a chunk's openers, if these are nothing but quotes and dots between names: most of what
/// object-relational mappers write.
#[inline(always)]
fn names(chunk: Chunk, openers: Places) -> Option<Places> {
    let quotes = chunk.places_of(b'"');
    openers.without(quotes).without(chunk.places_of(b'.')).is_empty().then_some(quotes)
}

/// Over what has nothing to leave out, which is most of a text. By itself, so that all it needs stays in registers.
struct Plain {
    /// How many bytes, whole chunks of them.
    len: usize,
    /// With these.
    hash: Hash,
    /// Of the quotes in these, and before.
    quotes: Places,
}

#[inline(never)]
fn plain<const COPY: bool>(text: &[u8], source: &[u8], hash: Hash, quotes: Places, multiplier: u64) -> Plain {
    let (chunks, _) = text.as_chunks::<CHUNK_LEN>();
    let (written, _) = source.as_chunks::<CHUNK_LEN>();
    let mut plain = Plain { len: 0, hash, quotes };
    for (chunk, written) in chunks.iter().map(Chunk::of).zip(written) {
        let openers = chunk.openers();
        if !openers.is_empty() {
            let Some(quotes) = names(chunk, openers) else { break };
            plain.quotes = plain.quotes.differing(quotes);
        }
        let bits = if COPY { Chunk::of(written).bits() } else { chunk.bits() };
        plain.hash = plain.hash.mix(bits, multiplier);
        plain.len += CHUNK_LEN;
    }
    plain
}

/// The way through a text.
struct FingerprintWalk<'a> {
    /// What the rules are held against.
    text: &'a [u8],
    /// What is hashed; as long.
    source: &'a [u8],
    standard_strings: bool,
    multiplier: u64,
}

/// What stands at a place that may begin something to leave out: its mark, where it begins and where it ends.
#[derive(Clone, Copy)]
struct Found {
    mark: u64,
    start: usize,
    end: usize,
}

impl Text<'_> {
    /// The text's fingerprint. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The text cannot be divided into tokens for certain. That it can is not promised where there is none.
    // It belongs into the memo's look-up, on a query's way, however many others call it.
    #[inline(always)]
    pub fn fingerprint(&self, key: &Key) -> Result<Fingerprint, Unlexable> {
        let (text, source, standard_strings) = (self.read(), self.source(), self.standard_strings);
        let walk = FingerprintWalk { text, source, standard_strings, multiplier: key.multiplier };
        let hash = Hash { low: key.start[0], high: key.start[1] };
        let hash = if self.is_copied() {
            walk.hash::<true>(hash.mark(Chunk::default(), 0, COPIED, key.multiplier))
        } else {
            walk.hash::<false>(hash)
        };
        let hash = hash.ok_or(Unlexable)?.mix(key.start[1], key.multiplier).mix(key.start[0], key.multiplier);
        Ok(Fingerprint([hash.low, hash.high]))
    }
}

impl FingerprintWalk<'_> {
    #[inline(always)]
    fn hash<const COPY: bool>(&self, mut hash: Hash) -> Option<Hash> {
        // What was left out last ends at `floor`: what stands before it is no part of what stands behind it.
        let (mut at, mut floor) = (0, 0);
        // Odd within a name in quotes; a doubled quote ends one name and begins another, for this purpose.
        let mut quotes = Places::default();
        while at < self.text.len() {
            let chunk = Chunk::load(self.text, at);
            let written = if COPY { Chunk::load(self.source, at) } else { chunk };
            let openers = chunk.openers();
            let mut is_plain = true;
            if !openers.is_empty() {
                is_plain = names(chunk, openers).is_some() && !self.may_be_encoded(at, floor);
                if !is_plain && let Some(found) = self.first(openers, at, floor, quotes.are_odd())? {
                    hash = hash.mark(written, found.start - at, found.mark, self.multiplier);
                    (at, floor, quotes) = (found.end, found.end, Places::default());
                    continue;
                }
                quotes = quotes.differing(chunk.places_of(b'"'));
            }
            if at + CHUNK_LEN > self.text.len() {
                let end = hash.mark(written, self.text.len() - at, END, self.multiplier);
                return (!quotes.are_odd()).then_some(end);
            }
            hash = hash.mix(written.bits(), self.multiplier);
            at += CHUNK_LEN;
            if is_plain {
                // Where one chunk has nothing to leave out, more follow.
                let (text, source) = (&self.text[at..], &self.source[at..]);
                let plain = plain::<COPY>(text, source, hash, quotes, self.multiplier);
                (at, hash, quotes) = (at + plain.len, plain.hash, plain.quotes);
            }
        }
        let end = hash.mark(Chunk::default(), 0, END, self.multiplier);
        (!quotes.are_odd()).then_some(end)
    }

    /// A name whose quote is here may be one behind `U&`.
    #[inline(always)]
    fn may_be_encoded(&self, at: usize, floor: usize) -> bool {
        self.text[at] == b'"' && at > floor && self.text[at - 1] == b'&'
    }

    /// The first thing to leave out that begins in the chunk, `None` if its end is not known. Names in quotes are
    /// passed over; they are hashed as they stand.
    #[inline(always)]
    fn first(&self, mut places: Places, at: usize, floor: usize, in_quotes: bool) -> Option<Option<Found>> {
        if in_quotes {
            places = places.from(scan::quoted(self.text, at, b'"')? - at);
        }
        while let Some(place) = places.first() {
            let start = at + place;
            if self.text[start] == b'"' {
                places = places.from(self.quoted_end(start, floor)? - at);
                continue;
            }
            match self.found(start, floor)? {
                None => places = places.rest(),
                Some(found) => return Some(Some(found)),
            }
        }
        Some(None)
    }

    /// Where a name in quotes ends; behind `U&` it must be one that is read.
    #[inline(always)]
    fn quoted_end(&self, start: usize, floor: usize) -> Option<usize> {
        if self.may_be_encoded(start, floor)
            && let Some(at) = self.prefix(start, floor).filter(|at| matches!(self.text[*at], b'u' | b'U'))
        {
            return unicode_names::end(self.text, at);
        }
        scan::quoted(self.text, start + 1, b'"')
    }

    /// What begins here to be left out; `Some(None)` if nothing, `None` if its end is not known.
    #[inline(always)]
    fn found(&self, start: usize, floor: usize) -> Option<Option<Found>> {
        let text = self.text;
        let next = start + 1;
        let of = |mark: u64, end: usize| Some(Some(Found { mark, start, end }));
        let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
        match text[start] {
            b'0'..=b'9' if self.is_in_word(start, floor) => Some(None),
            // A dot before its first digit belongs to it, but is hashed.
            b'0'..=b'9' => {
                let has_dot = start > floor && text[start - 1] == b'.';
                of(NUMBER, scan::number(text, start - usize::from(has_dot))?)
            }
            // A sign, unless it ends a longer operator.
            b'-' if is_digit(next) && (start == floor || BEGINS[usize::from(text[start - 1])] != Begins::Operator) => {
                of(NUMBER, scan::number(text, next)?)
            }
            b'$' if is_digit(next) && !self.is_in_word(start, floor) => of(PARAMETER, scan::parameter(text, start)?),
            b'.' | b'%' | b'#' | b'&' => Some(None),
            b'\'' if self.standard_strings && (start == floor || !scan::continues_word(text[start - 1])) => {
                match start > floor && text[start - 1] == b'&' {
                    true => self.found_rarely(start, floor),
                    false => of(STRING, scan::quoted(text, next, b'\'')?),
                }
            }
            _ => self.found_rarely(start, floor),
        }
    }

    #[inline(never)]
    fn found_rarely(&self, start: usize, floor: usize) -> Option<Option<Found>> {
        let text = self.text;
        let of = |mark: u64, end: usize| Some(Some(Found { mark, start, end }));
        match text[start] {
            b'-' | b'/' if scan::is_comment(text, start) => of(COMMENT, scan::any_comment(text, start)?),
            b'\'' => {
                let (mark, end) = self.string(start, floor)?;
                of(mark, end)
            }
            b'$' if !self.is_in_word(start, floor) => {
                let (kind, end) = dollar(text, start)?;
                of(if kind == TokenKind::Parameter { PARAMETER } else { STRING }, end)
            }
            _ => Some(None),
        }
    }

    /// What stands here goes on with a word that begins before it.
    #[inline(always)]
    fn is_in_word(&self, at: usize, floor: usize) -> bool {
        at > floor && scan::continues_word(self.text[at - 1])
    }

    /// The mark of a string whose quote is here, and where it ends.
    fn string(&self, at: usize, floor: usize) -> Option<(u64, usize)> {
        if let Some(prefix) = self.prefix(at, floor) {
            // Some prefixes are words of their own.
            if let Some(end) = prefixed(self.text, prefix, prefix + 1, self.standard_strings)? {
                return Some((if self.text[at - 1] == b'&' { ENCODED } else { STRING }, end));
            }
        }
        let inside = if self.standard_strings { |text, at| scan::quoted(text, at, b'\'') } else { scan::escaped };
        Some((STRING, inside(self.text, at + 1)?))
    }

    /// Where a prefix of the quote here begins, that is a word of one letter, if there may be one.
    fn prefix(&self, at: usize, floor: usize) -> Option<usize> {
        let before = |len: usize| at.checked_sub(len).filter(|at| *at >= floor);
        let is_and = before(1).is_some_and(|at| self.text[at] == b'&');
        let prefix = before(if is_and { 2 } else { 1 })?;
        (self.text[prefix].is_ascii_alphabetic() && !self.is_in_word(prefix, floor)).then_some(prefix)
    }
}
