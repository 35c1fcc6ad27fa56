//! The fake PostgreSQL, message by message.

use super::*;
use client::frontend::startup;

/// Tags of the answers, and the body of the last.
fn tags(bytes: &[u8]) -> String {
    let mut tags = String::new();
    let mut rest = Frames::default();
    rest.feed(bytes, |tag, body| {
        tags.push(tag as char);
        if tag == b'Z' {
            tags.push(body[0] as char);
        }
        Ok(())
    })
    .expect("well formed answers");
    tags
}

fn ready() -> FakeServer {
    let mut server = FakeServer::default();
    let mut out = Vec::new();
    server.receive(&startup(&[("user", "bench"), ("database", "bench")]), &mut out).expect("a startup packet");
    assert_eq!(tags(&out), format!("R{}KZI", "S".repeat(REPORTED.len())));
    server
}

fn ask(server: &mut FakeServer, messages: &[(u8, &[u8])]) -> (String, bool) {
    let mut bytes = Vec::new();
    for (tag, body) in messages {
        put(&mut bytes, *tag, &[body]);
    }
    let mut out = Vec::new();
    let flush = server.receive(&bytes, &mut out).expect("well formed questions");
    (tags(&out), flush)
}

#[test]
fn the_query_and_its_answer_have_the_sizes_that_the_record_names() {
    let mut server = ready();
    let mut query = Vec::new();
    put(&mut query, b'Q', &[Answer::Small.sql().as_bytes(), b"\0"]);
    assert_eq!(query.len(), 57);
    let mut out = Vec::new();
    assert_eq!(server.receive(&query, &mut out), Ok(true));
    assert_eq!((tags(&out).as_str(), out.len()), ("TDCZI", 66));
}

#[test]
fn large_answers_are_a_hundred_kilobytes() {
    for (answer, count) in [(Answer::Rows, 1000), (Answer::Value, 1)] {
        let mut server = ready();
        let mut query = Vec::new();
        put(&mut query, b'Q', &[answer.sql().as_bytes(), b"\0"]);
        let mut out = Vec::new();
        server.receive(&query, &mut out).expect("a query");
        assert_eq!(tags(&out), format!("T{}CZI", "D".repeat(count)));
        assert!((100_000..115_000).contains(&out.len()), "{}", out.len());
    }
}

#[test]
fn encryption_is_refused_and_the_startup_packet_may_follow_at_once() {
    let mut server = FakeServer::default();
    let mut bytes = [&8u32.to_be_bytes()[..], &80_877_103u32.to_be_bytes()].concat();
    bytes.extend(startup(&[("user", "bench")]));
    put(&mut bytes, b'Q', &[b"\0"]);
    let mut out = Vec::new();
    assert_eq!(server.receive(&bytes, &mut out), Ok(true));
    assert_eq!(out[0], b'N');
    assert!(tags(&out[1..]).ends_with("KZIIZI"), "{}", tags(&out[1..]));
}

#[test]
fn a_cancel_request_ends_the_connection() {
    let mut server = FakeServer::default();
    let cancel = [16u32, 80_877_102, 1, 2].map(u32::to_be_bytes).concat();
    assert!(server.receive(&cancel, &mut Vec::new()).is_ok());
    assert!(server.is_over());
}

#[test]
fn what_a_pooler_asks_for_itself_is_answered_as_by_an_empty_database() {
    let rows = |sql: &str| {
        let mut message = Vec::new();
        put(&mut message, b'Q', &[sql.as_bytes(), b"\0"]);
        let (mut out, mut rows) = (Vec::new(), Vec::new());
        ready().receive(&message, &mut out).expect("a query");
        let row = |tag, body: &[u8]| {
            if tag == b'D' {
                rows.push(body.to_vec());
            }
            Ok(())
        };
        Frames::default().feed(&out, row).expect("well formed answers");
        (tags(&out), rows)
    };
    let left = "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid = 2615), false, false, NULL, ''";
    let value = |value: &[u8]| [&(value.len() as u32).to_be_bytes(), value].concat();
    let none = [value(b"f"), value(b"f"), value(b"f"), vec![0xff; 4], value(b"")].concat();
    assert_eq!(rows(left), ("TDCZI".to_owned(), vec![[vec![0, 5], none].concat()]));
    assert_eq!(rows(include_str!("../../session_state/src/catalogue/query.sql")), ("TCZI".to_owned(), Vec::new()));
    let poll = [vec![0, 2], value(b"0"), vec![0xff; 4]].concat();
    assert_eq!(rows(include_str!("../../session_state/src/catalogue/poll.sql")), ("TDCZI".to_owned(), vec![poll]));
}

#[test]
fn a_comment_behind_a_statement_is_not_answered() {
    let mut server = ready();
    let tagged = format!("{} /*application:web*/\0", Answer::Small.sql());
    let (tags, _) = ask(&mut server, &[(b'Q', tagged.as_bytes())]);
    assert_eq!(tags, "TDCZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"/* nothing */\0")]).0, "IZI");
}

#[test]
fn status_follows_the_transaction() {
    let mut server = ready();
    assert_eq!(ask(&mut server, &[(b'Q', b"BEGIN\0")]).0, "CZT");
    assert_eq!(ask(&mut server, &[(b'Q', b"SELECT 1\0")]).0, "TDCZT");
    assert_eq!(ask(&mut server, &[(b'Q', b"COMMIT\0")]).0, "CZI");
    assert_eq!(ask(&mut server, &[(b'Q', b" ; \0")]).0, "IZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"BEGIN; SELECT 1; COMMIT\0")]).0, "CTDCCZI");
}

#[test]
fn a_parameter_is_reported_when_it_changes_only() {
    let mut server = ready();
    assert_eq!(ask(&mut server, &[(b'Q', b"SET application_name TO 'a';SET timezone = 'UTC'\0")]).0, "SCSCZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"SET application_name='a'\0")]).0, "CZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"SET SESSION work_mem TO '1MB'\0")]).0, "CZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"DISCARD ALL\0")]).0, "SCZI");
}

#[test]
fn the_extended_protocol_answers_at_sync_or_flush() {
    let mut server = ready();
    let bind: &[u8] = b"\0\0\0\0\0\0\0\0";
    let unnamed: &[(u8, &[u8])] =
        &[(b'P', b"\0SELECT 1\0\0\0"), (b'B', bind), (b'D', b"P\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")];
    assert_eq!(ask(&mut server, unnamed), ("12TDCZI".to_owned(), true));
    assert_eq!(ask(&mut server, &[(b'P', b"s1\0SELECT 1\0\0\0")]), ("1".to_owned(), false));
    assert_eq!(ask(&mut server, &[(b'D', b"Ss1\0"), (b'H', b"")]), ("tT".to_owned(), true));
    let named: &[(u8, &[u8])] = &[(b'B', b"\0s1\0\0\0\0\0\0\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")];
    assert_eq!(ask(&mut server, named).0, "2DCZI");
    assert_eq!(
        ask(&mut server, &[(b'P', b"\0\0\0\0"), (b'B', bind), (b'D', b"P\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")]).0,
        "12nIZI"
    );
}

#[test]
fn an_error_skips_to_sync() {
    let mut server = ready();
    let lost: &[(u8, &[u8])] = &[
        (b'B', b"\0gone\0\0\0\0\0\0\0"),
        (b'E', b"\0\0\0\0\0"),
        (b'Q', b"SELECT 1\0"),
        (b'S', b""),
        (b'Q', b"SELECT 1\0"),
    ];
    assert_eq!(ask(&mut server, lost).0, "EZITDCZI");
    assert_eq!(ask(&mut server, &[(b'P', b"a\0SELECT 1\0\0\0"), (b'P', b"a\0SELECT 1\0\0\0"), (b'S', b"")]).0, "1EZI");
    assert_eq!(ask(&mut server, &[(b'C', b"Sa\0"), (b'P', b"a\0SELECT 1\0\0\0"), (b'S', b"")]).0, "31ZI");
    assert_eq!(ask(&mut server, &[(b'Q', b"DISCARD ALL\0")]).0, "CZI");
    assert_eq!(ask(&mut server, &[(b'D', b"Sa\0"), (b'S', b"")]).0, "EZI");
}

#[test]
fn terminate_is_the_end() {
    let mut server = ready();
    ask(&mut server, &[(b'X', b"")]);
    assert!(server.is_over());
}

#[test]
fn garbage_is_an_error_and_no_panic() {
    assert!(FakeServer::default().receive(&[0xff; 64], &mut Vec::new()).is_err());
    assert!(ready().receive(b"?\0\0\0\x04", &mut Vec::new()).is_err());
    assert!(ready().receive(b"B\0\0\0\x04", &mut Vec::new()).is_err());
}

#[test]
fn a_standby_says_so_at_login_and_when_it_is_asked_and_after_a_reset() {
    for (mut server, role) in [(FakeServer::default(), b'f'), (FakeServer::standby(), b't')] {
        let mut out = Vec::new();
        server.receive(&startup(&[("user", "bench"), ("database", "bench")]), &mut out).expect("a startup packet");
        let says = |value: &str| {
            let wanted = format!("in_hot_standby\0{value}\0");
            out.windows(wanted.len()).any(|bytes| bytes == wanted.as_bytes())
        };
        assert_eq!((says("on"), says("off")), (role == b't', role == b'f'));
        assert_eq!(ask(&mut server, &[(b'Q', b"DISCARD ALL\0")]).0, "CZI");
        let mut query = Vec::new();
        put(&mut query, b'Q', &[b"SELECT r, (SELECT system_identifier FROM \xe2\x80\xa6\0"]);
        let mut out = Vec::new();
        server.receive(&query, &mut out).expect("a query");
        assert_eq!(tags(&out), "TDCZI");
        let mut rest = Frames::default();
        rest.feed(&out, |tag, body| {
            // Five columns, and the first one's byte.
            assert!(tag != b'D' || body[..7] == [0, 5, 0, 0, 0, 1, role], "{body:?}");
            Ok(())
        })
        .expect("well formed answers");
    }
}
