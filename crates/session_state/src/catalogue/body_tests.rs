//! What bodies tell, as a table.

use super::*;

/// On the session.
fn side_effects(source: &str) -> SideEffects {
    Body::read(source.as_bytes()).side_effects.without(SideEffects::WRITES | SideEffects::NOTIFIES)
}

#[track_caller]
fn check(rows: &[(&str, SideEffects)]) {
    for (source, expected) in rows {
        assert_eq!(side_effects(source), *expected, "{source}");
    }
}

#[test]
fn bodies_that_hide_nothing() {
    let sources = [
        "",
        "begin return 1; end",
        "select 1",
        "begin set local work_mem = '1MB'; return 1; end",
        "begin set transaction isolation level serializable; end",
        "begin set constraints all deferred; end",
        "begin perform set_config('app.user', 'x', true); end",
        "begin update t set x = 1; insert into t values (1) on conflict do update set x = 2; end",
        "begin perform pg_advisory_xact_lock(1); end",
        "begin grant execute on function f() to u; end",
        "declare execute_count int; begin notify x; end",
        "begin for i in 1..10 loop raise notice 'set x = %; listen y', i; end loop; end",
        "begin prepare transaction 'x'; end",
        "<<outer>> begin if a >> b then null; end if; end",
        "begin open c for select 1; fetch c into x; close c; end",
        "begin load_all(); discarded := 1; end",
        "begin -- set x = 1;\n /* listen y; */ end",
    ];
    for source in sources {
        assert_eq!(side_effects(source), SideEffects::NONE, "{source}");
    }
}

#[test]
fn statements_that_change_the_session() {
    check(&[
        ("begin set work_mem = '1MB'; end", SideEffects::SETTINGS),
        ("BEGIN IF a THEN SET SESSION work_mem TO 1; END IF; END", SideEffects::SETTINGS),
        ("begin reset all; end", SideEffects::SETTINGS | SideEffects::RESETS),
        ("begin set app.x to default; end", SideEffects::SETTINGS | SideEffects::RESETS),
        ("begin set work_mem = default; reset work_mem; end", SideEffects::SETTINGS),
        ("begin reset app.x; end", SideEffects::SETTINGS | SideEffects::RESETS),
        ("begin perform set_config('app.x', null, true); end", SideEffects::NONE),
        ("begin perform set_config('app.x', null, false); end", SideEffects::SETTINGS | SideEffects::RESETS),
        ("begin set role x; end", SideEffects::SETTINGS),
        ("begin loop set session authorization x; end loop; end", SideEffects::SETTINGS),
        ("begin set time zone 'UTC'; end", SideEffects::SETTINGS),
        ("<<l>> set x to 1", SideEffects::SETTINGS),
        ("begin perform set_config('work_mem', '1MB', false); end", SideEffects::SETTINGS),
        ("begin perform set_config(n, '1MB', false); end", SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS),
        ("begin perform set_config('work_mem', v, local); end", SideEffects::SETTINGS),
        ("begin create temp table x(); end", SideEffects::TEMPORARY),
        ("begin create or replace local temporary view x as select 1; end", SideEffects::TEMPORARY),
        ("begin create table pg_temp.x(); end", SideEffects::TEMPORARY),
        ("begin perform pg_try_advisory_lock(1); end", SideEffects::ADVISORY),
        ("begin listen x; end", SideEffects::LISTEN),
        ("begin unlisten *; end", SideEffects::LISTEN),
        ("begin load 'x'; end", SideEffects::LOAD),
        ("begin prepare p as select 1; end", SideEffects::PREPARED),
        ("begin deallocate all; end", SideEffects::PREPARED),
        ("declare c cursor with hold for select 1", SideEffects::HOLD),
        ("select nextval('s')", SideEffects::SEQUENCE),
        ("select currval('s')", SideEffects::CURRVAL),
        ("select setseed(0.5)", SideEffects::SEED),
        ("begin perform dblink_connect('x'); end", SideEffects::DBLINK),
        ("select pg_backend_pid()", SideEffects::BACKEND_PID),
        ("select * from pg_prepared_statements", SideEffects::STATE_READ),
    ]);
}

#[test]
fn texts_that_bodies_run() {
    let dynamic = SideEffects::DYNAMIC;
    check(&[
        ("begin execute 'select 1'; end", SideEffects::NONE),
        ("begin execute 'select $1' into x using y; end", SideEffects::NONE),
        ("begin for r in execute 'select 1' loop null; end loop; end", SideEffects::NONE),
        ("begin execute 'set work_mem = 1'; end", SideEffects::SETTINGS),
        ("begin execute $x$create temp table t()$x$; end", SideEffects::TEMPORARY),
        ("begin execute 'do $$ begin listen x; end $$'; end", SideEffects::LISTEN),
        ("do $$ begin listen x; end $$", SideEffects::LISTEN),
        ("do $$ begin listen x; end $$ language plpgsql", SideEffects::LISTEN),
        ("do language 'plpgsql' $$ begin listen x; end $$", SideEffects::LISTEN),
        ("do language plpython3u $$ plpy.notice(x) $$", SideEffects::UNKNOWN),
        ("do $$ plpy.notice(x) $$ language plpython3u", SideEffects::UNKNOWN),
        ("begin execute statement; end", dynamic),
        ("begin execute 'execute p'; end", dynamic | SideEffects::STATE_READ),
        ("begin execute 'execute ' || p; end", dynamic),
        ("begin return query execute format('select %I', x); end", dynamic),
        ("begin execute 'create temp table ' || name; end", dynamic | SideEffects::TEMPORARY),
        ("begin execute 'set ' || x; end", dynamic | SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS),
        ("begin execute format('set app.x = %L', x); end", dynamic | SideEffects::SETTINGS),
        (
            "begin execute format('set %I = %L', n, x); end",
            dynamic | SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS,
        ),
        ("begin execute 'select set_config(''a.b'', ''c'', false)'; end", SideEffects::SETTINGS),
        ("begin execute E'create\\ntemp table t()'; end", SideEffects::TEMPORARY),
        // The piece is no sequence of tokens.
        ("begin execute 'listen \"' || x || '\"'; end", dynamic | SideEffects::LISTEN),
        ("begin execute 'select 1 where x = ''' || x || ''''; end", dynamic),
    ]);
    let deep = "begin execute 'do ''begin execute ''''do ''''''''begin execute 1; end'''''''' ''''; end'' '; end";
    assert!(side_effects(deep).any(dynamic));
}

#[test]
fn what_cannot_be_read_is_unknown_and_its_words_are_found() {
    let body = Body::read(b"begin x := U&\"a\" uescape '!'; listen y; perform f(); end");
    assert_eq!(body.side_effects, SideEffects::UNKNOWN | SideEffects::LISTEN);
    assert!(body.words.iter().any(|word| word.is_called() && word.name() == Word::of(b"f")));
}

#[test]
fn names_settings_and_whether_it_writes() {
    let body = Body::read(b"begin perform f(x) from t; end");
    let called: Vec<Word> = body.words.iter().filter(|word| word.is_called()).map(|word| word.name()).collect();
    assert_eq!(called, [Word::of(b"f")]);
    assert!(body.words.iter().any(|word| word.name() == Word::of(b"t")) && !body.writes);
    let body = Body::read(b"begin insert into t values (1); end");
    assert!(body.writes && body.fills);
    let body = Body::read(b"begin update t set x = 1; end");
    assert!(body.writes && !body.fills);
    assert!(Body::read(b"begin execute 'delete from t where x = ' || x; end").writes);

    let text = b"begin set App.\"User\" = 1; perform set_config('A.b', 'c', false), set_config('d.e', '', true); end";
    let names: Vec<String> =
        Body::read(text).settings.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(names, ["a.b", "app.user"]);
}

#[test]
fn whatever_the_bytes_are_it_ends() {
    let mut seed = 7_u64;
    let pieces: [&[u8]; 18] = [
        b"'",
        b"$$",
        b"$a$",
        b"\"",
        b"\\",
        b"execute ",
        b"set ",
        b"do ",
        b"; ",
        b"begin ",
        b"E'",
        b"U&'",
        b"--",
        b"/*",
        b"\xff",
        b"1",
        b"set_config(",
        b"x",
    ];
    for _ in 0..3_000 {
        let mut source = Vec::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            source.extend_from_slice(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        Body::read(&source);
    }
}

#[test]
fn bodies_that_notify() {
    let notifies = |source: &str| Body::read(source.as_bytes()).side_effects.any(SideEffects::NOTIFIES);
    assert!(notifies("begin notify jobs; end") && notifies("begin perform pg_notify('jobs', new.id::text); end"));
    assert!(notifies("begin execute 'notify ' || c; end") && !notifies("begin raise notice 'notify'; end"));
}

#[test]
fn rules_whose_action_is_notify() {
    let notifies = |source: &str| Body::of_definition(source.as_bytes()).side_effects.any(SideEffects::NOTIFIES);
    for action in
        ["notify jobs", "also notify jobs", "instead (notify jobs; delete from u)", "( delete from u; notify jobs )"]
    {
        assert!(notifies(&format!("create rule r as on insert to t do {action}")), "{action}");
    }
    for action in ["nothing", "instead insert into notify values (1)", "also delete from u where notify"] {
        assert!(!notifies(&format!("create rule r as on insert to t do {action}")), "{action}");
    }
}

#[test]
fn bodies_that_write() {
    let writes = |source: &str| Body::read(source.as_bytes()).side_effects.any(SideEffects::WRITES);
    for source in [
        "begin insert into t values (1); end",
        "begin if found then UPDATE t SET a = 1; end if; end",
        "with w as (delete from t returning *) select * from w",
        "begin execute 'insert into t values (1)'; end",
        "begin perform lo_create(0); end",
        "begin create table t (); end",
        "begin select a into b from t for update; end",
    ] {
        assert!(writes(source), "{source}");
    }
    for source in [
        "select count(*) from t",
        "begin select a into b from t; return b; end",
        "begin perform set_config('a.b', 'insert', false); end",
        "begin raise notice 'update'; end",
    ] {
        assert!(!writes(source), "{source}");
    }
}
