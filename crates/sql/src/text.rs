//! A statement's text, ready to be read: its bytes below 0x80 are ASCII characters, whatever the client's encoding is.
//!
//! In some encodings that only clients may use, the second byte of a character may look like a backslash, a letter or
//! a bracket; the server translates a text before it reads it, and so must we. Instead of teaching every lexical rule
//! about characters, [`Text`] reads from a copy of the same length in which such bytes are out of the way, and gives out
//! pieces of the original. Copies are made for these encodings alone, and only if the text has such bytes.
//!
//! It does not check that characters are valid: the server refuses a text where they are not.

use std::borrow::Cow;

/// The client encodings whose characters may hold ASCII bytes, and the rest.
//= pg18 multibyte#MULTIBYTE-CHARSET-SUPPORTED
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Every byte of a character beyond ASCII has its top bit set: UTF8, LATIN1, EUC_JP, SQL_ASCII and so on.
    #[default]
    Safe,
    /// SJIS and SHIFT_JIS_2004.
    Sjis,
    Big5,
    /// GBK and UHC: two bytes wherever the first has its top bit set.
    Gbk,
    Johab,
    Gb18030,
}

impl Encoding {
    /// By the value of `client_encoding` as a server reports it; `None` for a name that no server has.
    pub fn of(name: &[u8]) -> Option<Encoding> {
        const SAFE: [&str; 36] = [
            "sql_ascii",
            "utf8",
            "unicode",
            "euc_jp",
            "euc_cn",
            "euc_kr",
            "euc_tw",
            "euc_jis_2004",
            "mule_internal",
            "latin1",
            "latin2",
            "latin3",
            "latin4",
            "latin5",
            "latin6",
            "latin7",
            "latin8",
            "latin9",
            "latin10",
            "win1250",
            "win1251",
            "win1252",
            "win1253",
            "win1254",
            "win1255",
            "win1256",
            "win1257",
            "win1258",
            "win866",
            "win874",
            "koi8r",
            "koi8u",
            "iso_8859_5",
            "iso_8859_6",
            "iso_8859_7",
            "iso_8859_8",
        ];
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if SAFE.iter().any(|known| is(known)) {
            return Some(Encoding::Safe);
        }
        match name.to_ascii_lowercase().as_slice() {
            b"sjis" | b"shift_jis_2004" => Some(Encoding::Sjis),
            b"big5" => Some(Encoding::Big5),
            b"gbk" | b"uhc" => Some(Encoding::Gbk),
            b"johab" => Some(Encoding::Johab),
            b"gb18030" => Some(Encoding::Gb18030),
            _ => None,
        }
    }

    /// How many bytes a character has that begins with these.
    fn character_len(self, first: u8, second: Option<u8>) -> usize {
        match (self, first) {
            (Encoding::Safe, _) | (_, ..0x80) => 1,
            // Half-width kana.
            (Encoding::Sjis, 0xa1..=0xdf) => 1,
            (Encoding::Johab, 0x8f) => 3,
            (Encoding::Gb18030, _) if second.is_some_and(|byte| byte.is_ascii_digit()) => 4,
            _ => 2,
        }
    }
}

/// What must be known to read a text as the server will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `standard_conforming_strings`: whether a backslash in '…' is a character like others.
    //= pg18 runtime-config-compatible#GUC-STANDARD-CONFORMING-STRINGS
    pub standard_strings: bool,
    pub encoding: Encoding,
}

impl Default for Rules {
    /// As a server of today begins.
    fn default() -> Rules {
        Rules { standard_strings: true, encoding: Encoding::Safe }
    }
}

/// A text and the rules to read it by.
#[derive(Debug)]
pub struct Text<'t> {
    source: &'t [u8],
    /// As long as the source.
    read: Cow<'t, [u8]>,
    pub(crate) standard_strings: bool,
}

impl<'t> Text<'t> {
    /// `source` is what Query or Parse carries, without the byte that ends it.
    #[inline]
    pub fn new(source: &'t [u8], rules: Rules) -> Text<'t> {
        let read = match rules.encoding {
            Encoding::Safe => Cow::Borrowed(source),
            encoding => out_of_the_way(source, encoding),
        };
        Text { source, read, standard_strings: rules.standard_strings }
    }

    pub fn source(&self) -> &'t [u8] {
        self.source
    }

    /// What the rules of `scan` may be held against.
    #[inline(always)]
    pub(crate) fn read(&self) -> &[u8] {
        &self.read
    }

    /// The copy differs from the source: words must be told apart by the source.
    #[inline(always)]
    pub(crate) fn is_copied(&self) -> bool {
        matches!(self.read, Cow::Owned(_))
    }
}

/// The text with the top bit set in every byte of every character beyond ASCII.
#[inline(never)]
fn out_of_the_way(source: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    if source.is_ascii() {
        return Cow::Borrowed(source);
    }
    let mut read = source.to_vec();
    let mut at = 0;
    while at < read.len() {
        let len = encoding.character_len(source[at], source.get(at + 1).copied());
        let end = read.len().min(at + len);
        for byte in &mut read[at..end] {
            *byte |= if len > 1 { 0x80 } else { 0 };
        }
        at += len;
    }
    Cow::Owned(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &[u8], encoding: Encoding) -> Vec<u8> {
        Text::new(source, Rules { encoding, ..Rules::default() }).read().to_vec()
    }

    #[test]
    fn second_bytes_are_out_of_the_way() {
        // 表 in SJIS ends with a backslash, ソ too.
        assert_eq!(read(b"'\x95\x5c'", Encoding::Sjis), b"'\x95\xdc'");
        assert_eq!(read(b"'\xb1\x5c'", Encoding::Sjis), b"'\xb1\x5c'");
        // 功 in Big5, 4 bytes in GB18030, and 2 there.
        assert_eq!(read(b"\xa5\x5cx", Encoding::Big5), b"\xa5\xdcx");
        assert_eq!(read(b"\x81\x30\x81\x30x", Encoding::Gb18030), b"\x81\xb0\x81\xb0x");
        assert_eq!(read(b"\x81\x5cx", Encoding::Gb18030), b"\x81\xdcx");
        assert_eq!(read(b"\xc4\x5bx", Encoding::Gbk), b"\xc4\xdbx");
        assert_eq!(read(b"\xd9\x31x", Encoding::Johab), b"\xd9\xb1x");
        // The same bytes in UTF-8 rules are left alone.
        assert_eq!(read(b"'\x95\x5c'", Encoding::Safe), b"'\x95\x5c'");
    }

    #[test]
    fn a_character_that_is_cut_off_ends_the_text() {
        assert_eq!(read(b"x\x95", Encoding::Sjis), b"x\x95");
        assert_eq!(read(b"x\x81\x30", Encoding::Gb18030), b"x\x81\xb0");
    }

    #[test]
    fn encodings_are_known_by_what_servers_report() {
        assert_eq!(Encoding::of(b"UTF8"), Some(Encoding::Safe));
        assert_eq!(Encoding::of(b"WIN1252"), Some(Encoding::Safe));
        assert_eq!(Encoding::of(b"SHIFT_JIS_2004"), Some(Encoding::Sjis));
        assert_eq!(Encoding::of(b"UHC"), Some(Encoding::Gbk));
        assert_eq!(Encoding::of(b"KLINGON"), None);
    }
}
