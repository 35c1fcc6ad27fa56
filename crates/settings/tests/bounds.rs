//! Every setting at its bounds: the least and the greatest value are taken, and fit its fields; what is one past each is refused.

use std::time::Duration;

use settings::value::{INT_MAX, Kind, Value};
use settings::{DatabaseSettings, Global, ROWS, Setting, UserSettings};

/// What a kind takes at its bounds, and what it refuses just past them.
struct Edges {
    taken: Vec<(String, Value)>,
    refused: Vec<String>,
}

const HUNDRED_YEARS: u64 = 100 * 365 * 86_400;

fn number(number: i64) -> (String, Value) {
    (number.to_string(), Value::Number(number))
}

fn text(text: &str) -> (String, Value) {
    (text.to_owned(), Value::Text(text.to_owned()))
}

fn time(text: &str, time: Duration) -> (String, Value) {
    (text.to_owned(), Value::Time(time))
}

fn whole(min: i64, max: i64) -> Edges {
    Edges { taken: vec![number(min), number(max)], refused: vec![(min - 1).to_string(), (max + 1).to_string()] }
}

fn edges(kind: Kind) -> Edges {
    match kind {
        // Any text is one; the longest is bounded by the file.
        Kind::Text | Kind::List | Kind::Path => {
            Edges { taken: vec![text(""), text(&"x".repeat(10_000))], refused: Vec::new() }
        }
        Kind::Count(min, max, _) => whole(min, max),
        Kind::Size => {
            let mut edges = whole(0, INT_MAX);
            edges.taken.push(("auto".to_owned(), Value::Choice("auto")));
            edges.refused.push("automatic".to_owned());
            edges
        }
        Kind::Flag => {
            let mut edges = whole(0, INT_MAX);
            edges.taken.extend([("off".to_owned(), Value::Number(0)), ("ON".to_owned(), Value::Number(1))]);
            edges.refused.push("offf".to_owned());
            edges
        }
        Kind::Mode => Edges {
            taken: vec![number(0), ("07777".to_owned(), Value::Number(0o7777))],
            refused: vec!["-1".to_owned(), "010000".to_owned()],
        },
        Kind::Seconds => Edges {
            taken: vec![
                time("0", Duration::ZERO),
                time("0.000001", Duration::from_micros(1)),
                time(&HUNDRED_YEARS.to_string(), Duration::from_secs(HUNDRED_YEARS)),
                // More are as many.
                time("inf", Duration::from_secs(HUNDRED_YEARS)),
            ],
            refused: vec!["-0.000001".to_owned(), "nan".to_owned()],
        },
        Kind::Statements => Edges {
            taken: vec![text(""), text("0000000000000000:0"), text(&format!("ffffffffffffffff:{INT_MAX}"))],
            refused: vec![
                "0000000000000000:-1".to_owned(),
                format!("ffffffffffffffff:{}", INT_MAX + 1),
                "000000000000000:0".to_owned(),
                "00000000000000000:0".to_owned(),
            ],
        },
        Kind::Template => edges_of_texts(&["", "%a@%h/%c#%i %u %t{a.b-c_d} 100%%"], &["%", "%x", "%t{}", "%t"]),
        Kind::HttpUrl => edges_of_texts(
            &["", "http://a", "http://a:65535/b", "https://a"],
            &["http://", "https://", "http://a:65536", "http://a:0", "a:80"],
        ),
        Kind::HttpHeaders => edges_of_texts(&["", "a=", "a=b, c-d=e=f"], &["a", "=b", "a b=c", "a=b\n"]),
        Kind::Share => edges_of_texts(&["0", "1", "0.000001"], &["-0.000001", "1.000001", "nan", "x"]),
        Kind::Networks => edges_of_networks(),
        Kind::Choice(names) => {
            let taken = [names.first(), names.last()].into_iter().flatten();
            Edges {
                taken: taken.map(|name| (name.to_ascii_uppercase(), Value::Choice(name))).collect(),
                refused: vec![format!("{}x", names[0]), String::new()],
            }
        }
    }
}

fn edges_of_texts(taken: &[&str], refused: &[&str]) -> Edges {
    Edges {
        taken: taken.iter().map(|one| text(one)).collect(),
        refused: refused.iter().map(|one| (*one).to_owned()).collect(),
    }
}

fn edges_of_networks() -> Edges {
    Edges {
        taken: [
            "",
            "0.0.0.0/0",
            "10.0.0.0/8, 192.168.0.1 ::1/128",
            "255.255.255.255/32",
            "::/0",
            "8000::/1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
        ]
        .map(text)
        .to_vec(),
        refused: [
            "10.0.0.0/33",
            "10.0.0.1/31",
            "fe80::1/127",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10/8",
            "*",
            "localhost",
        ]
        .map(str::to_owned)
        .to_vec(),
    }
}

#[test]
fn each_kind_takes_its_bounds_and_nothing_past_them() {
    for Setting { name, kind, .. } in &ROWS {
        let Edges { taken, refused } = edges(*kind);
        for (text, value) in taken {
            assert_eq!(kind.read(&text).as_ref(), Ok(&value), "{name} = {text}");
        }
        for text in refused {
            assert_eq!(kind.read(&text), Err(kind.expected()), "{name} = {text}");
        }
    }
}

#[test]
fn every_field_holds_the_bounds_of_its_setting() {
    let (mut global, mut database, mut user) =
        (Global::default(), DatabaseSettings::default(), UserSettings::default());
    for setting in &ROWS {
        for (_, value) in edges(setting.kind).taken {
            // A value that a field cannot hold is a panic.
            global.set(setting.key, &value);
            database.set(setting.key, Some(&value));
            user.set(setting.key, Some(&value));
        }
    }
}

#[test]
fn the_greatest_numbers_arrive_whole() {
    let mut global = Global::default();
    for setting in &ROWS {
        if let Kind::Count(_, max, _) = setting.kind {
            global.set(setting.key, &Value::Number(max));
        }
    }
    assert_eq!(global.listening.listen_port, u16::MAX);
    assert_eq!(global.network.max_packet_size, u32::MAX);
    assert_eq!(i64::from(global.network.listen_backlog), INT_MAX);
    assert_eq!(global.console.stats_period, Duration::from_secs(INT_MAX.unsigned_abs()));
}
