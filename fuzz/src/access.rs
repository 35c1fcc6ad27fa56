//! What a user writes about logins: pg_hba.conf and pg_ident.conf, each with two files that they may name.
//!
//! Asserts that a file is refused with mistakes that have places and one line of words each, or that it means something for
//! whoever comes: the same in two readings, and nothing any more behind lines that reject everybody; that a map lets nobody in
//! by a name that it does not have.
//!
//! ```text
//!   main file 0x1e file "a" 0x1e file "b"
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hba::{Connection, Encryption, Interface, Method, Mistake, Rules, read_maps, read_rules};

const NEXT_FILE: u8 = 0x1e;
const FILES: [&str; 3] = ["main", "a", "b"];
/// Names tried from a file.
const NAMES_MAX: usize = 8;
const ALL_REJECTED: &[u8] = b"local all,replication all reject\nhost all,replication all all reject\n";

/// One run of the target for pg_hba.conf.
pub fn rules(bytes: &[u8]) {
    match load(bytes, b"") {
        Ok(rules) => {
            assert_eq!(load(bytes, b""), Ok(rules.clone()), "the same file means the same");
            // One line more may be one too many.
            let rejected = load(bytes, ALL_REJECTED).ok();
            for_each_connection(bytes, |connection| {
                let first = rules.first(connection);
                assert!(first.is_none_or(|rule| rules.as_slice().contains(rule)));
                if let Some(rejected) = &rejected {
                    assert_eq!(rejected.first(connection).map(|rule| rule.method), Some(Method::Reject));
                }
            });
        }
        Err(mistakes) => check(&mistakes),
    }
}

/// One run of the target for pg_ident.conf.
pub fn maps(bytes: &[u8]) {
    let texts = texts(bytes);
    match read_maps(FILES[0], &|name: &str| file(&texts, name)) {
        Ok(maps) => {
            let names = names(bytes);
            for map in &names {
                for system in &names {
                    for user in &names {
                        let is_allowed = maps.allow(Some(map), system, user);
                        assert!(!is_allowed || maps.has(map), "{map} {system} {user}");
                        assert_eq!(maps.allow(None, system, user), system == user);
                    }
                }
            }
        }
        Err(mistakes) => check(&mistakes),
    }
}

fn load(bytes: &[u8], before: &[u8]) -> Result<Rules, Vec<Mistake>> {
    let mut texts = texts(bytes);
    texts[0] = [before, &texts[0]].concat();
    let loopback = Interface { address: Ipv4Addr::LOCALHOST.into(), mask: Ipv4Addr::new(255, 0, 0, 0).into() };
    read_rules(FILES[0], &[loopback], &|name: &str| file(&texts, name))
}

fn texts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = bytes.splitn(FILES.len(), |byte| *byte == NEXT_FILE).map(<[u8]>::to_vec).collect();
    texts.resize(FILES.len(), Vec::new());
    texts
}

/// The folder has all of them.
fn file(texts: &[Vec<u8>], name: &str) -> io::Result<Vec<u8>> {
    if name.ends_with('/') {
        return Ok(b"a.conf\nb.conf\n.a.conf\n".to_vec());
    }
    let base = name.rsplit('/').next().unwrap_or(name);
    match FILES.iter().position(|file| *file == base.strip_suffix(".conf").unwrap_or(base)) {
        Some(file) => Ok(texts[file].clone()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

fn check(mistakes: &[Mistake]) {
    assert!(!mistakes.is_empty() && mistakes.len() <= 300, "{} mistakes", mistakes.len());
    for mistake in mistakes {
        let words = mistake.to_string();
        assert!(!words.contains(|c: char| c.is_control()), "{words:?}");
        assert!(!mistake.found.is_empty() && !mistake.expected.is_empty(), "{words}");
    }
}

/// Words of the files, and some that are not.
fn names(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split(|c: char| c.is_whitespace() || ",\"\x1e".contains(c)).filter(|word| !word.is_empty());
    words.take(NAMES_MAX).map(str::to_owned).chain(["".to_owned(), "all".to_owned(), "é".to_owned()]).collect()
}

fn for_each_connection(bytes: &[u8], mut look: impl FnMut(&Connection<'_>)) {
    let addresses: [Option<IpAddr>; 4] = [
        None,
        Some(Ipv4Addr::LOCALHOST.into()),
        Some(Ipv4Addr::new(10, 1, 2, 3).to_ipv6_mapped().into()),
        Some(Ipv6Addr::LOCALHOST.into()),
    ];
    let names = names(bytes);
    let names = || names.iter().map(String::as_str);
    let pairs = names().flat_map(|database| names().map(move |user| (database, user)));
    for (database, user) in pairs {
        for address in addresses {
            for encryption in [Encryption::None, Encryption::Tls, Encryption::Gss] {
                look(&Connection { database, user, address, encryption, is_replication: false });
                look(&Connection { database, user, address, encryption, is_replication: true });
            }
        }
    }
}
