//! The names in a text, as hashes: what a catalogue of functions and relations that touch session state is asked with.

/// A name that stands somewhere in a text: of a function, relation, column, type, or anything else.
///
/// Equal names have equal words; so a set of the words of dangerous names finds every text that could name one of them,
/// and rarely one that does not. Without its schema: `s.f` is the two words `s` and `f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(u64);

/// The lowest bit of a word tells whether the name is called; it is not part of the name's hash.
const CALLED: u64 = 1;

impl Word {
    /// Of a name as the catalogue has it (`pg_proc.proname`, `pg_class.relname`): folded, without quotes.
    pub fn of(name: &[u8]) -> Word {
        // FNV-1a: no secret is needed, since two names that meet in one word err on the safe side.
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // The low bits of the product are its weak ones.
        Word((hash ^ (hash >> 32)) & !CALLED)
    }

    /// Whether a parenthesis follows the name somewhere in the text.
    pub fn is_called(self) -> bool {
        self.0 & CALLED != 0
    }

    /// The name's hash, for a table of the caller's own: without the lowest bit, spread evenly.
    pub fn bits(self) -> u64 {
        self.0 & !CALLED
    }

    /// The name alone, to be looked up: equal to [`Word::of`] it.
    pub fn name(self) -> Word {
        Word(self.0 & !CALLED)
    }
}

/// The distinct words of a text.
#[derive(Debug, Default)]
pub(crate) struct Words {
    words: Vec<Word>,
}

impl Words {
    pub(crate) fn add(&mut self, name: &[u8], may_be_keyword: bool, is_called: bool) {
        if may_be_keyword && RESERVED.binary_search(&name).is_ok() {
            return;
        }
        self.words.push(Word(Word::of(name).0 | if is_called { CALLED } else { 0 }));
    }

    pub(crate) fn distinct(mut self) -> Box<[Word]> {
        self.words.sort_unstable();
        // Called sorts behind not called: of the two the former stays.
        self.words.dedup_by(|next, kept| {
            let same = next.name() == kept.name();
            kept.0 |= if same { next.0 & CALLED } else { 0 };
            same
        });
        self.words.into_boxed_slice()
    }
}

/// Keywords that are no names without quotes, except behind a dot or AS: all but CREATE, GRANT and DEFAULT, by which
/// one may tell that a text defines something, or fills in what it does not say. //= pg18 sql-keywords-appendix
#[rustfmt::skip]
const RESERVED: [&[u8]; 74] = [
    b"all", b"analyse", b"analyze", b"and", b"any", b"array", b"as", b"asc", b"asymmetric", b"both", b"case", b"cast",
    b"check", b"collate", b"column", b"constraint", b"current_catalog", b"current_date", b"current_role",
    b"current_time", b"current_timestamp", b"current_user", b"deferrable", b"desc", b"distinct", b"do",
    b"else", b"end", b"except", b"false", b"fetch", b"for", b"foreign", b"from", b"group", b"having", b"in",
    b"initially", b"intersect", b"into", b"lateral", b"leading", b"limit", b"localtime", b"localtimestamp", b"not",
    b"null", b"offset", b"on", b"only", b"or", b"order", b"placing", b"primary", b"references", b"returning",
    b"select", b"session_user", b"some", b"symmetric", b"table", b"then", b"to", b"trailing", b"true", b"union",
    b"unique", b"user", b"using", b"variadic", b"when", b"where", b"window", b"with",
];
