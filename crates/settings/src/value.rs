//! What a setting's text can be: numbers, switches, times, choices, text. Read and shown as PgBouncer does.
//!
//! Promises that a value that was read is within its bounds, and that showing it gives what PgBouncer's SHOW CONFIG
//! gives. Does not know which settings there are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::http_url::{HttpHeaders, HttpUrl, Share};
use crate::networks::Networks;
use crate::server_name::ServerName;
use crate::types::{
    AuthType, CaselessNames, ChannelBinding, CheckQuery, Fidelity, LogFormat, LossCode, MaxProtocol, ObserveWhen, Over,
    PoolMode, PoolSize, SplitBrain, SslMode, SslNegotiation, Words,
};

/// Longer times mean "never" to everybody, and must not overflow anybody's arithmetic.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// The largest number that PgBouncer's `int` settings hold.
pub const INT_MAX: i64 = i32::MAX as i64;

/// A size that is found, not given.
pub const AUTO: &str = "auto";

#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Kind {
    /// Any text, also an empty one.
    Text,
    /// Names with commas between them.
    List,
    /// Networks, as addresses with the number of their bits, with commas between them.
    Networks,
    /// Where something is sent by HTTP; empty: nowhere.
    HttpUrl,
    /// Headers of HTTP, as `name=value` with commas between them.
    HttpHeaders,
    /// A number from 0 to 1.
    Share,
    /// Text with the escapes of `server_application_name`.
    Template,
    /// A file or directory; a relative one is taken from the working directory.
    Path,
    /// A whole number between the two, with its unit.
    Count(i64, i64, &'static str),
    /// A whole number, or `auto`.
    Size,
    /// Statements by what SHOW FINGERPRINTS calls them, each with a number, and commas between them.
    Statements,
    /// 0 or 1.
    Flag,
    /// Seconds, with a fraction if wanted.
    Seconds,
    /// The permissions of a file, usually with a leading 0 for octal.
    Mode,
    Choice(&'static [&'static str]),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(i64),
    Time(Duration),
    Choice(&'static str),
}

impl Kind {
    /// Reads a value. The error is what was expected instead.
    pub fn read(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Kind::Text | Kind::List | Kind::Path => Some(Value::Text(text.to_owned())),
            Kind::Statements => statements(text).map(|_| Value::Text(text.to_owned())),
            Kind::HttpUrl if text.is_empty() => Some(Value::Text(String::new())),
            Kind::HttpUrl => HttpUrl::read(text).map(|_| Value::Text(text.to_owned())),
            Kind::HttpHeaders => HttpHeaders::read(text).map(|_| Value::Text(text.to_owned())),
            Kind::Share => Share::read(text).map(|_| Value::Text(text.to_owned())),
            Kind::Template => ServerName::read(text).map(|_| Value::Text(text.to_owned())),
            Kind::Networks => Networks::read(text).map(|_| Value::Text(text.to_owned())),
            Kind::Count(min, max, _) => whole(text).filter(|n| (min..=max).contains(n)).map(Value::Number),
            Kind::Size if text.eq_ignore_ascii_case(AUTO) => Some(Value::Choice(AUTO)),
            Kind::Size => whole(text).filter(|n| (0..=INT_MAX).contains(n)).map(Value::Number),
            Kind::Mode => whole(text).filter(|n| (0..=0o7777).contains(n)).map(Value::Number),
            Kind::Flag => flag(text).map(Value::Number),
            Kind::Seconds => seconds(text).map(Value::Time),
            Kind::Choice(names) => {
                names.iter().find(|name| name.eq_ignore_ascii_case(text)).map(|name| Value::Choice(name))
            }
        };
        value.ok_or_else(|| self.expected())
    }

    /// What a value of this kind looks like, to complete "expected …".
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::List => "names with commas between them".to_owned(),
            Kind::Networks => "networks such as 10.0.0.0/8 or fd00::/8, with commas between them".to_owned(),
            Kind::HttpUrl => "a URL such as http://localhost:4318/v1/traces".to_owned(),
            Kind::HttpHeaders => "headers such as name=value, with commas between them".to_owned(),
            Kind::Share => "a number from 0 to 1, such as 0.01".to_owned(),
            Kind::Template => "text with %a, %h, %c, %i, %u, %t{tag} or %%, such as %a@%h".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Statements => {
                "statements as SHOW FINGERPRINTS calls them, each with a number, such as 00f1c2d3e4a5b697:2".to_owned()
            }
            Kind::Count(min, max, "") => format!("a whole number from {min} to {max}"),
            Kind::Count(min, max, unit) => {
                format!("a whole number of {unit} from {min} to {max}")
            }
            Kind::Size => format!("a whole number from 0 to {INT_MAX}, or {AUTO}"),
            Kind::Flag => "0 or 1".to_owned(),
            Kind::Seconds => "a number of seconds, such as 30 or 0.5".to_owned(),
            Kind::Mode => "an octal file mode such as 0777".to_owned(),
            Kind::Choice(names) => one_of(names),
        }
    }

    /// Whether an empty text is a value of its own, rather than no value at all.
    #[must_use]
    pub fn takes_empty(self) -> bool {
        matches!(
            self,
            Kind::Text
                | Kind::List
                | Kind::Networks
                | Kind::HttpUrl
                | Kind::HttpHeaders
                | Kind::Template
                | Kind::Path
                | Kind::Statements
        )
    }
}

impl Value {
    /// As SHOW CONFIG prints it: numbers in decimal, times as C's `%g` would.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Time(time) => six_digits(time.as_secs_f64()),
            Value::Choice(name) => (*name).to_owned(),
        }
    }
}

/// A field's type: what it makes of a value. `None`: the value is of another kind.
pub(crate) trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<String> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Choice(name) => Some((*name).to_owned()),
            Value::Number(_) | Value::Time(_) => None,
        }
    }
}

/// An empty text is none.
impl FromValue for Option<String> {
    fn from_value(value: &Value) -> Option<Option<String>> {
        String::from_value(value).map(|text| (!text.is_empty()).then_some(text))
    }
}

impl FromValue for Vec<String> {
    fn from_value(value: &Value) -> Option<Vec<String>> {
        Some(names(&String::from_value(value)?).into_iter().map(str::to_owned).collect())
    }
}

impl FromValue for BTreeSet<String> {
    fn from_value(value: &Value) -> Option<BTreeSet<String>> {
        Some(Vec::from_value(value)?.into_iter().collect())
    }
}

impl FromValue for Networks {
    fn from_value(value: &Value) -> Option<Networks> {
        Networks::read(&String::from_value(value)?)
    }
}

impl FromValue for Option<HttpUrl> {
    fn from_value(value: &Value) -> Option<Option<HttpUrl>> {
        let text = String::from_value(value)?;
        if text.is_empty() { Some(None) } else { HttpUrl::read(&text).map(Some) }
    }
}

impl FromValue for HttpHeaders {
    fn from_value(value: &Value) -> Option<HttpHeaders> {
        HttpHeaders::read(&String::from_value(value)?)
    }
}

impl FromValue for Share {
    fn from_value(value: &Value) -> Option<Share> {
        Share::read(&String::from_value(value)?)
    }
}

impl FromValue for ServerName {
    fn from_value(value: &Value) -> Option<ServerName> {
        ServerName::read(&String::from_value(value)?)
    }
}

impl FromValue for CaselessNames {
    fn from_value(value: &Value) -> Option<CaselessNames> {
        let mut all = CaselessNames::default();
        names(&String::from_value(value)?).into_iter().for_each(|name| all.insert(name));
        Some(all)
    }
}

impl FromValue for BTreeMap<u64, u32> {
    fn from_value(value: &Value) -> Option<BTreeMap<u64, u32>> {
        statements(&String::from_value(value)?)
    }
}

impl FromValue for CheckQuery {
    fn from_value(value: &Value) -> Option<CheckQuery> {
        Some(CheckQuery(match String::from_value(value)?.as_str() {
            "" => None,
            "<empty>" => Some(String::new()),
            query => Some(query.to_owned()),
        }))
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl FromValue for $number {
            fn from_value(value: &Value) -> Option<$number> {
                let Value::Number(number) = value else { return None };
                <$number>::try_from(*number).ok()
            }
        }
    )*};
}
numbers!(u16, u64, i64);

impl FromValue for u32 {
    /// A limit below 0 is none, which is 0.
    fn from_value(value: &Value) -> Option<u32> {
        let Value::Number(number) = value else { return None };
        u32::try_from((*number).max(0)).ok()
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<bool> {
        u64::from_value(value).map(|number| number != 0)
    }
}

/// A number counts seconds.
impl FromValue for Duration {
    fn from_value(value: &Value) -> Option<Duration> {
        match value {
            Value::Time(time) => Some(*time),
            value => u64::from_value(value).map(Duration::from_secs),
        }
    }
}

/// 0 switches it off.
impl FromValue for Option<Duration> {
    fn from_value(value: &Value) -> Option<Option<Duration>> {
        Duration::from_value(value).map(|time| (!time.is_zero()).then_some(time))
    }
}

impl FromValue for PoolSize {
    fn from_value(value: &Value) -> Option<PoolSize> {
        match value {
            Value::Choice(_) => Some(PoolSize::Auto),
            value => u32::from_value(value).map(PoolSize::Fixed),
        }
    }
}

macro_rules! choices {
    ($($choice:ty),*) => {$(
        impl FromValue for $choice {
            fn from_value(value: &Value) -> Option<$choice> {
                <$choice>::named(&String::from_value(value)?)
            }
        }
    )*};
}
choices!(
    PoolMode,
    Fidelity,
    LogFormat,
    LossCode,
    MaxProtocol,
    ObserveWhen,
    Over,
    SslMode,
    SslNegotiation,
    ChannelBinding,
    Words,
    SplitBrain
);

/// What is refused elsewhere is the strictest way that exists, should it ever come here.
impl FromValue for AuthType {
    fn from_value(value: &Value) -> Option<AuthType> {
        AuthType::named(&String::from_value(value)?)
    }
}

/// A whole number as C's `strtol` reads it with base 0: `0x` is hexadecimal, a leading `0` octal.
#[must_use]
pub fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    // `from_str_radix` takes a second sign, `strtol` does not.
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        if hex.starts_with(['-', '+']) {
            return None;
        }
        i64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(&digits[1..], 8).ok().filter(|_| !digits[1..].starts_with(['-', '+']))?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -number } else { number })
}

/// PgBouncer takes any number, and all but 0 is on; the words are ours, since people write them.
fn flag(text: &str) -> Option<i64> {
    let on = ["yes", "on", "true"];
    let off = ["no", "off", "false"];
    if on.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Some(1);
    }
    if off.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Some(0);
    }
    whole(text).filter(|n| (0..=INT_MAX).contains(n))
}

/// Seconds with a fraction, never negative; more than a hundred years are a hundred years.
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    if number.is_nan() || number < 0.0 {
        return None;
    }
    // PgBouncer counts in microseconds, and what is below one is cut off.
    Some(Duration::from_micros((number.min(SECONDS_MAX) * 1e6) as u64))
}

/// A number as C's `printf("%g")` writes it: six digits, no zeros at the end, an exponent where it is shorter.
fn six_digits(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("Rust writes an e into every {:e}");
    let exponent: i32 = exponent.parse().expect("Rust writes a number after the e");
    if !(-4..6).contains(&exponent) {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let decimals = usize::try_from(5 - exponent).expect("the exponent is below six");
    let plain = format!("{number:.decimals$}");
    if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.').to_owned() } else { plain }
}

/// Splits a list as PgBouncer does: commas separate, and blanks do too.
#[must_use]
pub(crate) fn names(list: &str) -> Vec<&str> {
    list.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|name| !name.is_empty()).collect()
}

/// Reads `fingerprint:number, …`; `None`: one of them is something else, or there twice.
#[must_use]
pub(crate) fn statements(list: &str) -> Option<BTreeMap<u64, u32>> {
    let mut all = BTreeMap::new();
    for one in names(list) {
        let (fingerprint, count) = one.split_once(':')?;
        let is_hex = fingerprint.len() == 16 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fingerprint = u64::from_str_radix(fingerprint, 16).ok().filter(|_| is_hex)?;
        let count = whole(count).filter(|count| (0..=INT_MAX).contains(count))?;
        if all.insert(fingerprint, u32::try_from(count).ok()?).is_some() {
            return None;
        }
    }
    Some(all)
}

/// `a, b or c`.
#[must_use]
pub fn one_of(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_read_as_strtol_does() {
        let table = [
            ("0", Some(0)),
            ("7", Some(7)),
            ("+7", Some(7)),
            ("-7", Some(-7)),
            ("010", Some(8)),
            ("0777", Some(511)),
            ("0x10", Some(16)),
            ("-0X1f", Some(-31)),
            ("00", Some(0)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("+-1", None),
            ("0x", None),
            ("0x-1", None),
            ("0-1", None),
            ("08", None),
            ("1 ", None),
            ("1.0", None),
            ("ten", None),
            ("9223372036854775808", None),
        ];
        for (text, expected) in table {
            assert_eq!(whole(text), expected, "{text:?}");
        }
    }

    #[test]
    fn seconds_have_fractions_and_an_end() {
        let table = [
            ("0", Some(0)),
            ("0.5", Some(500_000)),
            ("1e3", Some(1_000_000_000)),
            ("3600.0", Some(3_600_000_000)),
            ("0.0000001", Some(0)),
            ("inf", Some(3_153_600_000_000_000)),
            ("1e300", Some(3_153_600_000_000_000)),
            ("-1", None),
            ("-0.001", None),
            ("nan", None),
            ("5s", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(seconds(text).map(|time| time.as_micros()), expected, "{text:?}");
        }
    }

    #[test]
    fn times_show_as_printf_g() {
        // The right column is what PgBouncer's SHOW CONFIG prints.
        let table = [
            (0.0, "0"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333333"),
            (120.0, "120"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_234_567.5, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (59.999_999_9, "60"),
        ];
        for (number, expected) in table {
            assert_eq!(six_digits(number), expected);
        }
    }

    #[test]
    fn statements_are_named_by_sixteen_digits() {
        assert_eq!(statements(" "), Some(BTreeMap::new()));
        let two = statements("00000000000000ff:2,ABCDEF0123456789:0").expect("two");
        assert_eq!(two, BTreeMap::from([(255, 2), (0xabcd_ef01_2345_6789, 0)]));
        for mistake in ["ff:2", "00000000000000ff", "00000000000000ff:-1", "00000000000000ff:x", "+0000000000000ff:1"] {
            assert_eq!(statements(mistake), None, "{mistake}");
        }
        assert_eq!(statements("00000000000000ff:1 00000000000000ff:2"), None, "twice");
    }

    #[test]
    fn lists_split_at_commas_and_blanks() {
        assert_eq!(names(" a,b  c ,, d"), ["a", "b", "c", "d"]);
        assert_eq!(names("  "), Vec::<&str>::new());
    }
}
