//! The fuzzer's bytes as decisions, read from the front. After the end everything is zero, so no input is invalid and a
//! shorter one is simpler.

pub(crate) struct Tape<'a> {
    rest: &'a [u8],
}

impl<'a> Tape<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Tape<'a> {
        Tape { rest: bytes }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => 0,
        }
    }

    pub(crate) fn byte_is_even(&mut self) -> bool {
        self.byte() & 1 == 0
    }

    /// At most so many of the next bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Bytes behind their length, which is one byte.
    pub(crate) fn counted(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.take(len)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
