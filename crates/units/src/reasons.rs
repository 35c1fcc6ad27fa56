//! A table of reasons: why something ends or is refused, as a type.
//!
//! [`reasons!`](crate::reasons!) takes the table, and makes an `enum` of it. Each row has the SQLSTATEs that a client may get with the
//! reason, and its words: the text of the client's error, and the text in the log. Promises that the words of a reason are in one place,
//! and that the manual's pages can be compared with all of them ([`printed`]). Decides nothing: which of several SQLSTATEs
//! a client gets is decided where the reason is found.

/// An `enum` of reasons. A row is `Variant { field: Type } => [SQLSTATEs] "words with {field}";`, without the fields where it has none.
#[macro_export]
macro_rules! reasons {
    ($(#[$meta:meta])* $vis:vis enum $Reason:ident {
        $($(#[$about:meta])* $Variant:ident $({ $($field:ident: $type:ty),+ })? => [$($code:ident),*] $words:literal;)+
    }) => {
        $(#[$meta])*
        $vis enum $Reason {
            $($(#[$about])* $Variant $({ $($field: $type),+ })?,)+
        }

        impl $Reason {
            /// The SQLSTATEs and the words of each.
            pub const ROWS: &'static [(&'static [wire::SqlState], &'static str)] =
                &[$((&[$(wire::sqlstate::$code),*], $words),)+];

            /// The SQLSTATEs with which a client may get it. Empty: no client does, or the SQLSTATE is not of this table.
            #[must_use]
            pub fn codes(&self) -> &'static [wire::SqlState] {
                match self {
                    $($Reason::$Variant { .. } => &[$(wire::sqlstate::$code),*],)+
                }
            }
        }

        impl ::std::fmt::Display for $Reason {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($Reason::$Variant $({ $($field),+ })? => {
                        // One that is not in the words decides the SQLSTATE.
                        $($(let _ = $field;)+)?
                        write!(f, $words)
                    })+
                }
            }
        }
    };
}

/// The words of a row as the manual prints them: `…` for each field.
#[must_use]
pub fn printed(words: &str) -> String {
    let (mut text, mut rest) = (String::new(), words);
    while let Some((before, behind)) = rest.split_once('{') {
        let (_, after) = behind.split_once('}').expect("the compiler has read it as a format");
        text.push_str(before);
        text.push('…');
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_is_printed_as_an_ellipsis() {
        for (words, expected) in [("gone", "gone"), ("\"{name}\" is {how}", "\"…\" is …"), ("{how}", "…")] {
            assert_eq!(super::printed(words), expected);
        }
    }
}
