//! How the clients of a scenario ask, and what of the fake PostgreSQL's answers they ask for.

use client::put;
use measure::login::Account;
use measure::work::{First, Question, Shape, Work, query};

use crate::fake::Answer;

/// User, database and password of the load.
pub const USER: &str = "bench";
pub const PASSWORD: &str = "a password of the load";

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One Query message.
    Simple,
    /// Parse, Bind, Describe, Execute, Sync with the unnamed statement: what libpq sends for a query with parameters.
    Extended,
    /// Bind, Describe, Execute, Sync with a statement that was prepared under a name at login.
    Prepared,
    /// One Query message with tags in a comment, as frameworks write them.
    Tagged,
    /// One Query message with a literal and a comment that no other has.
    Unique,
    /// As `Simple`, after two settings that are the same for all clients.
    SameSettings,
    /// As `Simple`, after two settings with values that no other client has.
    OwnSettings,
}

/// What a tagged text is tagged with: the rules of [`crate::setup`] look for them.
pub const TAGS: &str = "application:web,controller:orders,action:index";

/// The clients of one user, who ask for this answer in this style.
pub fn work(user: &str, password: &str, database: &str, style: Style, answer: Answer) -> Work {
    let sql = answer.sql();
    let (rows, row_bytes) = answer.shape();
    let shape = Shape { rows, row_bytes };
    let (mut request, mut first) = (Vec::new(), First::Nothing);
    match style {
        Style::Simple => query(&mut request, sql),
        Style::SameSettings => {
            let mut settings = Vec::new();
            own_settings(0).iter().for_each(|sql| query(&mut settings, sql));
            first = First::Bytes(settings, 2);
            query(&mut request, sql);
        }
        Style::OwnSettings => {
            first = First::Numbered(own_settings);
            query(&mut request, sql);
        }
        Style::Tagged => query(&mut request, &format!("{sql} /*{TAGS}*/")),
        // Each is written when it is asked.
        Style::Unique => {}
        Style::Extended => {
            put(&mut request, b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"]);
            bind_and_execute(&mut request, "");
        }
        Style::Prepared => {
            let mut parse = Vec::new();
            put(&mut parse, b'P', &[b"P0_1\0", sql.as_bytes(), b"\0\0\0"]);
            put(&mut parse, b'S', &[]);
            first = First::Bytes(parse, 1);
            bind_and_execute(&mut request, "P0_1");
        }
    }
    let question =
        if style == Style::Unique { Question::Numbered(unique, shape) } else { Question::Bytes(request, shape) };
    Work::new(Account::new(user, Some(password), database, "bench"), first, question)
}

/// One text, asked by clients who call themselves so, with one row of so many bytes for an answer.
pub fn asking(application: &str, database: &str, sql: &str, row_bytes: usize) -> Work {
    let mut request = Vec::new();
    query(&mut request, sql);
    let account = Account::new(USER, None, database, application);
    Work::new(account, First::Nothing, Question::Bytes(request, Shape { rows: 1, row_bytes }))
}

fn own_settings(number: u64) -> Vec<String> {
    let value = 1000 + number;
    vec![format!("SET work_mem = '{value}kB'"), format!("SET statement_timeout = '{value}s'")]
}

/// Of one length, so that a transaction costs what the others cost.
fn unique(number: u64) -> String {
    format!("select 'x{number:010}' /* {number:010} */")
}

/// Bind, Describe, Execute and Sync for a statement, with the unnamed portal and no parameters.
fn bind_and_execute(out: &mut Vec<u8>, statement: &str) {
    put(out, b'B', &[b"\0", statement.as_bytes(), b"\0\0\0\0\0\0\0"]);
    put(out, b'D', &[b"P\0"]);
    put(out, b'E', &[b"\0\0\0\0\0"]);
    put(out, b'S', &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeServer;
    use measure::client::{Client, Progress};
    use std::sync::Arc;

    /// A client and the fake server, wired together without sockets.
    fn talk(style: Style, answer: Answer) -> Result<Vec<Progress>, String> {
        let work = Arc::new(work("bench", "", "bench", style, answer));
        let (mut up, mut down, mut server) = (Vec::new(), Vec::new(), FakeServer::default());
        let mut client = Client::start(&work, &mut up);
        let mut seen = Vec::new();
        for _ in 0..6 {
            server.receive(&std::mem::take(&mut up), &mut down)?;
            let progress = client.receive(&std::mem::take(&mut down), &mut up)?;
            seen.push(progress);
            if client.is_idle() && progress != Progress::More {
                client.ask(&mut up)?;
            }
        }
        Ok(seen)
    }

    #[test]
    fn every_style_is_served() {
        for answer in [Answer::Small, Answer::Rows, Answer::Value] {
            for style in [Style::Simple, Style::Extended, Style::Prepared, Style::SameSettings] {
                let seen = talk(style, answer).expect("served");
                let answered = seen.iter().filter(|one| **one == Progress::Answered).count();
                let expected = if matches!(style, Style::Prepared | Style::SameSettings) { 4 } else { 5 };
                assert_eq!(answered, expected, "{style:?} {answer:?}: {seen:?}");
            }
        }
    }

    /// What two clients of one load have sent when they have logged in and asked.
    fn two(style: Style) -> [Vec<u8>; 2] {
        let work = Arc::new(work("bench", "", "bench", style, Answer::Small));
        [(); 2].map(|()| {
            let (mut sent, mut out) = (Vec::new(), Vec::new());
            let mut client = Client::start(&work, &mut out);
            out.clear();
            client.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &mut out).expect("logged in");
            sent.append(&mut out);
            if !client.is_idle() {
                client.receive(b"Z\0\0\0\x05IZ\0\0\0\x05I", &mut out).expect("prepared");
            }
            client.ask(&mut out).expect("no TLS");
            sent.append(&mut out);
            sent
        })
    }

    #[test]
    fn texts_and_settings_differ_where_they_are_to() {
        for style in [Style::Simple, Style::SameSettings] {
            let [one, other] = two(style);
            assert_eq!(one, other, "{style:?}");
        }
        for style in [Style::OwnSettings, Style::Unique] {
            let [one, other] = two(style);
            assert_ne!(one, other, "{style:?}");
            assert_eq!(one.len(), other.len(), "{style:?}");
        }
        assert_eq!(&two(Style::Unique)[1][5..], b"select 'x0000000001' /* 0000000001 */\0");
    }
}
