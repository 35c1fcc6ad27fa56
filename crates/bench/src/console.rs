//! A question to a pooler's admin console, outside every timed slice.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::frames::{Frames, put, startup, text};
use crate::setup::USER;

/// The answer to a SHOW command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// The sum of a column of whole numbers; `None` if there is no such column.
    pub fn sum(&self, column: &str) -> Option<u64> {
        let index = self.columns.iter().position(|name| name == column)?;
        let number = |row: &Vec<Option<String>>| row.get(index)?.as_deref()?.parse::<u64>().ok();
        Some(self.rows.iter().filter_map(number).sum())
    }
}

/// Asks the console at a port, as the load's user, trusted. Errors: whatever is not a table.
pub fn ask(port: u16, command: &str) -> Result<Table, String> {
    let words = |error: std::io::Error| format!("console: {error}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(words)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(words)?;
    let mut question = startup(&[("user", USER), ("database", "pgbouncer")]);
    put(&mut question, b'Q', &[command.as_bytes(), b"\0"].concat());
    stream.write_all(&question).map_err(words)?;
    let mut frames = Frames::default();
    let mut table = Table::default();
    let mut ready = 0;
    let mut buffer = [0; 8192];
    while ready < 2 {
        let count = stream.read(&mut buffer).map_err(words)?;
        if count == 0 {
            return Err("console: the connection was closed".to_owned());
        }
        frames.feed(&buffer[..count], |tag, body| {
            match tag {
                b'T' => table.columns = columns(body)?,
                b'D' => table.rows.push(row(body)?),
                b'E' => return Err(format!("console: {}", body.escape_ascii())),
                b'Z' => ready += 1,
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok(table)
}

//= pg18 protocol-message-formats#RowDescription
fn columns(body: &[u8]) -> Result<Vec<String>, String> {
    let mut rest = body.get(2..).ok_or("a short RowDescription")?;
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (name, after) = text(rest)?;
        names.push(name.to_owned());
        rest = after.get(18..).ok_or("a short RowDescription")?;
    }
    Ok(names)
}

//= pg18 protocol-message-formats#DataRow
fn row(body: &[u8]) -> Result<Vec<Option<String>>, String> {
    let mut rest = body.get(2..).ok_or("a short DataRow")?;
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            rest = after;
            continue;
        };
        let value = after.get(..length).ok_or("a short DataRow")?;
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = &after[length..];
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_summed() {
        let column = |name: &str| [name.as_bytes(), b"\0", &[0; 18]].concat();
        let described = [&b"\0\x02"[..], &column("database"), &column("lends")].concat();
        let value = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let first = [&b"\0\x02"[..], &value("a"), &value("3")].concat();
        let second = [&b"\0\x02"[..], &[0xff; 4], &value("4")].concat();
        let columns = columns(&described).expect("well formed");
        let rows = vec![row(&first).expect("well formed"), row(&second).expect("well formed")];
        assert_eq!(rows[1], vec![None, Some("4".to_owned())]);
        let table = Table { columns, rows };
        assert_eq!(table.sum("lends"), Some(7));
        assert_eq!(table.sum("loans"), None);
        assert!(row(b"\0\x01\0\0\0\x09x").is_err());
    }
}
