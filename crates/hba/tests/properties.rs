//! What holds for any names and any bytes.

use std::io;
use std::net::IpAddr;

use hba::{Connection, Encryption, Method, read_maps, read_rules};

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    /// Of characters that mean something to the reader.
    fn name(&mut self) -> String {
        const CHARS: [char; 17] =
            ['a', 'b', ' ', '"', ',', '#', '@', '+', '/', '\\', '.', '*', '\t', '=', 'é', '0', '('];
        (0..=self.below(6)).map(|_| CHARS[self.below(CHARS.len())]).collect()
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[test]
fn a_quoted_name_means_itself_alone() {
    let mut numbers = Numbers(1);
    let mut checked = 0;
    for _ in 0..20_000 {
        let (database, user, other) = (numbers.name(), numbers.name(), numbers.name());
        // An expression is one in quotes, too; a backslash at the end joins the next line.
        if database.starts_with('/') || user.starts_with('/') {
            continue;
        }
        let text = format!("local x,{} {} reject\n", quoted(&database), quoted(&user));
        let read = |_: &str| -> io::Result<Vec<u8>> { Ok(text.clone().into_bytes()) };
        let rules = read_rules("hba.conf", &[], &read).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        let matches = |database: &str, user: &str| {
            let connection =
                Connection { database, user, address: None, encryption: Encryption::None, is_replication: false };
            rules.first(&connection).map(|rule| rule.method)
        };
        assert_eq!(matches(&database, &user), Some(Method::Reject), "{text}");
        assert_eq!(matches(&database, &other).is_some(), user == other, "{text} {other:?}");
        assert_eq!(matches(&other, &user).is_some(), database == other, "{text} {other:?}");
        checked += 1;
    }
    assert!(checked > 10_000, "{checked}");
}

#[test]
fn a_network_has_the_addresses_that_share_its_bits() {
    let mut numbers = Numbers(2);
    for _ in 0..2000 {
        let (bits, flipped) = (numbers.below(129), numbers.below(128));
        let address = (0..8).fold(0_u128, |sum, _| sum << 16 | numbers.below(0x1_0000) as u128);
        let client = IpAddr::V6((address ^ (1 << (127 - flipped))).into());
        let text = format!("host all all {}/{bits} trust", IpAddr::V6(address.into()));
        let read = |_: &str| -> io::Result<Vec<u8>> { Ok(text.clone().into_bytes()) };
        let rules = read_rules("hba.conf", &[], &read).expect("a good line");
        let connection = Connection {
            database: "d",
            user: "u",
            address: Some(client),
            encryption: Encryption::None,
            is_replication: false,
        };
        assert_eq!(rules.first(&connection).is_some(), flipped >= bits, "{text}: {client}");
    }
}

#[test]
fn no_bytes_are_too_odd_and_every_mistake_has_a_place() {
    let mut numbers = Numbers(3);
    const WORDS: [&str; 20] = [
        "local",
        "host",
        "all",
        "10.0.0.1/8",
        "md5",
        "\"",
        ",",
        "#",
        "\\\n",
        "\n",
        " ",
        "@a",
        "include",
        "/^(a)$",
        "\\1",
        "map=",
        "=",
        "255.0.0.0",
        "\u{1b}",
        "é",
    ];
    for _ in 0..20_000 {
        let text: String = (0..numbers.below(40)).map(|_| WORDS[numbers.below(WORDS.len())]).collect();
        let read = |name: &str| -> io::Result<Vec<u8>> {
            match name {
                "main" | "a" => Ok(text.clone().into_bytes()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        };
        let mistakes = [read_rules("main", &[], &read).err(), read_maps("main", &read).err()];
        for mistake in mistakes.into_iter().flatten().flatten() {
            let shown = mistake.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert!(usize::try_from(mistake.line).expect("few lines") <= text.split('\n').count(), "{shown}");
        }
    }
}
