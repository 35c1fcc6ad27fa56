//! Settings that follow the client from server to server: `client_encoding`, `DateStyle`, `TimeZone`,
//! `standard_conforming_strings`, `application_name`, and what `track_extra_parameters` adds (`IntervalStyle`).
//!
//! PostgreSQL reports these by ParameterStatus, so both sides are known without asking. Values are shared: thousands of
//! clients with the same values hold one copy, and the common case of equal values is one comparison of pointers.
//!
//! //= pgbouncer config.md#track_extra_parameters

use std::collections::BTreeSet;
use std::sync::Arc;

use units::limits;

use crate::parameter_set::ParameterSet;

const FIXED: [&str; 5] =
    ["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name"];

/// Which parameters are tracked; a value's index is its name's index here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    names: Vec<String>,
}

impl Tracked {
    pub fn new(extra: &[String]) -> Tracked {
        let mut names: Vec<String> = FIXED.iter().map(|&name| name.to_owned()).collect();
        for name in extra {
            let is_known = names.iter().any(|known| known.eq_ignore_ascii_case(name));
            if !is_known && names.len() < limits::TRACKED_MAX {
                names.push(name.clone());
            }
        }
        Tracked { names }
    }

    /// PostgreSQL compares parameter names without regard to case.
    pub fn index(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The tracked parameters among these names.
    pub fn set_of<'n>(&self, names: impl IntoIterator<Item = &'n [u8]>) -> ParameterSet {
        names.into_iter().filter_map(|name| self.index(name)).collect()
    }

    /// The names of the tracked parameters in a set: another process may track others.
    pub fn names_of(&self, set: ParameterSet) -> Vec<String> {
        let named = self.names.iter().enumerate().filter(|(index, _)| set.contains(*index));
        named.map(|(_, name)| name.clone()).collect()
    }

    pub fn empty(&self) -> Parameters {
        Parameters { values: vec![None; self.names.len()].into() }
    }

    pub const CLIENT_ENCODING: usize = 0;
    pub(crate) const STANDARD_STRINGS: usize = 3;
    pub const APPLICATION_NAME: usize = 4;

    /// The parameters that servers are given by RESET. Never one that a text is read by: RESET may give another value by now.
    pub const EVER_RESET: ParameterSet =
        ParameterSet::all_but([Tracked::CLIENT_ENCODING, Tracked::STANDARD_STRINGS, Tracked::APPLICATION_NAME]);

    /// Whether a text is read in another way by it.
    pub(crate) fn decides_meaning(index: usize) -> bool {
        matches!(index, Tracked::CLIENT_ENCODING | Tracked::STANDARD_STRINGS)
    }
}

/// The values of all tracked parameters; `None`: not known, so not followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameters {
    values: Box<[Option<Box<[u8]>>]>,
}

impl Parameters {
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.values.get(index)?.as_deref()
    }

    /// Those that are known, by their names: another process may follow others.
    pub fn by_name(&self, tracked: &Tracked) -> Vec<(String, Box<[u8]>)> {
        let named = tracked.names.iter().zip(&self.values);
        named.filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect()
    }

    /// As another process has told them.
    pub fn of_names(named: &[(String, Box<[u8]>)], tracked: &Tracked) -> Parameters {
        let mut parameters = tracked.empty();
        for (name, value) in named {
            if let Some(index) = tracked.index(name.as_bytes()) {
                parameters.set(index, value);
            }
        }
        parameters
    }

    /// The parameters whose values are known.
    pub fn known(&self) -> ParameterSet {
        self.those(|_, value| value.is_some())
    }

    /// The parameters that a server gets by RESET. `at_reset`: the values that RESET gives it.
    pub fn resettable(&self, at_reset: &Parameters) -> ParameterSet {
        self.those(|index, value| value.is_some() && value == at_reset.get(index)) & Tracked::EVER_RESET
    }

    /// The parameters that are known here and there, with other values.
    pub fn difference(&self, other: &Parameters) -> ParameterSet {
        self.those(|index, value| value.is_some() && other.get(index).is_some_and(|other| value != Some(other)))
    }

    /// The parameters of which this holds, by their numbers and values.
    fn those(&self, is_one: impl Fn(usize, Option<&[u8]>) -> bool) -> ParameterSet {
        let values = self.values.iter().enumerate();
        values.filter(|(index, value)| is_one(*index, value.as_deref())).map(|(index, _)| index).collect()
    }

    /// The values of `base`, but for the parameters in `own`.
    pub fn rebased(&self, base: &Parameters, own: ParameterSet) -> Parameters {
        let mut rebased = self.clone();
        for (index, value) in rebased.values.iter_mut().enumerate() {
            if let Some(new) = base.get(index).filter(|_| !own.contains(index)) {
                *value = Some(new.into());
            }
        }
        rebased
    }

    /// The same with one value changed; `None` if the value is too long to keep.
    pub fn with(&self, index: usize, value: &[u8]) -> Option<Parameters> {
        if value.len() > limits::PARAMETER_LEN_MAX {
            return None;
        }
        let mut changed = self.clone();
        changed.values[index] = Some(value.into());
        Some(changed)
    }

    /// Sets one value; one that is too long to keep is passed over.
    pub fn set(&mut self, index: usize, value: &[u8]) {
        if value.len() <= limits::PARAMETER_LEN_MAX {
            self.values[index] = Some(value.into());
        }
    }

    /// Those that decide what a text means, one after the other.
    pub fn meaning(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let values = self.values.iter().enumerate().filter(|(index, _)| *index != Tracked::APPLICATION_NAME);
        values.map(|(_, value)| value.as_deref())
    }

    /// These values laid over others: what is `None` here is taken from there.
    pub fn over(&self, base: &Parameters) -> Parameters {
        let pairs = self.values.iter().zip(base.values.iter());
        Parameters { values: pairs.map(|(own, below)| own.clone().or_else(|| below.clone())).collect() }
    }

    /// The same in another spelling, where `spell` knows one; `None`: it knows none that is another.
    pub fn spelled(&self, spell: impl Fn(usize, &[u8]) -> Option<Vec<u8>>) -> Option<Parameters> {
        let spelled = |(index, value): (usize, &Option<Box<[u8]>>)| {
            let spelled = spell(index, value.as_deref()?)?;
            (Some(&spelled[..]) != value.as_deref()).then_some((index, spelled))
        };
        let mut changed: Option<Parameters> = None;
        for (index, value) in self.values.iter().enumerate().filter_map(spelled) {
            changed.get_or_insert_with(|| self.clone()).values[index] = Some(value.into());
        }
        changed
    }

    /// As a server has reported them; what is as in `base` stays so, and the application's name.
    pub fn learnt(&self, reported: &Parameters, base: &Parameters) -> Parameters {
        let mut values = self.values.clone();
        for (index, value) in values.iter_mut().enumerate() {
            let is_own = base.get(index) != value.as_deref() && index != Tracked::APPLICATION_NAME;
            if let Some(reported) = reported.get(index).filter(|_| is_own) {
                *value = Some(reported.into());
            }
        }
        Parameters { values }
    }

    /// Writes the SETs that make a server with `server`'s values have these; says whether there are any.
    pub fn write_difference(&self, server: &Parameters, tracked: &Tracked, out: &mut Vec<u8>) -> bool {
        self.write_changes(server, Replayed::default(), tracked, out)
    }

    /// The same. `replayed`: which of them are not written as `SET name = value`.
    pub fn write_changes(
        &self,
        server: &Parameters,
        replayed: Replayed<'_>,
        tracked: &Tracked,
        out: &mut Vec<u8>,
    ) -> bool {
        let before = out.len();
        for (index, name) in tracked.names.iter().enumerate() {
            let known = || self.get(index).zip(server.get(index));
            let pair = if index == Tracked::APPLICATION_NAME { replayed.application.or_else(known) } else { known() };
            let Some((wanted, found)) = pair else { continue };
            if wanted == found && !replayed.resets.contains(index) {
                continue;
            }
            if replayed.resets.contains(index) {
                out.extend_from_slice(b"RESET ");
                out.extend_from_slice(name.as_bytes());
                out.push(b';');
            } else if wanted.is_ascii() && !is_list_of_names(name.as_bytes()) {
                out.extend_from_slice(b"SET ");
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                quote_literal(wanted, out);
                out.push(b';');
            } else {
                let encoding = self.get(Tracked::CLIENT_ENCODING).filter(|encoding| encoding.is_ascii());
                write_set_config(name.as_bytes(), wanted, encoding.unwrap_or(b"UTF8"), out);
            }
        }
        out.len() > before
    }
}

impl Parameters {
    /// Statements that give a server with the values of `found` these, for a transaction, as far as a text's constants are read by them. Names
    /// are looked up anew by `search_path` whenever it has changed.
    pub(crate) fn local_changes(&self, found: &Parameters, tracked: &Tracked) -> Vec<Vec<u8>> {
        let mut statements = Vec::new();
        for (index, name) in tracked.names.iter().enumerate() {
            let Some((wanted, found)) = self.get(index).zip(found.get(index)) else { continue };
            let is_read_by = index != Tracked::APPLICATION_NAME && !is_list_of_names(name.as_bytes());
            if is_read_by && wanted != found && wanted.is_ascii() {
                let mut statement = [SET_LOCAL, name.as_bytes(), b"="].concat();
                quote_literal(wanted, &mut statement);
                statements.push(statement);
            }
        }
        statements
    }
}

/// How the statements of [`Parameters::local_changes`] begin.
const SET_LOCAL: &[u8] = b"SET LOCAL ";

/// Whether it is a statement of `local_changes`, among those that are run in front of a client's.
pub fn is_local_change(statement: &[u8]) -> bool {
    statement.starts_with(SET_LOCAL)
}

/// How parameters are given to a server besides by `SET name = value`.
#[derive(Copy, Clone, Debug, Default)]
pub struct Replayed<'a> {
    /// Where another application_name than the client's is wanted: it, and the one that the server has.
    pub application: Option<(&'a [u8], &'a [u8])>,
    /// The parameters that are given by RESET, also where the server has the value that is wanted: a parameter that is reset follows PostgreSQL's
    /// configuration, one that is set does not.
    pub resets: ParameterSet,
}

/// What PostgreSQL takes apart at its commas and quotes: `SET` with a string would make it one name.
pub(crate) fn is_list_of_names(name: &[u8]) -> bool {
    ["search_path", "temp_tablespaces"].iter().any(|list| list.as_bytes().eq_ignore_ascii_case(name))
}

/// Sets a parameter by its value as it is shown, whatever the client_encoding of the server is at the moment.
///
/// The bytes of a value that is not ASCII are in the client's encoding, and the server that is to have it may be in
/// another's. Worse: in SJIS, BIG5, GBK, UHC, JOHAB and GB18030 the second byte of a character may be a backslash, and
/// doubling it gives the server a character and a backslash that takes the quote behind it. So such bytes are not
/// quoted at all but sent as hexadecimal digits, with the encoding's name; PostgreSQL refuses them if they are not in it.
///
/// PostgreSQL manual, "9.4. String Functions" (`convert_from`), "9.28. System Administration Functions" (`set_config`).
pub(crate) fn write_set_config(name: &[u8], value: &[u8], encoding: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"SELECT pg_catalog.set_config(");
    quote_literal(name, out);
    out.push(b',');
    if value.is_ascii() {
        quote_literal(value, out);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.extend_from_slice(b"pg_catalog.convert_from(pg_catalog.decode('");
        out.extend(value.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]));
        out.extend_from_slice(b"','hex'),");
        quote_literal(encoding, out);
        out.push(b')');
    }
    out.extend_from_slice(b",false);");
}

/// An application_name as PostgreSQL keeps it: what is not printable ASCII is written as `\x` and two digits.
/// PostgreSQL manual, "application_name".
pub fn clean_application_name(name: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b' '..=b'~' => clean.push(byte),
            other => clean.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    clean
}

/// A string literal that means the same whatever standard_conforming_strings says. Only for ASCII: see
/// [`write_set_config`].
/// PostgreSQL manual, "4.1.2.2. String Constants with C-Style Escapes".
pub(crate) fn quote_literal(text: &[u8], out: &mut Vec<u8>) {
    debug_assert!(text.is_ascii(), "in some encodings a quote may be half of a character");
    let escapes = text.contains(&b'\\');
    out.extend_from_slice(if escapes { b" E'" } else { b"'" });
    for &byte in text {
        if byte == b'\'' || byte == b'\\' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

/// ParameterStatus: names and values, in the server's order.
pub type Reported = Vec<(Box<[u8]>, Box<[u8]>)>;

/// One copy of each set of values on a worker.
#[derive(Debug, Default)]
pub struct Interned {
    sets: BTreeSet<Arc<Parameters>>,
    /// Sweep the unused when the set has grown to this.
    sweep_at: usize,
    /// What was laid over what last.
    laid: Option<Laid>,
}

/// A client's own values, those of its pool's servers, and the former laid over the latter. Clients of one program come with the
/// same values, one after the other.
#[derive(Debug)]
struct Laid {
    own: Arc<Parameters>,
    base: Arc<Parameters>,
    both: Arc<Parameters>,
}

impl Interned {
    pub fn intern(&mut self, parameters: Parameters) -> Arc<Parameters> {
        if let Some(known) = self.sets.get(&parameters) {
            return Arc::clone(known);
        }
        if self.sets.len() >= self.sweep_at {
            self.sets.retain(|set| Arc::strong_count(set) > 1);
            self.sweep_at = 64 + 2 * self.sets.len();
        }
        let shared = Arc::new(parameters);
        self.sets.insert(Arc::clone(&shared));
        shared
    }

    /// What came of laying `own` over `base`, if that was what was done last.
    pub fn laid(&self, own: &Arc<Parameters>, base: &Arc<Parameters>) -> Option<Arc<Parameters>> {
        let last = self.laid.as_ref().filter(|last| Arc::ptr_eq(&last.own, own) && Arc::ptr_eq(&last.base, base))?;
        Some(Arc::clone(&last.both))
    }

    /// Keeps what came of laying `own` over `base`.
    pub fn keep_laid(&mut self, own: Arc<Parameters>, base: Arc<Parameters>, both: Arc<Parameters>) {
        self.laid = Some(Laid { own, base, both });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(wanted: &Parameters, found: &Parameters, tracked: &Tracked) -> String {
        let mut out = Vec::new();
        let any = wanted.write_difference(found, tracked, &mut out);
        assert_eq!(any, !out.is_empty());
        String::from_utf8(out).expect("names and test values are ASCII")
    }

    #[test]
    fn only_what_differs_and_is_known_is_set() {
        let tracked = Tracked::new(&["IntervalStyle".to_owned(), "timezone".to_owned()]);
        let base = tracked.empty().with(2, b"UTC").and_then(|set| set.with(0, b"UTF8")).expect("short");
        let client = base.with(2, b"Europe/Zurich").and_then(|set| set.with(4, b"psql")).expect("short");
        assert_eq!(difference(&client, &base, &tracked), "SET TimeZone='Europe/Zurich';");
        assert_eq!(difference(&base, &base, &tracked), "");
        assert_eq!(tracked.index(b"timezone"), Some(2));
        assert_eq!(tracked.index(b"intervalstyle"), Some(5));
    }

    #[test]
    fn what_the_server_began_with_is_reset() {
        let tracked = Tracked::new(&[]);
        let of = |zone: &[u8], strings: &[u8]| {
            let zone = tracked.empty().with(2, zone);
            zone.and_then(|set| set.with(3, strings)).and_then(|set| set.with(4, b"psql")).expect("short")
        };
        let (login, server) = (of(b"UTC", b"on"), of(b"Asia/Tokyo", b"off"));
        let replayed = Replayed { resets: login.resettable(&login), application: None };
        let mut out = Vec::new();
        assert!(login.write_changes(&server, replayed, &tracked, &mut out));
        assert_eq!(String::from_utf8_lossy(&out), "RESET TimeZone;SET standard_conforming_strings='on';");
        let none = (ParameterSet::NONE, ParameterSet::NONE);
        assert_eq!((login.resettable(&server), login.resettable(&tracked.empty())), none);
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let tracked = Tracked::new(&[]);
        let base = tracked.empty().with(4, b"").expect("short");
        let sly = base.with(4, br"x'; drop table t; --\").expect("short");
        assert_eq!(difference(&sly, &base, &tracked), r"SET application_name= E'x''; drop table t; --\\';");
    }

    #[test]
    fn half_a_character_is_no_quote() {
        let tracked = Tracked::new(&["search_path".to_owned()]);
        let base = tracked.empty().with(0, b"UTF8").and_then(|set| set.with(5, b"public")).expect("short");
        for encoding in ["SJIS", "BIG5", "GBK", "UHC", "JOHAB", "GB18030", "SHIFT_JIS_2004"] {
            // Its second byte is a backslash; the last one is alone.
            let sly = base.with(0, encoding.as_bytes()).and_then(|set| set.with(5, b"\x83\x5c, x\x81\x27\x83"));
            let expected = format!(
                "SET client_encoding='{encoding}';SELECT pg_catalog.set_config('search_path',\
                 pg_catalog.convert_from(pg_catalog.decode('835c2c207881 2783','hex'),'{encoding}'),false);"
            );
            assert_eq!(difference(&sly.expect("short"), &base, &tracked), expected.replace("81 27", "8127"));
        }
        // An encoding's name that is none is not sent along.
        let sly = base.with(0, b"\x83\x5c").and_then(|set| set.with(5, b"\xff")).expect("short");
        let set = difference(&sly, &base, &tracked);
        assert!(set.is_ascii() && !set.contains('\\') && set.matches("'UTF8'").count() == 2, "{set}");
    }

    #[test]
    fn a_list_of_names_stays_a_list() {
        let tracked = Tracked::new(&["search_path".to_owned()]);
        let base = tracked.empty().with(5, b"public").expect("short");
        let list = base.with(5, br#""$user", "it's""#).expect("short");
        let expected = r#"SELECT pg_catalog.set_config('search_path','"$user", "it''s"',false);"#;
        assert_eq!(difference(&list, &base, &tracked), expected);
    }

    #[test]
    fn an_application_name_is_kept_as_postgresql_keeps_it() {
        assert_eq!(clean_application_name(b"psql \x83\x5c\n~"), br"psql \x83\\x0a~");
    }

    #[test]
    fn equal_values_are_one_copy() {
        let tracked = Tracked::new(&[]);
        let mut interned = Interned::default();
        let first = interned.intern(tracked.empty());
        let second = interned.intern(tracked.empty());
        assert!(Arc::ptr_eq(&first, &second));
        for number in 0..1000_u32 {
            interned.intern(tracked.empty().with(4, &number.to_be_bytes()).expect("short"));
        }
        assert!(interned.sets.len() < 200, "what nobody uses is swept");
    }

    #[test]
    fn only_what_was_laid_over_the_same_base_is_known() {
        let tracked = Tracked::new(&[]);
        let mut interned = Interned::default();
        let [own, base, other] = [b"a", b"b", b"c"].map(|value| {
            let mut parameters = tracked.empty();
            parameters.set(Tracked::APPLICATION_NAME, value);
            interned.intern(parameters)
        });
        assert_eq!(interned.laid(&own, &base), None);
        interned.keep_laid(Arc::clone(&own), Arc::clone(&base), Arc::clone(&own));
        assert_eq!(interned.laid(&own, &base).as_ref(), Some(&own));
        assert_eq!(interned.laid(&own, &other), None);
        assert_eq!(interned.laid(&other, &base), None);
    }

    #[test]
    fn a_value_that_is_too_long_is_refused() {
        assert!(Tracked::new(&[]).empty().with(4, &vec![b'x'; limits::PARAMETER_LEN_MAX + 1]).is_none());
    }
}
