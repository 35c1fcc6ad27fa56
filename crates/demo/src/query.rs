//! One statement over PostgreSQL's own Unix socket, where it trusts us. The least protocol that does it, written apart
//! from pgweir's own so that a mistake there cannot hide from the tests that ask here.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;

/// PostgreSQL's messages to us are small here; a longer one means that the stream is not what we think.
const LENGTH_MAX: u32 = 1 << 30;
/// `3 << 16`: protocol 3.0, which every PostgreSQL in use speaks.
const PROTOCOL: i32 = 196_608;

/// Who asks, and where.
pub(crate) struct Line {
    pub(crate) socket: PathBuf,
    pub(crate) user: String,
    pub(crate) database: String,
    /// The longest silence to bear.
    pub(crate) patience: Duration,
}

/// The path of the socket that PostgreSQL makes in `dir`.
pub(crate) fn socket_path(dir: &Path, port: u16) -> PathBuf {
    dir.join(format!(".s.PGSQL.{port}"))
}

impl Line {
    /// Runs `sql` (several statements are fine) and returns its rows as `psql -At` would print them: `|` between columns, a
    /// line a row, NULL empty, no line break at the end.
    pub(crate) fn ask(&self, sql: &str) -> Result<String, Error> {
        let unreachable = || Error::system(format!("connect to {}", self.socket.display()));
        let mut stream = UnixStream::connect(&self.socket).map_err(unreachable())?;
        stream.set_read_timeout(Some(self.patience)).map_err(unreachable())?;
        let startup = [cstring("user"), cstring(&self.user), cstring("database"), cstring(&self.database), vec![0]];
        send(&mut stream, None, &[&PROTOCOL.to_be_bytes()[..], &startup.concat()].concat())?;
        read_to_ready(&mut stream)?;
        send(&mut stream, Some(b'Q'), &cstring(sql))?;
        let rows = read_to_ready(&mut stream)?;
        // Terminate lets PostgreSQL end the session without a line in its log; if it is gone already, so much the better.
        let _ = send(&mut stream, Some(b'X'), &[]);
        Ok(rows.join("\n"))
    }
}

/// Reads up to ReadyForQuery; rows on the way are the result, the first error is the error.
//= pg18 protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY
fn read_to_ready(stream: &mut UnixStream) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    let mut refused = None;
    loop {
        let (tag, body) = match receive(stream) {
            Ok(message) => message,
            // After a FATAL the connection ends without ReadyForQuery.
            Err(error) => return Err(refused.unwrap_or(error)),
        };
        match tag {
            b'D' => rows.push(row(&body)),
            b'E' => refused = refused.or_else(|| Some(refusal(&body))),
            b'R' if body != [0; 4] => return Err(broken("PostgreSQL asks for a password on its own socket")),
            b'Z' => return refused.map_or(Ok(rows), Err),
            _ => {}
        }
    }
}

fn send(stream: &mut UnixStream, tag: Option<u8>, body: &[u8]) -> Result<(), Error> {
    let length = u32::try_from(body.len() + 4).map_err(|_| broken("the statement is too long"))?;
    let mut message: Vec<u8> = tag.into_iter().collect();
    message.extend(length.to_be_bytes());
    message.extend(body);
    stream.write_all(&message).map_err(Error::system("write to PostgreSQL"))
}

fn receive(stream: &mut UnixStream) -> Result<(u8, Vec<u8>), Error> {
    let mut header = [0; 5];
    stream.read_exact(&mut header).map_err(Error::system("read from PostgreSQL"))?;
    let [tag, length @ ..] = header;
    let length = u32::from_be_bytes(length);
    if !(4..LENGTH_MAX).contains(&length) {
        return Err(broken("PostgreSQL sent an impossible length"));
    }
    let mut body = Vec::new();
    let size = u64::from(length) - 4;
    let read = stream.take(size).read_to_end(&mut body).map_err(Error::system("read from PostgreSQL"))?;
    if read as u64 != size {
        return Err(broken("PostgreSQL closed the connection within a message"));
    }
    Ok((tag, body))
}

/// A DataRow's columns: a count, then for each a length (-1 is NULL) and its bytes.
fn row(body: &[u8]) -> String {
    let mut rest = body.get(2..).unwrap_or_default();
    let mut columns = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0).min(after.len());
        let (value, after) = after.split_at(length);
        columns.push(String::from_utf8_lossy(value).into_owned());
        rest = after;
    }
    columns.join("|")
}

/// An ErrorResponse's SQLSTATE (C) and message (M).
fn refusal(body: &[u8]) -> Error {
    let field = |code: u8| {
        let value = body.split(|&b| b == 0).find_map(|field| field.strip_prefix(&[code]));
        value.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    Error::Refused { sqlstate: field(b'C'), message: field(b'M') }
}

fn broken(why: &str) -> Error {
    Error::system("talk to PostgreSQL")(io::Error::new(io::ErrorKind::InvalidData, why))
}

fn cstring(text: &str) -> Vec<u8> {
    text.bytes().filter(|&b| b != 0).chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_columns_with_bars_and_null_is_empty() {
        let body = [&[0, 3][..], &[0, 0, 0, 1, b'a'], &[255, 255, 255, 255], &[0, 0, 0, 2, b'b', b'c']].concat();
        assert_eq!(row(&body), "a||bc");
        assert_eq!(row(&[]), "");
        assert_eq!(row(&[0, 1, 0, 0, 0, 9, b'x']), "x", "a length beyond the message is cut, not believed");
    }

    #[test]
    fn errors_keep_their_sqlstate_and_may_lack_fields() {
        let text = refusal(b"SFATAL\0C57P03\0Mthe database system is starting up\0\0").to_string();
        assert_eq!(text, "PostgreSQL says 57P03: the database system is starting up");
        assert_eq!(refusal(b"\0").to_string(), "PostgreSQL says : ");
    }
}
