//! LISTEN and NOTIFY through the pooler in transaction mode: who listens keeps no server, and hears what a direct connection
//! would hear, when it would.

use outer::{Client, Stage, Wishes, eventually};

fn stage() -> Stage {
    let settings = [("min_pool_size", "3"), ("chaos_rotate", "1")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    Stage::set(&Wishes { pool: 4, workers: 1, settings, ..Wishes::default() })
}

#[derive(Debug, PartialEq, Eq)]
struct Said {
    pid: u32,
    channel: String,
    payload: String,
}

/// The next message, which must be a NotificationResponse.
fn hear(client: &mut Client) -> Said {
    let message = client.receive().expect("something is said");
    assert_eq!(message.tag, b'A', "{message:?}");
    said(&message.body)
}

fn said(body: &[u8]) -> Said {
    let (pid, rest) = body.split_at(4);
    let mut texts = rest.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    Said {
        pid: u32::from_be_bytes(pid.try_into().expect("four bytes")),
        channel: texts.next().expect("a channel"),
        payload: texts.next().expect("a payload"),
    }
}

/// A query, and what was said before its ReadyForQuery.
fn ask(client: &mut Client, sql: &str) -> Vec<Said> {
    client.send(&outer::frontend::query(sql)).expect("it can be sent");
    let mut heard = Vec::new();
    loop {
        let message = client.receive().expect("an answer comes");
        match message.tag {
            b'A' => heard.push(said(&message.body)),
            b'E' => panic!("{sql}: {}", message.field(b'M')),
            b'Z' => return heard,
            _ => {}
        }
    }
}

fn is_silent(client: &mut Client) {
    // Whatever was on its way comes before the answer.
    assert_eq!(ask(client, "select 1"), [], "nothing was said to it");
}

/// Somebody who does not come through the pooler.
fn past(stage: &Stage, sql: &str) {
    drop(stage.direct(sql));
}

fn pid(client: &Client) -> u32 {
    client.cancel_key().0
}

#[test]
fn who_listens_keeps_no_server_and_hears_the_pid_that_was_told() {
    let mut stage = stage();
    let mut clients: Vec<Client> = (0..20).map(|_| stage.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        ask(client, &format!("listen everybody; listen \"Own {number}\""));
    }
    eventually("20 sessions listen on 4 backends", || stage.backends() <= 4);
    let mut teller = stage.client();
    ask(&mut teller, "notify everybody, 'a'");
    ask(&mut teller, "select pg_notify('Own 7', 'b')");
    for (number, client) in clients.iter_mut().enumerate() {
        let expected = Said { pid: pid(&teller), channel: "everybody".to_owned(), payload: "a".to_owned() };
        assert_eq!(hear(client), expected);
        if number == 7 {
            assert_eq!(hear(client).payload, "b");
        }
        is_silent(client);
    }
    // It has a pid of PostgreSQL's.
    past(&stage, "notify everybody, 'c'");
    for client in &mut clients {
        let heard = hear(client);
        assert_eq!((heard.payload.as_str(), heard.pid < 1 << 22), ("c", true));
    }
    ask(&mut clients[0], "unlisten everybody");
    ask(&mut clients[1], "unlisten *");
    ask(&mut clients[2], "discard all");
    ask(&mut teller, "notify everybody, 'd'");
    // One server listens for all sessions: once one session has the notification, it has been sent to all.
    assert_eq!(hear(&mut clients[3]).payload, "d");
    clients[..3].iter_mut().for_each(is_silent);
    stage.assert_healthy();
}

#[test]
fn what_one_says_to_oneself_is_heard_before_the_end_of_the_transaction_is_told() {
    let mut stage = stage();
    let mut client = stage.client();
    ask(&mut client, "listen own");
    for number in 0..50 {
        let heard = ask(&mut client, &format!("notify own, '{number}'"));
        let expected = Said { pid: pid(&client), channel: "own".to_owned(), payload: number.to_string() };
        assert_eq!(heard, [expected]);
    }
    assert_eq!(ask(&mut client, "begin"), []);
    assert_eq!(ask(&mut client, "select pg_notify('own', 'in a transaction')"), []);
    assert_eq!(ask(&mut client, "listen other; notify other"), []);
    let heard = ask(&mut client, "commit");
    assert_eq!(heard.iter().map(|said| &*said.channel).collect::<Vec<_>>(), ["own", "other"]);
    assert_eq!(ask(&mut client, "begin; notify own; rollback"), []);
    let extended = client.extended("", "notify own, 'extended'", &[]).expect("an answer comes");
    assert_eq!(extended.tags, ["NOTIFY"]);
    is_silent(&mut client);
    stage.assert_healthy();
}

/// A trigger, a function and a DO block say it, and so does a statement of another client beside them.
#[test]
fn what_something_inside_a_statement_says_comes_from_its_client() {
    let mut stage = stage();
    let (mut hearer, mut teller, mut other) = (stage.client(), stage.client(), stage.client());
    // By the pooler, which knows at once what they do; what is defined past it, it knows a second later.
    for definition in [
        "create table jobs (id int)",
        "create function tell() returns trigger language plpgsql as \
         'begin perform pg_notify(''own'', new.id::text); return new; end'",
        "create trigger tells after insert on jobs for each row execute function tell()",
        "create function says(text) returns void language sql as 'select pg_notify(''own'', $1)'",
    ] {
        ask(&mut other, definition);
    }
    ask(&mut hearer, "listen own");
    let statements = [
        ("insert into jobs values (1)", "1"),
        ("select says('2')", "2"),
        ("do $$begin perform pg_notify('own', '3'); end$$", "3"),
        ("do $$begin notify own, '4'; end$$", "4"),
        ("with w as (insert into jobs values (5) returning *) select * from w", "5"),
    ];
    for (statement, payload) in statements {
        let expected = |pid: u32| Said { pid, channel: "own".to_owned(), payload: payload.to_owned() };
        // Another client has the teller's server right after it.
        ask(&mut teller, statement);
        ask(&mut other, "select 1");
        assert_eq!(hear(&mut hearer), expected(pid(&teller)), "{statement}");
        assert_eq!(ask(&mut hearer, statement), [expected(pid(&hearer))], "before its ReadyForQuery: {statement}");
    }
    let told = teller.extended("inserts", "insert into jobs values ($1::int)", &["6"]).expect("an answer comes");
    assert_eq!(told.tags, ["INSERT 0 1"]);
    assert_eq!(hear(&mut hearer).pid, pid(&teller), "by a prepared statement");
    is_silent(&mut hearer);
    stage.assert_healthy();
}

/// A rule, a view, EXECUTE and COPY run NOTIFY.
#[test]
fn a_notification_by_a_rule_a_view_execute_or_copy_is_its_clients() {
    let mut stage = stage();
    let (mut hearer, mut teller, mut other) = (stage.client(), stage.client(), stage.client());
    for definition in [
        "create table ruled (id int)",
        "create rule r as on insert to ruled do also notify own, 'x'",
        "create view telling as select pg_notify('own', 'x')::text",
        "create table jobs (id int)",
        "create function tell() returns trigger language plpgsql as \
         'begin perform pg_notify(''own'', ''x''); return new; end'",
        "create trigger tells after insert on jobs for each row execute function tell()",
    ] {
        ask(&mut other, definition);
    }
    for client in [&mut hearer, &mut teller] {
        ask(client, "prepare says as select pg_notify('own', 'x')");
        ask(client, "prepare fills as insert into jobs values (1)");
        client.extended("inserts", "insert into jobs values (1)", &[]).expect("an answer comes");
    }
    ask(&mut hearer, "listen own");
    let statements = [
        "insert into ruled values (1)",
        "select * from telling",
        "execute says",
        "execute fills",
        "execute inserts",
        "begin; execute says; commit",
        "explain analyze execute fills",
    ];
    for statement in statements {
        let expected = |pid: u32| Said { pid, channel: "own".to_owned(), payload: "x".to_owned() };
        ask(&mut teller, statement);
        ask(&mut other, "select 1");
        assert_eq!(hear(&mut hearer), expected(pid(&teller)), "{statement}");
        assert_eq!(ask(&mut hearer, statement), [expected(pid(&hearer))], "before its ReadyForQuery: {statement}");
    }
    hearer.send(&outer::frontend::query("copy jobs from stdin")).expect("it can be sent");
    while hearer.receive().expect("an answer comes").tag != b'G' {}
    hearer.send(b"d\0\0\0\x061\nc\0\0\0\x04").expect("it can be sent");
    let mut tags = Vec::new();
    while tags.last() != Some(&b'Z') {
        let message = hearer.receive().expect("an answer comes");
        assert!(message.tag != b'A' || said(&message.body).pid == pid(&hearer));
        tags.push(message.tag);
    }
    assert_eq!(tags, *b"CAZ");
    is_silent(&mut hearer);
    stage.assert_healthy();
}

/// Where a name is cut depends on the server's encoding, and UESCAPE names any character as the one that escapes: who listens to such a name
/// keeps its server.
#[test]
fn a_name_that_is_not_read_is_heard_by_one_that_keeps_its_server() {
    let mut stage = stage();
    let (mut hearer, mut teller) = (stage.client(), stage.client());
    let long = format!("x{}", "é".repeat(40));
    for name in [long.as_str(), "U&\"d!0061ta\" UESCAPE '!'"] {
        ask(&mut hearer, &format!("listen {name}"));
        for number in 0..3 {
            ask(&mut teller, &format!("notify {name}, '{number}'"));
            let heard = hear(&mut hearer);
            assert_eq!((heard.payload, heard.pid), (number.to_string(), pid(&teller)), "{name}");
            ask(&mut hearer, "select 1");
        }
        let own = ask(&mut hearer, &format!("notify {name}, 'own'"));
        assert_eq!(own.iter().map(|said| said.pid).collect::<Vec<_>>(), [pid(&hearer)], "{name}");
        ask(&mut hearer, "unlisten *");
        ask(&mut teller, &format!("notify {name}, 'not heard'"));
        is_silent(&mut hearer);
    }
    stage.assert_healthy();
}

/// PostgreSQL cuts names after 63 bytes.
#[test]
fn a_name_in_whatever_way_it_is_written_is_heard() {
    let mut stage = stage();
    let (mut hearer, mut teller) = (stage.client(), stage.client());
    let long = "n".repeat(70);
    let names = [long.as_str(), "U&\"d\\0061ta\"", "u&\"\\0441\\043B\\043E\\043D\"", "\"Two \"\" words\""];
    for name in names {
        ask(&mut hearer, &format!("listen {name}"));
        ask(&mut teller, &format!("notify {name}, 'well'"));
        assert_eq!(hear(&mut hearer).payload, "well", "{name}");
        ask(&mut hearer, &format!("unlisten {name}"));
        ask(&mut teller, &format!("notify {name}, 'not heard'"));
        is_silent(&mut hearer);
    }
    let pins = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("trusted").query("show pins");
    assert_eq!(pins.expect("answered").rows.len(), 0, "nobody keeps a server");
    stage.assert_healthy();
}

#[test]
fn a_listen_holds_from_its_commit_on() {
    let mut stage = stage();
    let (mut hearer, mut teller, mut witness) = (stage.client(), stage.client(), stage.client());
    ask(&mut hearer, "begin");
    ask(&mut hearer, "listen jobs");
    ask(&mut teller, "notify jobs, 'too early'");
    ask(&mut witness, "listen jobs");
    assert_eq!(ask(&mut hearer, "commit"), []);
    is_silent(&mut hearer);
    ask(&mut hearer, "begin; listen never; rollback");
    ask(&mut hearer, "begin; savepoint a; listen never; rollback to a; commit");
    ask(&mut hearer, "begin");
    ask(&mut teller, "notify never");
    ask(&mut teller, "notify jobs, 'meanwhile'");
    // One connection hears for both, so it has been said to the hearer, too; who is told between its transactions.
    assert_eq!(hear(&mut witness).payload, "meanwhile");
    assert_eq!(ask(&mut hearer, "select 1"), []);
    let heard = ask(&mut hearer, "commit");
    assert_eq!(heard.iter().map(|said| &*said.payload).collect::<Vec<_>>(), ["meanwhile"]);
    stage.assert_healthy();
}

/// Who asks listens in the very transaction in which it asks; the answer may come before its COMMIT's.
#[test]
fn an_answer_to_what_the_same_transaction_asked_is_not_missed() {
    let mut stage = stage();
    let (mut asker, mut replier) = (stage.client(), stage.client());
    ask(&mut replier, "listen requests");
    let replies = std::thread::spawn(move || {
        // The next request may come before the NOTIFY is answered: whoever asks hears the reply while that is on its way.
        let mut early = Vec::new();
        for number in 0..200 {
            let request = early.pop().unwrap_or_else(|| hear(&mut replier));
            assert_eq!(request.payload, number.to_string());
            early = ask(&mut replier, &format!("notify reply_{number}"));
            assert!(early.len() <= 1, "{early:?}");
        }
    });
    for number in 0..200 {
        ask(&mut asker, "begin");
        ask(&mut asker, &format!("listen reply_{number}"));
        ask(&mut asker, &format!("notify requests, '{number}'"));
        let early = ask(&mut asker, "commit");
        let reply = early.into_iter().next().unwrap_or_else(|| hear(&mut asker));
        assert_eq!(reply.channel, format!("reply_{number}"));
        ask(&mut asker, "unlisten *");
    }
    replies.join().expect("every request was heard");
    stage.assert_healthy();
}

#[test]
fn who_listened_is_told_when_nobody_does_any_more() {
    let mut stage = stage();
    let (mut hearer, mut other) = (stage.client(), stage.client());
    ask(&mut hearer, "listen jobs");
    past(
        &stage,
        "select pg_terminate_backend(pid) from pg_stat_activity where query like 'LISTEN %' and pid <> pg_backend_pid()",
    );
    let told = hearer.last_words().expect("it is told why");
    assert_eq!((told.severity.as_str(), told.sqlstate.as_str()), ("FATAL", "57P01"), "{told:?}");
    is_silent(&mut other);
    ask(&mut other, "listen jobs");
    past(&stage, "notify jobs, 'again'");
    assert_eq!(hear(&mut other).payload, "again");
    stage.assert_healthy();
}

#[test]
fn one_sees_what_one_listens_to() {
    let mut stage = stage();
    let (mut hearer, mut other) = (stage.client(), stage.client());
    ask(&mut hearer, "listen a; listen \"B c\"");
    for _ in 0..4 {
        let shown = hearer.query("select pg_listening_channels() order by 1").expect("an answer comes");
        assert_eq!(shown.rows.concat(), [Some("B c".to_owned()), Some("a".to_owned())]);
        let shown = hearer.extended("", "select pg_listening_channels() order by 1", &[]).expect("an answer comes");
        assert_eq!(shown.rows.len(), 2, "{shown:?}");
        assert_eq!(other.query("select pg_listening_channels()").expect("an answer comes").rows.len(), 0);
    }
    stage.assert_healthy();
}
