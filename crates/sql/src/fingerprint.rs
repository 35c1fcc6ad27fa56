//! A hash over a text's tokens without what differs from one use to the next: comments, white space, constants, case.
//!
//! Two texts with equal fingerprints have the same tokens but for what stands in strings, which numbers and parameters
//! there are, and signs before numbers; so they have the same marks and words. The hash has 128 bits and a secret key: nobody who does not know the key can find
//! two texts that meet, or many that fall into one place of a table. Lists of different lengths differ.
//!
//! This is the hot path: one pass over the text by the rules of `scan`, which the slower [`crate::Lexer`] goes by too.

use crate::lexer::{TokenKind, Unlexable, dollar, identifier, prefixed};
use crate::scan::{self, BEGINS, Begins};
use crate::text::Text;
use std::fmt;

/// Of a text's token stream, under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) [u64; 2]);

/// The secret that fingerprints depend on.
#[derive(Clone, Copy)]
pub struct Key {
    multipliers: [u64; 2],
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
        // Multipliers are odd, else they would lose bits.
        Key {
            multipliers: [splitmix(&mut state) | 1, splitmix(&mut state) | 1],
            start: [splitmix(&mut state), splitmix(&mut state)],
        }
    }
}

/// A step of the generator splitmix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What is mixed in for tokens whose text does not count. The eighth byte tells such from words: a word's part has none,
/// or one of at least 0x24.
const STRING: u64 = 1 << 56;
const NUMBER: u64 = 2 << 56;
const PARAMETER: u64 = 7 << 56;
const QUOTED: u64 = 3 << 56;
const SYMBOL: u64 = 4 << 56;
const RUN: u64 = 5 << 56;
const COPIED: u64 = 6 << 56;

struct Hash {
    a: u64,
    b: u64,
    multipliers: [u64; 2],
}

impl Hash {
    #[inline(always)]
    fn mix(&mut self, part: u64) {
        self.a = fold(self.a ^ part, self.multipliers[0]);
        self.b = (self.b.rotate_left(23) ^ part).wrapping_mul(self.multipliers[1]);
    }

    /// Bytes as they are, and how many.
    #[inline(never)]
    fn bytes(&mut self, bytes: &[u8], tag: u64) {
        self.mix(tag | bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(eight));
        }
    }
}

/// Both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Text<'_> {
    /// The fingerprint of the text's tokens. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The text cannot be divided into tokens for certain.
    #[inline]
    pub fn fingerprint(&self, key: &Key) -> Result<Fingerprint, Unlexable> {
        let mut hash = Hash { a: key.start[0], b: key.start[1], multipliers: key.multipliers };
        if self.is_copied() {
            hash.mix(COPIED);
        }
        self.hash(&mut hash).ok_or(Unlexable)?;
        let (a, b) = (fold(hash.a ^ hash.b, key.start[1] | 1), fold(hash.b, key.start[0] | 1));
        Ok(Fingerprint([a, b]))
    }

    #[inline(always)]
    fn hash(&self, hash: &mut Hash) -> Option<()> {
        let text = self.read();
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match BEGINS[usize::from(*byte)] {
                Begins::Space => at += 1,
                Begins::Word => {
                    let end = scan::word(text, at, |part| hash.mix(part));
                    at = self.behind_word(hash, at, end)?;
                }
                Begins::Punctuation => {
                    hash.mix(SYMBOL | u64::from(*byte));
                    at += 1;
                }
                Begins::Number => {
                    at = scan::number(text, at)?;
                    hash.mix(NUMBER);
                }
                Begins::Quote if self.standard_strings => {
                    at = scan::quoted(text, at + 1, b'\'')?;
                    hash.mix(STRING);
                }
                Begins::Operator => at = operator(text, at, hash)?,
                begins => at = self.rare(hash, at, begins)?,
            }
        }
        Some(())
    }

    #[inline(always)]
    fn behind_word(&self, hash: &mut Hash, at: usize, end: usize) -> Option<usize> {
        if self.is_copied() {
            // What was put out of the way tells names apart.
            hash.bytes(&self.source()[at..end], COPIED);
        }
        if let Some(end) = prefixed(self.read(), at, end, self.standard_strings)? {
            hash.mix(STRING);
            return Some(end);
        }
        (end - at <= scan::WORD_LEN_MAX).then_some(end)
    }

    #[inline(never)]
    fn rare(&self, hash: &mut Hash, at: usize, begins: Begins) -> Option<usize> {
        let text = self.read();
        match begins {
            Begins::DoubleQuote => {
                let end = identifier(text, at)?;
                hash.bytes(&self.source()[at..end], QUOTED);
                return Some(end);
            }
            Begins::Dot if !text.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                hash.mix(SYMBOL | u64::from(b'.'));
                return Some(at + 1);
            }
            _ => {}
        }
        let (kind, end) = match begins {
            Begins::Dot => (TokenKind::Number, scan::number(text, at)?),
            Begins::Dollar => dollar(text, at)?,
            // The other rules of strings are on the hot path.
            Begins::Quote => (TokenKind::String, scan::escaped(text, at + 1)?),
            _ => return None,
        };
        hash.mix(match kind {
            TokenKind::Parameter => PARAMETER,
            TokenKind::Number => NUMBER,
            _ => STRING,
        });
        Some(end)
    }
}

/// An operator or a comment. A sign before a number is left out: constants differ in it.
#[inline(always)]
fn operator(text: &[u8], at: usize, hash: &mut Hash) -> Option<usize> {
    if scan::is_comment(text, at) {
        return scan::any_comment(text, at);
    }
    let end = scan::operator(text, at);
    if end == at + 1 {
        let is_sign = matches!(text[at], b'-' | b'+') && text.get(end).is_some_and(u8::is_ascii_digit);
        if !is_sign {
            hash.mix(SYMBOL | u64::from(text[at]));
        }
    } else {
        hash.bytes(&text[at..end], RUN);
    }
    Some(end)
}
