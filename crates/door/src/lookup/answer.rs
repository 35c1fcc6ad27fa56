//! One lookup: what is sent, and what its answer says of the user.
//!
//! ```text
//!   Parse auth_query │ Bind $1 = name │ Describe │ Execute, 2 rows at most │ Bind clock │ Execute │ Sync
//!                                                                            └ the server's own time, for valid_until
//! ```
//!
//! Promises that an answer of another shape than expected lets nobody in, and says what is wrong. Does not keep anything:
//! `cache` does.
//!
//! //= pgbouncer config.md#auth_query
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use auth::{Password, Secret};
use connections::{Broken, MessageType};
use units::Time;
use wire::backend::{DataRow, Fields, ReadyForQuery, RowDescription, Status, tag};
use wire::frontend::{self, Bind, Describe, Execute, Parse, Target};
use wire::{SqlState, sqlstate};

use super::end::LookupEnd;
use super::timestamp::Timestamp;

/// The statement that tells the server's time.
const CLOCK: &[u8] = b"clock";

/// Appends what is sent once on a new connection.
pub(super) fn prepare(out: &mut Vec<u8>) {
    Parse { name: CLOCK, query: b"SELECT pg_catalog.clock_timestamp()", types: Parse::NO_TYPES }.encode(out);
    frontend::encode_sync(out);
}

/// Appends a lookup.
pub(super) fn ask(query: &str, user: &str, out: &mut Vec<u8>) {
    Parse { name: b"", query: query.as_bytes(), types: Parse::NO_TYPES }.encode(out);
    Bind::encode(out, b"", b"", [Some(user.as_bytes())]);
    Describe { target: Target::Portal, name: b"" }.encode(out);
    // A second row shows that the query does not ask for one user.
    Execute { portal: b"", rows_max: 2 }.encode(out);
    Bind::encode(out, b"", CLOCK, []);
    Execute { portal: b"", rows_max: 0 }.encode(out);
    frontend::encode_sync(out);
}

/// What a lookup says of a user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// `None`: NULL, the user has no password, or one that is not valid any more by the query's own judgement.
    pub(super) secret: Option<Secret>,
    pub(super) validity: Validity,
}

/// Until when a password is valid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Forever,
    Until(Time),
    Expired,
}

impl Validity {
    pub(super) fn is_over(self, now: Time) -> bool {
        match self {
            Validity::Forever => false,
            Validity::Until(end) => end < now,
            Validity::Expired => true,
        }
    }
}

/// A lookup that says nothing of its user, and why, in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text of the name cannot be asked for in this database, so no user has it.
    NoSuchName,
    Failed(String),
}

/// An answer while it is read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    columns: Option<usize>,
    rows: usize,
    row: Option<Row>,
    /// The lookup itself is answered; the clock's answer follows.
    is_answered: bool,
    now: Option<Timestamp>,
    error: Option<(Option<SqlState>, String)>,
}

/// Texts of the first row.
#[derive(Debug)]
struct Row {
    name: Option<Vec<u8>>,
    /// `Some(None)`: a text that is not UTF-8.
    secret: Option<Option<Secret>>,
    valid_until: Option<Vec<u8>>,
}

impl Answer {
    /// Reads one message. Returns whether the answer is complete.
    ///
    /// # Errors
    /// The server has broken the protocol.
    pub(super) fn take(&mut self, tag: u8, body: &[u8]) -> Result<bool, LookupEnd> {
        match tag {
            tag::PARSE_COMPLETE | tag::BIND_COMPLETE => {}
            tag::ROW_DESCRIPTION if !self.is_answered => self.columns = Some(RowDescription::decode(body)?.len()),
            tag::NO_DATA if !self.is_answered => self.columns = Some(0),
            tag::DATA_ROW if self.is_answered => {
                self.now = DataRow::decode(body)?.values().next().flatten().and_then(Timestamp::parse);
            }
            tag::DATA_ROW => {
                self.rows += 1;
                let mut values = DataRow::decode(body)?.values();
                let mut next = || values.next().flatten();
                let name = next().map(<[u8]>::to_vec);
                let secret = next().map(|secret| std::str::from_utf8(secret).ok().map(Secret::parse));
                let valid_until = next().map(<[u8]>::to_vec);
                self.row.get_or_insert(Row { name, secret, valid_until });
            }
            tag::COMMAND_COMPLETE | tag::PORTAL_SUSPENDED | tag::EMPTY_QUERY => self.is_answered = true,
            tag::ERROR => {
                let fields = Fields::decode(body);
                let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
                let (severity, code) = (text(fields.severity()), text(fields.code()));
                self.error = Some((fields.sqlstate(), format!("{severity} {code}: {}", text(fields.message()))));
            }
            tag::READY_FOR_QUERY => {
                if ReadyForQuery::decode(body)?.status != Status::Idle {
                    return Err(LookupEnd::LeavesTransaction);
                }
                return Ok(true);
            }
            other => return Err(Broken::Unexpected { message: MessageType(other) }.into()),
        }
        Ok(false)
    }

    /// Whether the server does not know a function or a table of the query.
    pub(super) fn misses_names(&self) -> bool {
        const UNKNOWN_FUNCTION: SqlState = SqlState(*b"42883");
        const UNKNOWN_TABLE: SqlState = SqlState(*b"42P01");
        let code = self.error.as_ref().and_then(|(code, _)| *code);
        code.is_some_and(|code| [UNKNOWN_FUNCTION, UNKNOWN_TABLE].contains(&code))
    }

    /// Judges a complete answer. `sent_at`: when the lookup was sent, which is before the server told its time; so a
    /// password never counts as valid for too long. `Ok(None)`: there is no such user.
    ///
    /// # Errors
    /// The server's error, or an answer that cannot be one.
    pub(super) fn judge(self, user: &str, sent_at: Time) -> Result<Option<Found>, Fault> {
        if let Some((code, text)) = self.error {
            return Err(of_error(code, text));
        }
        let failed = |text: &str| Err(Fault::Failed(text.to_owned()));
        let columns = self.columns.unwrap_or_default();
        if !(2..=3).contains(&columns) {
            return failed(&format!(
                "auth_query must return the columns name, secret, valid_until; it returns {columns}"
            ));
        }
        if self.rows > 1 {
            return failed("auth_query must return one row for a user, and has returned more");
        }
        let Some(Row { name, secret, valid_until }) = self.row else { return Ok(None) };
        // PostgreSQL cuts long names: that of another user.
        if name.as_deref() != Some(user.as_bytes()) {
            return Ok(None);
        }
        let validity = match (valid_until, self.now) {
            (None, _) => Validity::Forever,
            (Some(until), Some(now)) => match Timestamp::parse(&until).map(|until| until.after(now)) {
                Some(Some(left)) if left.as_secs() < FAR_AWAY => Validity::Until(sent_at + left),
                Some(Some(_)) => Validity::Forever,
                Some(None) => Validity::Expired,
                None => return failed("auth_query's third column must be of type timestamptz"),
            },
            (Some(_), None) => return failed("the server has not told its time"),
        };
        if secret == Some(None) {
            return failed("auth_query has returned a secret that is not UTF-8");
        }
        // As in auth_file, an empty password is none.
        let secret = secret.flatten().filter(|secret| *secret != Secret::Plain(Password::new("")));
        Ok(Some(Found { secret, validity }))
    }
}

/// Seconds until a moment that counts as never: a hundred years.
const FAR_AWAY: u64 = 100 * 365 * 86_400;

fn of_error(code: Option<SqlState>, text: String) -> Fault {
    match code {
        Some(code) if &code.class() == b"22" || code == sqlstate::UNTRANSLATABLE_CHARACTER => Fault::NoSuchName,
        _ => Fault::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use auth::Md5Hash;
    use wire::backend::{self, Column, ErrorResponse, oid};

    use super::*;

    const AT: Time = Time(5_000_000);
    const NOW: &str = "2026-11-23 12:00:00+00";

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut out = Vec::new();
        backend::encode_data_row(&mut out, values.iter().map(|value| value.map(str::as_bytes)));
        out
    }

    fn description(count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        backend::encode_row_description(
            &mut out,
            &vec![Column { name: "c", type_oid: oid::TEXT, type_len: -1 }; count],
        );
        out
    }

    /// The answer of a server that returns these rows.
    fn answer(columns: usize, rows: &[&[Option<&str>]]) -> Vec<u8> {
        let mut out = Vec::new();
        backend::encode_parse_complete(&mut out);
        backend::encode_bind_complete(&mut out);
        out.extend(description(columns));
        rows.iter().for_each(|values| out.extend(row(values)));
        backend::encode_command_complete(&mut out, "SELECT 1");
        backend::encode_bind_complete(&mut out);
        out.extend(row(&[Some(NOW)]));
        backend::encode_command_complete(&mut out, "SELECT 1");
        backend::encode_ready(&mut out, Status::Idle);
        out
    }

    fn refused(code: SqlState) -> Vec<u8> {
        let mut out = Vec::new();
        ErrorResponse { severity: "ERROR", code, message: "no", detail: None, hint: None }.encode(&mut out);
        backend::encode_ready(&mut out, Status::Idle);
        out
    }

    fn read(bytes: &[u8], user: &str) -> Result<Option<Found>, Fault> {
        let (mut answer, mut rest) = (Answer::default(), bytes);
        while let Some(header) = wire::Header::parse(rest).expect("messages") {
            let done = answer.take(header.tag, &rest[wire::HEADER_LEN..header.total_len()]).expect("in order");
            rest = &rest[header.total_len()..];
            assert_eq!(done, rest.is_empty(), "complete with the last message");
        }
        answer.judge(user, AT)
    }

    fn found(secret: Option<&str>, validity: Validity) -> Result<Option<Found>, Fault> {
        Ok(Some(Found { secret: secret.map(Secret::parse), validity }))
    }

    #[test]
    fn a_row_is_read_by_the_positions_of_its_columns() {
        let hash = auth::md5::response(&Md5Hash::of("x", "y"), [0; 4]);
        let with = |secret, until| read(&answer(3, &[&[Some("ann"), secret, until]]), "ann");
        let table = [
            (Some("secret"), None, found(Some("secret"), Validity::Forever)),
            (Some(&*hash), None, found(Some(&hash), Validity::Forever)),
            (None, None, found(None, Validity::Forever)),
            (Some(""), None, found(None, Validity::Forever)),
            (Some("s"), Some("infinity"), found(Some("s"), Validity::Forever)),
            (Some("s"), Some("-infinity"), found(Some("s"), Validity::Expired)),
            (Some("s"), Some("2026-11-23 11:59:59.999999+00"), found(Some("s"), Validity::Expired)),
            (Some("s"), Some(NOW), found(Some("s"), Validity::Until(AT))),
            (Some("s"), Some("2026-11-23 12:00:02.5+00"), found(Some("s"), Validity::Until(Time(7_500_000)))),
            (Some("s"), Some("294276-01-01 00:00:00+00"), found(Some("s"), Validity::Forever)),
        ];
        for (secret, until, expected) in table {
            assert_eq!(with(secret, until), expected, "{secret:?} {until:?}");
        }
        let two = answer(2, &[&[Some("ann"), Some("s")]]);
        assert_eq!(read(&two, "ann"), found(Some("s"), Validity::Forever));
    }

    #[test]
    fn a_password_is_valid_until_the_moment_has_passed() {
        assert!(!Validity::Until(AT).is_over(AT) && Validity::Until(AT).is_over(Time(AT.0 + 1)));
        assert!(!Validity::Forever.is_over(Time::NEVER) && Validity::Expired.is_over(Time::ZERO));
    }

    #[test]
    fn no_row_and_a_row_of_another_user_are_no_user() {
        assert_eq!(read(&answer(2, &[]), "ann"), Ok(None));
        assert_eq!(read(&answer(2, &[&[Some("anna"), Some("s")]]), "ann"), Ok(None));
        assert_eq!(read(&answer(2, &[&[None, Some("s")]]), "ann"), Ok(None));
    }

    #[test]
    fn what_cannot_be_an_answer_lets_nobody_in() {
        let failure = |bytes: &[u8]| match read(bytes, "ann") {
            Err(Fault::Failed(text)) => text,
            other => panic!("{other:?}"),
        };
        let row: &[Option<&str>] = &[Some("ann"), Some("s")];
        assert!(failure(&answer(2, &[row, row])).contains("one row"));
        assert!(failure(&answer(1, &[&[Some("ann")]])).contains("it returns 1"));
        assert!(failure(&answer(4, &[row])).contains("it returns 4"));
        assert!(failure(&answer(3, &[&[Some("ann"), Some("s"), Some("soon")]])).contains("timestamptz"));
        assert_eq!(failure(&refused(sqlstate::INSUFFICIENT_PRIVILEGE)), "ERROR 42501: no");
        assert_eq!(read(&refused(SqlState(*b"22021")), "ann"), Err(Fault::NoSuchName));
    }

    #[test]
    fn a_server_that_breaks_the_protocol_is_noticed() {
        let mut copy = Vec::new();
        backend::encode_copy_in(&mut copy, 1);
        let told = Answer::default().take(tag::COPY_IN, &copy[wire::HEADER_LEN..]);
        assert_eq!(told, Err(Broken::Unexpected { message: MessageType(b'G') }.into()));
        let told = Answer::default().take(tag::READY_FOR_QUERY, b"T");
        assert_eq!(told, Err(LookupEnd::LeavesTransaction));
        assert!(Answer::default().take(tag::DATA_ROW, b"\xff\xff").is_err());
    }
}
