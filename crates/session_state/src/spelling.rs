//! How PostgreSQL writes what a client has written in its startup packet: `german` is `German, DMY`.
//!
//! A client is let in before any server has its parameters. What PostgreSQL documents is known by a table; all else a pool
//! learns from the first server that a client's first statement runs on, for all clients that begin with the same.
//!
//! //= pg18 runtime-config-client#GUC-DATESTYLE

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use units::limits;

use crate::login_report::LoginReport;
use crate::parameters::Reported;
use crate::parameters::{Parameters, Tracked};
use crate::state::{State, base};

/// The value as PostgreSQL reports it; `before`: the one that a server begins with. `None`: it is not known here.
pub fn canonical<'v>(name: &[u8], value: &[u8], before: Option<&'v [u8]>) -> Option<Cow<'v, [u8]>> {
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    if is("DateStyle") {
        date_style(value, before?).map(|style| Cow::Owned(style.into_bytes()))
    } else if is("client_encoding") {
        encoding(value)
    } else if is("standard_conforming_strings") || is("default_transaction_read_only") {
        boolean(value).map(|is_on| Cow::Borrowed(if is_on { &b"on"[..] } else { b"off" }))
    } else if is("IntervalStyle") {
        let styles: [&'static [u8]; 4] = [b"postgres", b"postgres_verbose", b"sql_standard", b"iso_8601"];
        styles.into_iter().find(|style| style.eq_ignore_ascii_case(value)).map(Cow::Borrowed)
    } else if is("TimeZone") {
        let zones: [&'static [u8]; 2] = [b"UTC", b"GMT"];
        zones.into_iter().find(|zone| zone.eq_ignore_ascii_case(value)).map(Cow::Borrowed)
    } else {
        None
    }
}

/// One or two words: how dates are written, and the order of their fields. What is not said stays, but GERMAN says DMY.
fn date_style(value: &[u8], before: &[u8]) -> Option<String> {
    let (style_before, order_before) = std::str::from_utf8(before).ok()?.split_once(", ")?;
    let (mut style, mut order) = (None, None);
    let words = value.split(|byte| *byte == b',' || byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    for word in words {
        let word = word.to_ascii_uppercase();
        let (said, new) = match &word[..] {
            b"ISO" => (&mut style, "ISO"),
            b"SQL" => (&mut style, "SQL"),
            b"GERMAN" => (&mut style, "German"),
            word if word.starts_with(b"POSTGRES") => (&mut style, "Postgres"),
            b"YMD" => (&mut order, "YMD"),
            b"DMY" => (&mut order, "DMY"),
            word if word.starts_with(b"EURO") => (&mut order, "DMY"),
            b"MDY" | b"US" => (&mut order, "MDY"),
            word if word.starts_with(b"NONEURO") => (&mut order, "MDY"),
            _ => return None,
        };
        if said.replace(new).is_some_and(|before| before != new) {
            return None;
        }
    }
    let of_style = if style == Some("German") { "DMY" } else { order_before };
    Some(format!("{}, {}", style.unwrap_or(style_before), order.unwrap_or(of_style)))
}

/// PostgreSQL compares letters and digits only. //= pg18 multibyte#CHARSET-TABLE
fn encoding(value: &[u8]) -> Option<Cow<'static, [u8]>> {
    let key: Vec<u8> = value.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    let known: &'static [u8] = match &key[..] {
        b"utf8" | b"unicode" => b"UTF8",
        b"sqlascii" => b"SQL_ASCII",
        b"latin1" | b"iso88591" => b"LATIN1",
        b"latin2" | b"iso88592" => b"LATIN2",
        b"latin5" | b"iso88599" => b"LATIN5",
        b"latin9" | b"iso885915" => b"LATIN9",
        b"win1250" | b"windows1250" => b"WIN1250",
        b"win1251" | b"windows1251" | b"win" => b"WIN1251",
        b"win1252" | b"windows1252" => b"WIN1252",
        b"eucjp" => b"EUC_JP",
        b"sjis" | b"shiftjis" | b"mskanji" | b"win932" | b"windows932" => b"SJIS",
        b"gbk" | b"win936" | b"windows936" => b"GBK",
        _ => return None,
    };
    Some(Cow::Borrowed(known))
}

/// Any beginning of a word that tells it from the others.
fn boolean(value: &[u8]) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.as_bytes().starts_with(&value);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || value == b"1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || value == b"0" {
        Some(false)
    } else {
        None
    }
}

/// What a server reported once it had what a client began with.
#[derive(Debug)]
pub struct ReportedParameters {
    pub parameters: Arc<Parameters>,
    /// Of the parameters that are not tracked, those that are not as its servers begin with.
    pub others: Arc<Reported>,
}

/// What a pool has learnt of clients' startup packets, by what they ask for beyond what its servers begin with.
#[derive(Debug, Default)]
pub struct Learnt(BTreeMap<Box<[u8]>, ReportedParameters>);

impl Learnt {
    /// What was asked for; `None`: nothing. The application's name is written the same way by all.
    pub fn key(
        asked: &Parameters,
        state: Option<&State>,
        report: &LoginReport,
        tracked: &Tracked,
    ) -> Option<Box<[u8]>> {
        let state = state.filter(|state| !state.is_initial());
        if state.is_none() && asked.meaning().eq(report.parameters.meaning()) {
            return None;
        }
        let name = report.parameters.get(Tracked::APPLICATION_NAME);
        let asked = name.and_then(|name| asked.with(Tracked::APPLICATION_NAME, name))?;
        let mut key = Vec::new();
        asked.write_difference(&report.parameters, tracked, &mut key);
        if let Some(state) = state {
            state.write_difference(&State::default(), &base::LOGIN, &mut key);
        }
        (!key.is_empty() && key.len() <= limits::LEARNT_LEN_MAX).then(|| key.into())
    }

    pub fn get(&self, key: &[u8]) -> Option<&ReportedParameters> {
        self.0.get(key)
    }

    pub fn learn(&mut self, key: Box<[u8]>, reported: ReportedParameters) {
        if self.0.len() >= limits::LEARNT_MAX && !self.0.contains_key(&key) {
            // A client that begins with other values each time shall not keep all others from being known.
            self.0.clear();
        }
        self.0.insert(key, reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_postgresql_writes_them() {
        let table = [
            ("datestyle", "german", "ISO, MDY", Some("German, DMY")),
            ("DateStyle", "GERMAN,YMD", "ISO, MDY", Some("German, YMD")),
            ("datestyle", "sql", "ISO, DMY", Some("SQL, DMY")),
            ("datestyle", "european", "ISO, MDY", Some("ISO, DMY")),
            ("datestyle", "us postgres", "ISO, DMY", Some("Postgres, MDY")),
            ("datestyle", "iso, sql", "ISO, DMY", None),
            ("datestyle", "default", "ISO, DMY", None),
            ("client_encoding", "utf-8", "UTF8", Some("UTF8")),
            ("client_encoding", "'Latin1'", "UTF8", Some("LATIN1")),
            ("client_encoding", "klingon", "UTF8", None),
            ("timezone", "utc", "UTC", Some("UTC")),
            ("timezone", "europe/zurich", "UTC", None),
            ("standard_conforming_strings", "1", "on", Some("on")),
            ("standard_conforming_strings", "o", "on", None),
            ("default_transaction_read_only", "T", "off", Some("on")),
            ("default_transaction_read_only", "of", "off", Some("off")),
            ("intervalstyle", "ISO_8601", "postgres", Some("iso_8601")),
            ("work_mem", "1", "1", None),
        ];
        for (name, value, before, wanted) in table {
            let found = canonical(name.as_bytes(), value.as_bytes(), Some(before.as_bytes()));
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{name}={value}");
        }
    }
}
