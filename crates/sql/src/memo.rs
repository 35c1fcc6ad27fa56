//! What texts mean that were seen before, by fingerprint, in bounded memory.
//!
//! A table of small sets: a fingerprint belongs to one set and may stand in any of its places. A full set gives up what
//! was not asked for since the last time it gave something up. The table grows with what is in it, up to its bound; a
//! hit allocates nothing. Beside each summary the caller may keep a note of its own: what it has made of the summary.

use crate::fingerprint::{Fingerprint, Key};
use crate::lexer::Unlexable;
use crate::marks::Marks;
use crate::outline::outline;
use crate::statements::{only_reads, statement};
use crate::text::Text;
use crate::words::{Word, Words};

/// What a whole text means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    marks: Marks,
    statements: u32,
    only_reads: bool,
    may_write: bool,
    words: Box<[Word]>,
}

impl Summary {
    /// Computed from the text, without a memo. Allocates for the words.
    pub fn of(text: &Text<'_>) -> Summary {
        Summary::read(text).unwrap_or_else(|_| Summary::unknown())
    }

    fn read(text: &Text<'_>) -> Result<Summary, Unlexable> {
        let mut words = Words::default();
        let (mut marks, mut statements, mut at) = (Marks::NONE, 0_u32, 0);
        let (mut had_body, mut reads, mut may_write) = (false, true, false);
        while let Some(outline) = outline(text, at, Some(&mut words))? {
            let of_this = statement(text, &outline).marks;
            marks |= of_this;
            reads &= only_reads(text, &outline, of_this);
            may_write |= outline.may_write;
            // Where a body ends is not certain enough to believe what stands behind it.
            marks |= if had_body { Marks::UNKNOWN } else { Marks::NONE };
            had_body |= outline.has_body;
            statements = statements.saturating_add(1);
            at = outline.next;
        }
        Ok(Summary { marks, statements, only_reads: reads && !had_body, may_write, words: words.distinct() })
    }

    fn unknown() -> Summary {
        let (only_reads, may_write) = (false, true);
        Summary { marks: Marks::UNKNOWN, statements: 1, only_reads, may_write, words: Box::default() }
    }

    /// Of all statements together.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// How many statements there are; the empty ones do not count. 1 for a text that cannot be divided into tokens.
    pub fn statements(&self) -> u32 {
        self.statements
    }

    /// Whether it only reads, but for what the functions, views and operators do inside that it names: then it may be cancelled at
    /// any moment, and is undone if its answer does not come.
    pub fn only_reads(&self) -> bool {
        self.only_reads
    }

    /// Whether a word in it tells that it may write, be it a statement or the body of a function.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// The distinct names in the text, in no order that means anything; keywords that can be no names are left out.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    fn heap_bytes(&self) -> usize {
        size_of_val::<[Word]>(&self.words)
    }
}

/// Places of a set.
const WAYS: usize = 4;
const SETS_AT_FIRST: usize = 16;
/// What the table itself may take of the bound; the rest is for words.
const TABLE_SHARE: usize = 2;
/// A summary larger than this share of the bound is not kept: it would drive out many.
const LARGEST_SHARE: usize = 64;

#[derive(Clone, Debug)]
struct Place<N> {
    fingerprint: Fingerprint,
    /// It was asked for since its set, or the memory, was last short.
    is_asked: bool,
    summary: Summary,
    note: N,
}

/// Texts that were seen before, each with a note of the caller's. Belongs to one thread.
#[derive(Debug)]
pub struct Memo<N = ()> {
    key: Key,
    bytes_max: usize,
    /// Of all words.
    words_bytes: usize,
    /// Sets one after the other; their number is a power of two.
    places: Vec<Option<Place<N>>>,
    /// Where memory is looked for next.
    hand: usize,
    /// The last summary that was not kept.
    unkept: (Summary, N),
}

impl Memo {
    /// An empty one without notes that takes `bytes_max` bytes at most, of which it needs a few thousand for itself. The key
    /// should be random.
    pub fn new(key: Key, bytes_max: usize) -> Memo {
        Memo::with_notes(key, bytes_max)
    }
}

impl<N: Clone + Default> Memo<N> {
    /// As [`Memo::new`], with notes; their own size counts, what they refer to does not.
    pub fn with_notes(key: Key, bytes_max: usize) -> Memo<N> {
        let places = vec![None; SETS_AT_FIRST * WAYS];
        Memo { key, bytes_max, words_bytes: 0, places, hand: 0, unkept: (Summary::unknown(), N::default()) }
    }

    /// What the text means: remembered, or read now and remembered.
    #[inline]
    pub fn summary(&mut self, text: &Text<'_>) -> &Summary {
        self.entry(text).0
    }

    /// What the text means, and the note that was left there; `N::default()` if it was read now.
    #[inline]
    pub fn entry(&mut self, text: &Text<'_>) -> (&Summary, &mut N) {
        let Ok(fingerprint) = text.fingerprint(&self.key) else { return self.keep_not(Summary::unknown()) };
        let set = self.set_of(fingerprint);
        let is_it = |place: &Option<Place<N>>| place.as_ref().is_some_and(|place| place.fingerprint == fingerprint);
        if let Some(way) = self.places[set..set + WAYS].iter().position(is_it) {
            let place = self.places[set + way].as_mut().expect("it was found just now");
            place.is_asked = true;
            return (&place.summary, &mut place.note);
        }
        self.read(fingerprint, text)
    }

    /// How many bytes it takes now: never more than its bound, but for an empty table.
    pub fn bytes(&self) -> usize {
        self.places.len() * size_of::<Option<Place<N>>>() + self.words_bytes
    }

    /// How many texts it knows.
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its set begins.
    #[inline]
    fn set_of(&self, fingerprint: Fingerprint) -> usize {
        (fingerprint.0[0] as usize & (self.places.len() / WAYS - 1)) * WAYS
    }

    /// A text that is no tokens is not kept: it may have the fingerprint of one that is.
    #[cold]
    #[inline(never)]
    fn read(&mut self, fingerprint: Fingerprint, text: &Text<'_>) -> (&Summary, &mut N) {
        match Summary::read(text) {
            Ok(summary) => self.remember(fingerprint, summary),
            Err(_) => self.keep_not(Summary::unknown()),
        }
    }

    #[cold]
    fn keep_not(&mut self, summary: Summary) -> (&Summary, &mut N) {
        self.unkept = (summary, N::default());
        (&self.unkept.0, &mut self.unkept.1)
    }

    fn remember(&mut self, fingerprint: Fingerprint, summary: Summary) -> (&Summary, &mut N) {
        let bytes = summary.heap_bytes();
        if bytes > self.bytes_max / LARGEST_SHARE {
            return self.keep_not(summary);
        }
        let index = self.free_place(fingerprint);
        while self.bytes() + bytes > self.bytes_max && self.words_bytes > 0 {
            self.forget_one();
        }
        self.words_bytes += bytes;
        let place = Place { fingerprint, is_asked: false, summary, note: N::default() };
        let place = self.places[index].insert(place);
        (&place.summary, &mut place.note)
    }

    /// A free place in the fingerprint's set: the table grows for it, or something is forgotten.
    fn free_place(&mut self, fingerprint: Fingerprint) -> usize {
        loop {
            let set = self.set_of(fingerprint);
            if let Some(index) = (set..set + WAYS).find(|index| self.places[*index].is_none()) {
                return index;
            }
            let grown_bytes = 2 * self.places.len() * size_of::<Option<Place<N>>>();
            if grown_bytes <= self.bytes_max / TABLE_SHARE {
                self.grow();
                continue;
            }
            let index = self.least_asked(set);
            self.forget(index);
            return index;
        }
    }

    /// Of a full set.
    fn least_asked(&mut self, set: usize) -> usize {
        let places = &mut self.places[set..set + WAYS];
        let is_asked = |place: &Option<Place<N>>| place.as_ref().is_some_and(|place| place.is_asked);
        if let Some(way) = places.iter().position(|place| !is_asked(place)) {
            return set + way;
        }
        places.iter_mut().flatten().for_each(|place| place.is_asked = false);
        set
    }

    fn forget(&mut self, index: usize) {
        if let Some(place) = self.places[index].take() {
            self.words_bytes -= place.summary.heap_bytes();
        }
    }

    /// The next one that was not asked for since the hand came by.
    fn forget_one(&mut self) {
        // Twice around: the first time may only take marks away.
        for _ in 0..2 * self.places.len() {
            let index = self.hand % self.places.len();
            self.hand = index + 1;
            match &mut self.places[index] {
                Some(place) if place.is_asked => place.is_asked = false,
                Some(place) if place.summary.heap_bytes() > 0 => return self.forget(index),
                _ => {}
            }
        }
    }

    /// Twice as many sets. What stood in a set stands in one of two afterwards, so there is room.
    fn grow(&mut self) {
        let twice = vec![None; 2 * self.places.len()];
        let old = std::mem::replace(&mut self.places, twice);
        for place in old.into_iter().flatten() {
            let set = self.set_of(place.fingerprint);
            let free = (set..set + WAYS).find(|index| self.places[*index].is_none());
            self.places[free.expect("a set is filled from one set of as many places")] = Some(place);
        }
    }
}
