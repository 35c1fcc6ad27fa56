//! What a session sets and prepares is its own, with another server for every transaction: with a real PostgreSQL.

use outer::{Answer, Client, Stage, Wishes};

fn stage() -> Stage {
    let settings = [("min_pool_size", "2"), ("chaos_rotate", "1")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { pool: 2, workers: 1, settings, ..Wishes::default() });
    // The pool is full, and its names are read.
    outer::eventually("two servers", || stage.backends() >= 2);
    stage.assert_healthy();
    stage
}

fn run(client: &mut Client, sql: &str) -> Answer {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer
}

/// The value of a setting, `''` and NULL alike.
fn setting(client: &mut Client, name: &str) -> String {
    run(client, &format!("select current_setting('{name}', true)")).value().unwrap_or_default().to_owned()
}

/// A statement of one name in two sessions, and a setting that one of them makes by executing it.
#[test]
fn a_prepare_whose_text_calls_set_config_is_its_sessions_own() {
    let stage = stage();
    let (mut one, mut other) = (stage.client(), stage.client());
    for round in 0..8 {
        run(&mut one, "prepare p as select set_config('app.x', $1, false), 'one'");
        // Where its PREPARE lies, or elsewhere.
        if round % 2 == 0 {
            run(&mut one, "select 1");
        }
        run(&mut other, "prepare p as with c as (select set_config('app.y', 'y', false)) select 'other' from c");
        assert_eq!(setting(&mut one, "app.x"), if round == 0 { "" } else { "x" });
        assert_eq!(run(&mut one, "execute p('x')").rows[0][1].as_deref(), Some("one"));
        assert_eq!(run(&mut other, "execute p").value(), Some("other"));
        for _ in 0..4 {
            assert_eq!((setting(&mut one, "app.x"), setting(&mut one, "app.y")), ("x".to_owned(), String::new()));
            assert_eq!((setting(&mut other, "app.x"), setting(&mut other, "app.y")), (String::new(), "y".to_owned()));
        }
        for client in [&mut one, &mut other] {
            run(client, "deallocate p");
        }
    }
}

/// One statement that does two things, by every way that SQL has to execute one.
#[test]
fn an_execute_and_a_call_of_set_config_in_one_statement_both_count() {
    let stage = stage();
    let (mut one, mut other) = (stage.client(), stage.client());
    run(&mut one, "prepare p (text) as select $1");
    run(&mut one, "prepare set_config as select 7");
    let texts = [
        "execute p(set_config('app.x', '@', false))",
        "explain analyze execute p(set_config('app.x', '@', false))",
        "begin; create temp table t on commit drop as execute p(set_config('app.x', '@', false)); commit",
        "do $$ begin perform set_config('app.x', '@', false); end $$; execute p('y')",
        "execute set_config; select set_config('app.x', '@', false)",
        "set app.z = set_config; select set_config('app.x', '@', false)",
        "with c as (select set_config('app.x', '@', false)) select * from c",
    ];
    for (number, text) in texts.iter().enumerate() {
        let value = format!("v{number}");
        for _ in 0..3 {
            run(&mut one, &text.replace('@', &value));
            assert_eq!(setting(&mut one, "app.x"), value, "{text}");
            assert_eq!(setting(&mut other, "app.x"), "", "{text}");
            assert_eq!(setting(&mut one, "app.x"), value, "{text}");
            assert_eq!(setting(&mut other, "app.x"), "", "{text}");
        }
    }
    assert_eq!(setting(&mut one, "app.z"), "set_config");
    assert_eq!(setting(&mut other, "app.z"), "");
}

/// What has just been defined, in whichever order, is known to the pool before the next statement.
#[test]
fn what_calls_a_new_function_is_known_at_once() {
    let stage = stage();
    let (mut one, mut other) = (stage.client(), stage.client());
    run(&mut one, "create table t (a int); create table u (a int); select 1");
    let a1 = |value: &str| {
        format!(
            "create or replace function a1(a int) returns int language plpgsql as \
             $$begin perform set_config('app.x', '{value}', false); return 1; end$$"
        )
    };
    run(&mut one, "create function late() returns int language plpgsql as $$begin return b1(1); end$$");
    run(&mut one, &a1("first"));
    run(&mut one, "create function b1(a int) returns int language sql as 'select a1(a)'");
    run(&mut one, "create function s2() returns int language sql as 'select a1(1)'");
    run(&mut one, "create view v as select s2()");
    run(&mut one, "create view w as select * from v");
    run(&mut one, "create domain d as int check (a1(value) = 1)");
    run(&mut one, "create table defaults (a int default a1(1), b int)");
    run(&mut one, "create operator === (function = a1, rightarg = int)");
    run(&mut one, "create type pair as (a int, b int)");
    run(&mut one, "create function of_pair(pair) returns int language sql as 'select a1(1)'");
    run(&mut one, "create cast (pair as int) with function of_pair(pair)");
    run(&mut one, "create policy p on u using (a1(a) = 1)");
    run(&mut one, "create rule r as on insert to t do also select a1(1)");
    let texts = [
        "select late()",
        "select b1(1)",
        "select s2()",
        "select * from v",
        "select * from w",
        "select 1::d",
        "insert into defaults (b) values (1)",
        "select === 2",
        "select row(1, 2)::pair::int",
        "insert into t values (1)",
    ];
    for text in texts {
        run(&mut one, text);
        assert_eq!(setting(&mut other, "app.x"), "", "{text}");
        assert_eq!(setting(&mut one, "app.x"), "first", "{text}");
        assert_eq!(setting(&mut other, "app.x"), "", "{text}");
        run(&mut one, "reset app.x");
        assert_eq!(setting(&mut one, "app.x"), "", "{text}");
    }
}
