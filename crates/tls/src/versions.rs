//! The versions of TLS that a list of words allows.

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Which versions may be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub tls12: bool,
    pub tls13: bool,
}

impl Versions {
    pub const ALL: Versions = Versions { tls12: true, tls13: true };

    /// Reads the words of `client_tls_protocols`: `all`, `secure` and the names of versions. `None`: neither TLS 1.2 nor
    /// 1.3 is among them. Older versions are passed over.
    //= pgbouncer config.md#client_tls_protocols
    #[must_use]
    pub fn named<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Versions> {
        let mut versions = Versions { tls12: false, tls13: false };
        for word in words {
            match word.to_ascii_lowercase().as_str() {
                "all" | "secure" | "legacy" | "default" => versions = Versions::ALL,
                "tlsv1.2" => versions.tls12 = true,
                "tlsv1.3" => versions.tls13 = true,
                _ => {}
            }
        }
        (versions.tls12 || versions.tls13).then_some(versions)
    }

    pub(crate) fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(self.tls13, &TLS13), (self.tls12, &TLS12)];
        all.into_iter().filter(|(allowed, _)| *allowed).map(|(_, version)| version).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_versions_and_old_ones_do_not_count() {
        let named = |words: &str| Versions::named(words.split_whitespace());
        let (tls12, tls13) = (Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true });
        let table = [
            ("secure", Some(Versions::ALL)),
            ("all", Some(Versions::ALL)),
            ("tlsv1.3", Some(tls13)),
            ("TLSv1.2", Some(tls12)),
            ("tlsv1.0 tlsv1.2", Some(tls12)),
            ("tlsv1.0 tlsv1.1", None),
            ("", None),
        ];
        for (words, expected) in table {
            assert_eq!(named(words), expected, "{words}");
        }
    }
}
