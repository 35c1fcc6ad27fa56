//! Statements changed at random: cut, joined, glued with what lexers and grammars trip over.

/// What is put in.
#[rustfmt::skip]
const PIECES: [&str; 84] = [
    "'", "''", "\"", "\\", "E'", "e'\\''", "U&'x'", "B'1'", "N'n'", "$$", "$a$", "$1", "--", "-- c\n", "/*", "*/", "/* c */",
    "\n", " ", ";", ";", "; ", ",", "(", ")", ".", "::", "=", "-", "+", "*", "1", "0x1f", "1.5e3", "'a'\n'b'", "E'a'\n'\\''",
    "set ", "local ", "session ", "to ", "from current", "default", "time zone ", "names ", "role ", "authorization ", "all ",
    "begin ", "commit ", "rollback ", "savepoint ", "release ", "prepare ", "execute ", "deallocate ", "declare ", "cursor ",
    "with hold ", "for ", "close ", "listen ", "unlisten ", "notify ", "explain ", "analyze ", "create ", "temp ", "table ",
    "as ", "into ", "select ", "set_config('a', 'b', false) ", "pg_advisory_lock(1) ", "atomic ", "end ", "case ", "function ",
    "set_config", "set_config('a', 'b', true) ", "select set_config('c', $1, ", "true) ", "'on') ", "::bool",
    "pg_catalog.",
];

pub(crate) struct Changes<'a> {
    state: u64,
    texts: &'a [String],
}

impl<'a> Changes<'a> {
    /// The texts are not empty.
    pub(crate) fn new(seed: u64, texts: &'a [String]) -> Changes<'a> {
        Changes { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, texts }
    }

    pub(crate) fn next(&mut self) -> String {
        let mut text = self.short_text();
        for _ in 0..1 + self.below(3) {
            self.change(&mut text);
        }
        text
    }

    /// Short ones are changed where it matters more often.
    fn short_text(&mut self) -> String {
        let one = self.below(self.texts.len());
        let other = self.below(self.texts.len());
        let (one, other) = (&self.texts[one], &self.texts[other]);
        if one.len() < other.len() { one.clone() } else { other.clone() }
    }

    fn change(&mut self, text: &mut String) {
        let (start, end) = (self.place(text), self.place(text));
        let (start, end) = (start.min(end), start.max(end));
        let piece = PIECES[self.below(PIECES.len())];
        match self.below(7) {
            0 | 1 => text.insert_str(start, piece),
            2 if end - start < 20 => text.replace_range(start..end, piece),
            3 if end - start < 20 => text.replace_range(start..end, ""),
            4 => *text = format!("{}{}", self.short_text(), text),
            5 => {
                let cut = text[start..end].to_owned();
                text.insert_str(start, &cut);
            }
            _ => {
                let other = self.short_text();
                let at = self.place(&other);
                text.truncate(start);
                text.push_str(&other[at..]);
            }
        }
    }

    /// Between two characters.
    fn place(&mut self, text: &str) -> usize {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// A step of the generator xorshift64*.
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}
