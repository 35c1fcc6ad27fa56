//! What the catalogue finds in a real PostgreSQL: objects of every kind with side effects, and similar ones without.
//! They are made there, read by the pooler's own query, and looked up with texts that use them.

use std::time::Instant;

use outer::{Answer, Client, Stage, Wishes};
use session_state::catalogue::{Catalogue, CatalogueBuilder, POLL, PREFIX, QUERY, SideEffects};
use sql::{Rules, Summary, Text};
use wire::HEADER_LEN;
use wire::backend::encode_data_row;

/// The catalogue of the database that the client is in, and how long the answer took to be read.
fn read(client: &mut Client) -> Catalogue {
    let asked = Instant::now();
    let answer = run(client, QUERY);
    let answered = asked.elapsed();
    let rows = answer.rows.len();
    let bodies = answer.rows.iter().map(|row| {
        let mut bytes = Vec::new();
        encode_data_row(&mut bytes, row.iter().map(|value| value.as_ref().map(String::as_bytes)));
        bytes.split_off(HEADER_LEN)
    });
    let bodies: Vec<Vec<u8>> = bodies.collect();
    let begun = Instant::now();
    let mut reading = CatalogueBuilder::new();
    for body in &bodies {
        reading.data_row(body).expect("a row of the query's");
    }
    let catalogue = reading.finish();
    let took = begun.elapsed();
    println!("{rows} rows in {answered:?}, read in {took:?}, {} bytes kept", catalogue.bytes());
    catalogue
}

fn run(client: &mut Client, sql: &str) -> Answer {
    let answer = client.query(sql).expect("the server is there");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer
}

fn poll(client: &mut Client) -> Vec<Vec<Option<String>>> {
    let answer = run(client, POLL);
    assert_eq!(answer.rows.len(), 1);
    answer.rows
}

/// On the session.
fn side_effects(catalogue: &Catalogue, text: &str) -> SideEffects {
    all_side_effects(catalogue, text).without(SideEffects::WRITES | SideEffects::NOTIFIES)
}

fn all_side_effects(catalogue: &Catalogue, text: &str) -> SideEffects {
    catalogue.side_effects(Summary::of(&Text::new(text.as_bytes(), Rules::default())).words())
}

#[track_caller]
fn check(client: &mut Client, rows: &[(&str, SideEffects)]) {
    let catalogue = read(client);
    let wrong: Vec<String> = rows
        .iter()
        .map(|(text, expected)| (text, side_effects(&catalogue, text), *expected))
        .filter(|(_, found, expected)| found != expected)
        .map(|(text, found, expected)| format!("{text}: {found:?}, not {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions of every kind, that the rest hangs on.
const FUNCTIONS: &str = "
    create function sets() returns void language plpgsql as $$ begin perform set_config('app.a', 'x', false); end $$;
    create function sets_locally() returns void language plpgsql
        as $$ begin perform set_config('app.b', 'x', true); set local work_mem = '1MB'; end $$;
    create function proconfig() returns int language sql set work_mem = '2MB' as 'select 1';
    create function tables() returns void language plpgsql as $$ begin create temp table x(); end $$;
    create function calls_tables() returns void language plpgsql as $$ begin perform public.tables(); end $$;
    create function locks(a int) returns int language sql as 'select pg_advisory_lock(a); select a';
    create function locks_atomic(a int) returns int begin atomic select pg_advisory_lock(a); select a; end;
    create function calls_atomic(a int) returns int begin atomic select locks(a); end;
    create function sets_atomic(a text) returns text begin atomic select set_config('a.b', a, true); end;
    create function clean_atomic(a int) returns int begin atomic select a + 1; end;
    create function defaults(a int default locks(1)) returns int language sql as 'select a';
    create function alias(text, text, bool) returns text language internal as 'set_config_by_name';
    create function clean_alias(int, int) returns bool language internal immutable as 'int4eq';
    create function clean(a int) returns int language sql immutable as 'select a + 1';
    create procedure listens() language plpgsql as $$ begin listen x; end $$;
    create function of_a_row(pg_class) returns int language sql as 'select locks(1)';
    create function runs(a text) returns void language plpgsql as $$ begin execute a; end $$;
    create function runs_written() returns int language plpgsql
        as $$ declare a int; begin execute 'select 1' into a; return a; end $$;
    create aggregate locks_all(int) (sfunc = lock_state, stype = int);
    create aggregate clean_all(int) (sfunc = int4pl, stype = int);";

#[test]
fn functions_in_every_language_and_form() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(
        &mut client,
        "create function lock_state(int, int) returns int language sql as 'select pg_advisory_lock($2); select $1'",
    );
    run(&mut client, FUNCTIONS);
    check(
        &mut client,
        &[
            ("select sets()", SideEffects::SETTINGS),
            ("select sets_locally()", SideEffects::NONE),
            ("select proconfig()", SideEffects::NONE),
            ("select tables()", SideEffects::TEMPORARY),
            ("select calls_tables()", SideEffects::TEMPORARY),
            ("select public.locks(1)", SideEffects::ADVISORY),
            ("select locks_atomic(1)", SideEffects::ADVISORY),
            ("select calls_atomic(1)", SideEffects::ADVISORY),
            ("select sets_atomic('x')", SideEffects::NONE),
            ("select clean_atomic(1)", SideEffects::NONE),
            ("select defaults()", SideEffects::ADVISORY),
            ("select alias('a', 'b', false)", SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS),
            ("select clean_alias(1, 2)", SideEffects::NONE),
            ("select clean(1)", SideEffects::NONE),
            ("call listens()", SideEffects::LISTEN),
            ("select c.of_a_row from pg_class c", SideEffects::ADVISORY),
            ("select runs('x')", SideEffects::DYNAMIC),
            ("select runs_written()", SideEffects::NONE),
            ("select locks_all(a) from t", SideEffects::ADVISORY),
            ("select clean_all(a) from t", SideEffects::NONE),
            ("select sets, locks from t", SideEffects::NONE),
        ],
    );
    let catalogue = read(&mut client);
    assert_eq!(catalogue.settings(), [b"app.a".to_vec().into_boxed_slice()]);
    assert!(catalogue.definitions().is_empty());
}

/// What is met without a call.
const RELATIONS: &str = "
    create function locks(a int) returns int language plpgsql as $$ begin perform pg_advisory_lock(a); return a; end $$;
    create function locks_surely(a int) returns int language plpgsql immutable
        as $$ begin perform pg_advisory_lock(a); return a; end $$;
    create function clean(a int) returns int language sql immutable as 'select a + 1';
    create function fires() returns trigger language plpgsql as $$ begin listen x; return new; end $$;
    create function fires_clean() returns trigger language plpgsql as $$ begin return new; end $$;
    create function has_when(a int) returns bool language plpgsql as $$ begin create temp table x(); return true; end $$;

    create table plain(a int check (a > 0), b int default clean(1));
    create index on plain (clean(a)) where clean(a) > 1;
    create trigger t before insert on plain for each row execute function fires_clean();
    create view clean_view as select clean(a) from plain;

    create table has_trigger(a int primary key);
    create trigger t before insert on has_trigger for each row execute function fires();
    create table conditional(a int);
    create trigger t before insert on conditional for each row when (has_when(new.a)) execute function fires_clean();
    create table has_serial(a serial);
    create table has_identity(a int generated always as identity);
    create table has_default(a int default locks(1));
    create table has_check(a int check (locks(a) > 0));
    create table sets_in_check(a text check (set_config('a.b', a, false) is not null));
    create table has_generated(a int, b int generated always as (locks_surely(a)) stored);
    create table has_index(a int);
    create index on has_index (locks_surely(a));
    create table has_policy(a int);
    alter table has_policy enable row level security;
    create policy p on has_policy using (locks(a) > 0);
    create table cascades(a int primary key);
    create table referring(a int references cascades on delete cascade, b int default locks(1));
    create table refers(a int references cascades);
    create table parts(a int) partition by list (a);
    create table part1 partition of parts for values in (1);
    create trigger t before insert on part1 for each row execute function fires();
    create table parent(a int);
    create table child(b int check (locks(b) > 0)) inherits (parent);
    create table by_expression(a int) partition by list (locks_surely(a));
    create table above(a int) partition by list (a);
    create table below partition of above for values in (1);
    create trigger t before insert on above for each row execute function fires();

    create view locks_view as select locks(a) from plain;
    create view over_view as select * from locks_view;
    create view sets_view as select set_config('a.b', 'c', false);
    create view sets_locally_view as select set_config('a.b', 'c', true);
    create view sets_computed_view as select set_config('a.b', a::text, a = 1) from plain;
    create view reads_view as select name from pg_prepared_statements;
    create view simple_view as select * from has_trigger;
    create materialized view stored as select locks(1) as a with no data;
    create table has_rule(a int);
    create rule r as on insert to has_rule do instead select locks(new.a);

    create domain locked as int check (locks(value) > 0);
    create domain clean_domain as int check (clean(value) > 0);
    create table has_domain(a locked);
    create table has_clean_domain(a clean_domain);
    create type composite as (a locked);";

/// What may be committing when a cancel arrives: found through functions, triggers and views.
#[test]
fn what_writes() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(
        &mut client,
        "create table plain (a int);
         create function writes() returns void language plpgsql as 'begin insert into plain values (1); end';
         create function notes(int) returns bool language plpgsql as 'begin perform writes(); return true; end';
         create function counts() returns bigint language sql as 'select count(*) from plain';
         create function tells() returns void language plpgsql as 'begin perform pg_notify(''c'', ''x''); end';
         create view writing as select notes(1);
         create view reading as select counts() from plain;
         create operator !! (function = notes, rightarg = int)",
    );
    let catalogue = read(&mut client);
    let found = |text: &str, which: SideEffects| all_side_effects(&catalogue, text).any(which);
    for text in ["select writes()", "select notes(1)", "select * from writing"] {
        assert!(found(text, SideEffects::WRITES), "{text}");
    }
    assert!(found("select !! 1", SideEffects::WRITES), "an operator has no name, so that all texts may use it");
    run(&mut client, "drop operator !! (none, int)");
    let catalogue = read(&mut client);
    let found = |text: &str, which: SideEffects| all_side_effects(&catalogue, text).any(which);
    for text in ["select counts()", "select * from reading", "select * from plain", "select now()"] {
        assert!(!found(text, SideEffects::WRITES), "{text}");
    }
    assert!(found("select tells()", SideEffects::NOTIFIES) && !found("select counts()", SideEffects::NOTIFIES));
}

/// NOTIFY without a call in the text: by rules, views, defaults and policies.
#[test]
fn what_notifies() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    knows_what_notifies(&mut client);
}

const NOTIFYING: &str = "
    create table plain (a int);
    create table ruled (a int);
    create rule r as on insert to ruled do also notify jobs, 'a {QUERY} \"with\" braces';
    create table ruled_by_select (a int);
    create rule r as on update to ruled_by_select do instead select pg_notify('jobs', old.a::text);
    create table fills (a int);
    create rule r as on insert to fills do instead insert into ruled values (new.a);
    create table named (\":utilityStmt {NOTIFY\" int);
    create view of_named as select * from named;
    create view telling as select pg_notify('jobs', 'x')::text as a;
    create view over_telling as select a from telling;
    create table by_default (a int, b text default pg_notify('jobs', 'x')::text);
    create table by_policy (a int);
    alter table by_policy enable row level security;
    create policy p on by_policy using (pg_notify('jobs', 'x') is null);";

pub(crate) fn knows_what_notifies(client: &mut Client) {
    run(client, NOTIFYING);
    let catalogue = read(client);
    let notifies = |text: &str| all_side_effects(&catalogue, text).any(SideEffects::NOTIFIES);
    for text in [
        "insert into ruled values (1)",
        "update ruled_by_select set a = 2",
        "insert into fills values (1)",
        "select * from telling",
        "select * from over_telling",
        "insert into by_default values (1)",
        "select * from by_policy",
    ] {
        assert!(notifies(text), "{text}");
    }
    for text in [
        "insert into plain values (1)",
        "select * from ruled",
        "select * from by_default",
        "select * from of_named",
        "insert into of_named values (1)",
    ] {
        assert!(!notifies(text), "{text}");
    }
}

#[test]
fn tables_views_and_domains() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(&mut client, RELATIONS);
    let (locks, sets) = (SideEffects::ADVISORY, SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS);
    check(
        &mut client,
        &[
            ("insert into plain values (1); select * from clean_view", SideEffects::NONE),
            ("insert into has_trigger values (1)", SideEffects::LISTEN),
            ("select * from has_trigger", SideEffects::NONE),
            ("insert into conditional values (1)", SideEffects::TEMPORARY),
            ("insert into has_serial default values", SideEffects::SEQUENCE),
            ("select * from has_serial", SideEffects::NONE),
            ("update has_serial set a = 1", SideEffects::NONE),
            ("update has_serial set a = default", SideEffects::SEQUENCE),
            ("copy has_identity from stdin", SideEffects::SEQUENCE),
            ("insert into has_default default values", locks),
            ("select * from has_default", SideEffects::NONE),
            ("update has_check set a = 1", locks),
            ("insert into sets_in_check values ('x')", sets),
            ("insert into has_generated values (1)", locks),
            ("insert into has_index values (1)", locks),
            ("select * from has_index", SideEffects::NONE),
            ("select * from has_policy", locks),
            ("delete from cascades", locks),
            ("insert into refers values (1)", SideEffects::NONE),
            ("insert into parts values (1)", SideEffects::LISTEN),
            ("select * from parts", SideEffects::NONE),
            ("update parent set a = 1", locks),
            ("insert into by_expression values (1)", locks),
            ("insert into below values (1)", SideEffects::LISTEN),
            ("select * from locks_view", locks),
            ("select * from over_view", locks),
            ("select * from sets_view", sets),
            ("select * from sets_locally_view", SideEffects::NONE),
            ("select * from sets_computed_view", sets),
            ("select * from reads_view", SideEffects::STATE_READ),
            ("select * from simple_view", SideEffects::NONE),
            ("insert into simple_view values (1)", SideEffects::LISTEN),
            ("select * from stored", SideEffects::NONE),
            ("refresh materialized view stored", locks),
            ("insert into has_rule values (1)", locks),
            ("select * from has_rule", SideEffects::NONE),
            ("select 1::locked", locks),
            ("select 1::clean_domain", SideEffects::NONE),
            ("insert into has_domain values (1)", locks),
            ("insert into has_clean_domain values (1)", SideEffects::NONE),
            ("select row(1)::composite", locks),
            ("create table other()", SideEffects::NONE),
            ("select a ## b", SideEffects::NONE),
        ],
    );
}

#[test]
fn casts_operators_and_event_triggers() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    let types = "create type pair as (a int, b int);
        create function to_int(pair) returns int language plpgsql
            as $$ begin perform pg_advisory_lock(1); return 1; end $$;
        create cast (pair as int) with function to_int(pair) as implicit;
        create table of_pairs(a pair);
        create view of_cast as select a::int from of_pairs";
    run(&mut client, types);
    check(
        &mut client,
        &[
            ("select a::int from of_pairs", SideEffects::ADVISORY),
            ("select '(1,2)'::pair", SideEffects::ADVISORY),
            ("select * from of_cast", SideEffects::ADVISORY),
            ("select 1 ## 2", SideEffects::NONE),
        ],
    );
    let operator = "create function plus(int, int) returns int language plpgsql as $$ begin listen x; return 1; end $$;
        create operator ## (function = plus, leftarg = int, rightarg = int)";
    run(&mut client, operator);
    check(&mut client, &[("select 1 ## 2", SideEffects::LISTEN)]);
    run(&mut client, "drop operator ## (int, int)");
    check(&mut client, &[("select 1 ## 2", SideEffects::NONE)]);

    let trigger = "create function notes() returns event_trigger language plpgsql as $$ begin load 'x'; end $$;
        create event trigger notes on ddl_command_end execute function notes()";
    run(&mut client, trigger);
    check(
        &mut client,
        &[
            ("create index on of_pairs (a)", SideEffects::LOAD | SideEffects::ADVISORY),
            ("grant select on x to y", SideEffects::LOAD),
            ("select 1", SideEffects::NONE),
        ],
    );
    assert_eq!(read(&mut client).definitions(), SideEffects::LOAD);
    run(&mut client, "drop event trigger notes");
}

#[test]
fn whatever_changes_a_catalogue_changes_the_poll_and_temporary_objects_do_not() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(
        &mut client,
        "create table t(a int); create table parent(a int); create function g() returns trigger language plpgsql as 'begin return new; end'",
    );
    let changes = [
        "create function f() returns int language sql as 'select 1'",
        "create or replace function f() returns int language sql as 'select 2'",
        "alter function f() rename to h",
        "create trigger x before insert on t for each row execute function g()",
        "create view v as select 1 as a",
        "create or replace view v as select 2 as a",
        "alter view v rename to w",
        "alter table t rename to u",
        "alter table u add check (a > 0)",
        "alter table u alter a set default 1",
        "alter table u alter a set default 2",
        "alter table u add b int generated always as identity",
        "alter table u inherit parent",
        "alter table u no inherit parent",
        "create policy p on u using (true)",
        "alter policy p on u using (false)",
        "create domain d as int",
        "alter domain d add check (value > 0)",
        "create function hash(t2 u) returns int language sql as 'select 1'; create cast (u as int) with function hash(u)",
        "create operator ## (function = int4pl, leftarg = int, rightarg = int)",
        "create rule r as on delete to u do instead nothing",
        "drop function h()",
        "drop cast (u as int)",
    ];
    let mut last = poll(&mut client);
    for change in changes {
        assert_eq!(poll(&mut client), last, "before {change}");
        run(&mut client, change);
        let now = poll(&mut client);
        assert_ne!(now, last, "{change}");
        last = now;
    }
    let temporary = "begin; create temp table mine(a serial primary key check (a > 0));
        create temp view mine_too as select 1; insert into mine default values";
    run(&mut client, temporary);
    assert_eq!(poll(&mut client), last);
    run(&mut client, "rollback");
    // The first time it notes that the parent has no children any more.
    run(&mut client, "analyze");
    last = poll(&mut client);
    run(&mut client, "analyze");
    assert_eq!(poll(&mut client), last);
}

/// One object goes and another comes: numbers of objects and of transactions, which are counted up side by side.
#[test]
fn what_takes_the_place_of_something_changes_the_poll() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(&mut client, "create table t(a int default 0)");
    let mut last = poll(&mut client);
    for number in 1..32 {
        run(&mut client, &format!("alter table t alter a set default {number}"));
        let now = poll(&mut client);
        assert_ne!(now, last, "{number}");
        last = now;
        if number % 8 == 0 {
            // The ones one step ahead of the others.
            run(&mut client, "select pg_current_xact_id()");
        }
    }
}

#[test]
fn a_user_without_rights_may_ask() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    run(&mut client, RELATIONS);
    run(&mut client, "begin; create role nobody; set local role nobody");
    let catalogue = read(&mut client);
    assert_eq!(side_effects(&catalogue, "select * from locks_view"), SideEffects::ADVISORY);
    poll(&mut client);
    // Nor does it wait for whoever holds a table.
    run(&mut client, "rollback");
    let mut other = stage.client();
    run(&mut other, "begin; lock table plain in access exclusive mode");
    run(&mut client, "set statement_timeout = '120s'");
    let catalogue = read(&mut client);
    assert_eq!(side_effects(&catalogue, "select * from locks_view"), SideEffects::ADVISORY);
    run(&mut other, "rollback");
}

#[test]
#[ignore = "test-full: it makes 9,000 objects; in the gate: functions_in_every_language_and_form"]
fn five_thousand_functions() {
    let stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    let tables = "do $$ begin for i in 1..2000 loop
        execute format('create table t%1$s(id serial primary key, a int, b text check (length(b) > 0), c timestamptz default now(), d numeric)', i);
        execute format('create view v%1$s as select a.id, a.b, b.c from t%1$s a join t%2$s b using (id) where a.d > 10', i, greatest(i - 1, 1));
        if i % 500 = 0 then commit; end if; end loop; end $$";
    run(&mut client, tables);
    let line =
        "  if x > 17 then total := total + (select count(*) from t7 where c > now() - interval '1 day'); end if;\n";
    let source = format!(
        "declare r record; total int := 0; begin -- {}
        for r in select * from t%2$s where id = x and b = y order by c loop
            if total > 1000 then update t%2$s set d = d + 1 where id = r.id; end if;
            total := total + f%3$s(r.id, r.b);
        end loop;\n{} return total; end",
        "some words of a comment about what it does. ".repeat(4),
        line.repeat(8)
    );
    let functions = format!(
        "do $do$ begin for i in 1..5000 loop
        execute format($f$create function f%1$s(x int, y text) returns int language plpgsql as $b$ {source} $b$ $f$,
            i, i % 2000 + 1, greatest(i - 1, 1));
        if i % 500 = 0 then commit; end if; end loop; end $do$"
    );
    run(&mut client, &functions);
    run(
        &mut client,
        "create or replace function f1(x int, y text) returns int language plpgsql as $$ begin load 'x'; end $$",
    );
    run(&mut client, "analyze");
    let catalogue = read(&mut client);
    // All call each other, down to the first.
    assert_eq!(side_effects(&catalogue, "select f5000(1, '')"), SideEffects::LOAD);
    assert_eq!(side_effects(&catalogue, "select * from v17"), SideEffects::NONE);
    let begun = Instant::now();
    poll(&mut client);
    println!("polled in {:?}", begun.elapsed());
    let words: Vec<_> = ["select a, b, c from v17 where id = $1 order by d limit 10", "insert into t8 values ($1, $2)"]
        .map(|text| Summary::of(&Text::new(text.as_bytes(), Rules::default())))
        .into();
    for summary in &words {
        let begun = Instant::now();
        for _ in 0..100_000 {
            std::hint::black_box(catalogue.side_effects(std::hint::black_box(summary.words())));
        }
        println!("{} words in {:?}", summary.words().len(), begun.elapsed() / 100_000);
    }
}

/// PostgreSQL has no statistics of them yet, and took nested loops: over half a minute of its processor's time for 20,000 functions, which
/// any user can make in seconds.
#[test]
#[ignore = "test-full: it makes 40,000 functions; in the gate: functions_in_every_language_and_form"]
fn many_functions_of_which_there_are_no_statistics_are_read() {
    let stage = Stage::set(&Wishes { postgres: vec![("autovacuum", "off")], ..Wishes::default() });
    let mut client = stage.client();
    let made = "do $$begin for i in 1..40000 loop \
                execute format('create function f%s(a int) returns int language sql as ''select a''', i); end loop; end$$";
    run(&mut client, made);
    // The pooler allows ten seconds, of a machine that is not busy.
    let patient = PREFIX.replace("statement_timeout = 10000", "statement_timeout = 60000");
    assert_ne!(patient, PREFIX);
    let answer = run(&mut client, &format!("{patient}{QUERY}"));
    assert!(answer.rows.len() >= 40_000, "{} rows", answer.rows.len());
}
