//! Programs of one session, run directly and through the pooler, where every transaction has another server and strangers have used all of
//! them: the same answers, statement by statement, with a real PostgreSQL.

use outer::{Answer, Client, Stage};

use crate::one_session::{self, Program, program, run, stage, strangers};

/// Defines something by the pooler, which knows what it does when it has read the names in the database anew: then a session that calls it
/// keeps its server.
fn define(stage: &Stage, definition: &str, call: &str) {
    one_session::define(stage, definition);
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("trusted");
    outer::eventually("the names are read", || {
        let mut client = stage.client();
        client.query(call).expect("connected");
        !console.query("show pins").expect("answered").lines().is_empty()
    });
}

#[test]
fn what_a_library_keeps_in_its_server_reaches_nobody() {
    let stage = stage();
    define(&stage, "create extension isn", "select isn_weak()");
    run(
        &stage,
        &[
            program(
                "isn",
                &[],
                &["stranger: select isn_weak(true)", "select isn_weak()", "select '978-0-393-04002-1'::isbn13"],
            ),
            program("isn of its own", &[], &["select isn_weak(true)", "select isn_weak()", "select isn_weak(false)"]),
        ],
    );
}

/// A session that began with settings of its own.
const OWN: &[(&str, &str)] = &[
    ("options", "-c work_mem=9MB -c timezone=Asia/Tokyo -c app.tenant=7 -c search_path=pg_catalog"),
    ("datestyle", "German"),
];

const RESETS: [Program; 17] = [
    program("reset in DO", OWN, &["do $$begin reset work_mem; end$$", "show work_mem", "show work_mem"]),
    program(
        "reset of a set value in DO",
        OWN,
        &["set work_mem = '1MB'", "do $$begin reset work_mem; end$$", "show work_mem", "show work_mem"],
    ),
    program("reset timezone in DO", OWN, &["do $$begin reset timezone; end$$", "show timezone", "show timezone"]),
    program(
        "reset of a set timezone in DO",
        OWN,
        &["set timezone = 'America/Lima'", "do $$begin reset timezone; end$$", "show timezone", "show timezone"],
    ),
    program(
        "reset datestyle in DO",
        OWN,
        &["do $$begin execute 'reset datestyle'; end$$", "show datestyle", "show datestyle"],
    ),
    program(
        "reset all in DO",
        OWN,
        &[
            "do $$begin reset all; end$$",
            "show work_mem",
            "show timezone",
            "show app.tenant",
            "show app.tenant",
            "show search_path",
            "show datestyle",
        ],
    ),
    program(
        "reset of app.tenant in DO",
        OWN,
        &["do $$begin reset app.tenant; end$$", "show app.tenant", "show app.tenant"],
    ),
    program(
        "set_config of NULL",
        OWN,
        &["select set_config('work_mem', null, false) is null", "show work_mem", "show work_mem"],
    ),
    program(
        "set_config of NULL, timezone",
        OWN,
        &["select set_config('timezone', null, false) is null", "show timezone", "show timezone"],
    ),
    program(
        "reset all in DO, of what was set",
        OWN,
        &[
            "set app.tenant = '8'",
            "set app.other = '9'",
            "set lock_timeout = 7",
            "do $$begin reset all; end$$",
            "show app.tenant",
            "show app.other",
            "show lock_timeout",
            "show app.other",
        ],
    ),
    program(
        "set to nothing, beside a reset of something else",
        OWN,
        &[
            "set app.tenant = ''",
            "do $$begin reset work_mem; end$$",
            "show app.tenant",
            "show work_mem",
            "show app.tenant",
        ],
    ),
    program(
        "several NULLs",
        OWN,
        &[
            "unseen: select set_config('timezone', null, false), set_config('app.x', '1', false), set_config('datestyle', null, false)",
            "show timezone",
            "show datestyle",
            "show app.x",
        ],
    ),
    program(
        "set_config of nothing but NULL",
        OWN,
        &[
            "unseen: select set_config('work_mem', null, false)",
            "show work_mem",
            "set work_mem = '2MB'",
            "set work_mem to default",
            "show work_mem",
            "begin",
            "set work_mem = '1MB'",
            "unseen: select set_config('work_mem', null, false)",
            "show work_mem",
            "commit",
            "show work_mem",
            "unseen: select set_config('timezone', null, false)",
            "show timezone",
            "show timezone",
            "unseen: select set_config('app.tenant', null, false)",
            "show app.tenant",
            "show app.tenant",
        ],
    ),
    program(
        "set_config of NULL without own",
        &[],
        &["set work_mem='1MB'", "select set_config('work_mem', null, false) is null", "show work_mem", "show work_mem"],
    ),
    program(
        "set_config of a computed NULL",
        OWN,
        &["select set_config('work_mem', nullif('x', 'x'), false) is null", "show work_mem", "show work_mem"],
    ),
    program(
        "set_config of NULL in DO",
        OWN,
        &["do $$begin perform set_config('work_mem', null, false); end$$", "show work_mem", "show work_mem"],
    ),
    program(
        "set local in a function",
        OWN,
        &[
            "create or replace function f() returns text language plpgsql set work_mem from current as $$begin return current_setting('work_mem'); end$$",
            "select f()",
            "show work_mem",
        ],
    ),
];

#[test]
fn a_reset_out_of_sight_brings_back_what_the_session_began_with() {
    let stage = stage();
    run(&stage, &RESETS);
}

const R1: &[(&str, &str)] = &[("options", "-c role=r1")];

const ROLES: [Program; 15] = [
    program(
        "role",
        R1,
        &["select current_user, session_user", "reset role", "select current_user", "select current_user"],
    ),
    program(
        "role none",
        R1,
        &["set role none", "select current_user", "reset role", "select current_user", "select current_user"],
    ),
    program("role in DO", R1, &["do $$begin reset role; end$$", "select current_user", "select current_user"]),
    program("role none in DO", R1, &["do $$begin set role none; end$$", "select current_user", "select current_user"]),
    program(
        "another role in DO",
        R1,
        &[
            "do $$begin set role none; set role r2; end$$",
            "select current_user",
            "select current_user",
            "reset role",
            "select current_user",
        ],
    ),
    program("reset all", R1, &["reset all", "select current_user", "select current_user"]),
    program("discard all", R1, &["discard all", "select current_user", "select current_user"]),
    program(
        "rollback",
        R1,
        &[
            "begin",
            "set role none",
            "rollback",
            "select current_user",
            "begin; reset role",
            "rollback",
            "select current_user",
        ],
    ),
    program(
        "set local role",
        R1,
        &["begin", "set local role none", "select current_user", "commit", "select current_user"],
    ),
    program(
        "set_config",
        R1,
        &[
            "select set_config('role', 'none', false)",
            "select current_user",
            "unseen: select set_config('role', null, false)",
            "select current_user",
            "select current_user",
        ],
    ),
    program(
        "session authorization",
        R1,
        &["reset session authorization", "select current_user, session_user", "select current_user"],
    ),
    program(
        "session authorization of another",
        R1,
        &[
            "set session authorization plain",
            "select current_user, session_user",
            "reset session authorization",
            "select current_user, session_user",
            "select current_user",
        ],
    ),
    program(
        "another's session in DO",
        R1,
        &[
            "do $$begin set session authorization plain; end$$",
            "select current_user, session_user",
            "select current_user",
        ],
    ),
    program(
        "session authorization in options",
        &[("options", "-c session_authorization=plain")],
        &[
            "select current_user, session_user",
            "reset all",
            "select session_user",
            "reset session authorization",
            "select session_user",
        ],
    ),
    program("superuser", R1, &["show is_superuser", "reset role", "show is_superuser"]),
];

#[test]
fn a_session_that_begins_with_a_role_keeps_it() {
    let stage = stage();
    drop(stage.direct("create role r1; create role r2; create role plain login; grant r1 to plain"));
    run(&stage, &ROLES);
}

#[test]
fn a_role_that_is_gone_ends_no_session() {
    let stage = stage();
    drop(stage.direct("create role r1; create role r3; create role plain login; grant r3 to plain"));
    run(
        &stage,
        &[
            program(
                "renamed",
                &[],
                &["set role r1", "superuser: alter role r1 rename to r2", "reset role", "select current_user"],
            ),
            program(
                "renamed, and used",
                &[],
                &[
                    "set role r2",
                    "superuser: alter role r2 rename to r1",
                    "unseen: select 1",
                    "unseen: select 1",
                    "reset role",
                    "select current_user",
                ],
            ),
            program(
                "of another's session",
                &[],
                &[
                    "set session authorization plain",
                    "set role r3",
                    "superuser: revoke r3 from plain",
                    "reset role",
                    "select current_user, session_user",
                    "superuser: grant r3 to plain",
                ],
            ),
            program(
                "discarded",
                &[],
                &[
                    "set role r1",
                    "superuser: alter role r1 rename to r2",
                    "unseen: select 1",
                    "discard all",
                    "select current_user",
                ],
            ),
        ],
    );
}

/// What does nothing, or fails, or sets the role that is gone once more, takes no role away.
#[test]
fn a_role_that_is_gone_leaves_nobody_with_the_logins_rights() {
    let stage = stage();
    drop(stage.direct("create role r1"));
    let mut client = stage.client();
    client.query("set role r1").expect("connected");
    drop(stage.direct("alter role r1 rename to gone"));
    let texts = [
        "",
        ";",
        "-- ping",
        "select current_user",
        "set role r1",
        "begin; reset role; rollback",
        "reset role; select 1/0",
        "set role nobody",
    ];
    for text in texts {
        // Where the server is another one than before, PostgreSQL refuses the role, and this is an error.
        client.query(text).expect("it goes on");
        for _ in 0..3 {
            let answer = client.query("select current_user").expect("it goes on");
            assert_ne!(answer.value(), Some("postgres"), "after {text}: {answer:?}");
        }
    }
    let answer = client.query("reset role").expect("it goes on");
    assert!(answer.errors.is_empty(), "{answer:?}");
    assert_eq!(client.query("select current_user").expect("connected").value(), Some("postgres"));
}

#[test]
fn a_function_that_executes_a_statement_by_name_finds_it() {
    let stage = stage();
    for text in [
        "create function executes() returns void language plpgsql as $$begin execute 'execute p'; end$$",
        "create function executes_a_text(t text) returns void language plpgsql as $$begin execute t; end$$",
        "create function counts() returns bigint language sql as 'select count(*) from pg_prepared_statements'",
    ] {
        one_session::define(&stage, text);
    }
    run(
        &stage,
        &[
            program(
                "a constant",
                &[],
                &["prepare p as select 1", "select 1", "select executes()", "select executes()", "select executes()"],
            ),
            program(
                "a parameter",
                &[],
                &[
                    "prepare p as select 1",
                    "select 1",
                    "select executes_a_text('execute p')",
                    "select executes_a_text('exec' || 'ute p')",
                    "select executes_a_text('execute p')",
                ],
            ),
            program(
                "in DO",
                &[],
                &[
                    "prepare p as select 1",
                    "select 1",
                    "do $$begin execute 'execute p'; end$$",
                    "do $$begin perform executes(); end$$",
                    "do $$begin execute 'execute p'; end$$",
                ],
            ),
            program(
                "deallocated out of sight",
                &[],
                &[
                    "prepare p as select 1",
                    "do $$begin execute 'deallocate p'; end$$",
                    "execute p",
                    "select 1",
                    "execute p",
                ],
            ),
            program(
                "prepared out of sight",
                &[],
                &["do $$begin execute 'prepare q as select 2'; end$$", "execute q", "select 1", "execute q"],
            ),
            program("counted", &[], &["prepare p as select 1", "select 1", "select counts()", "select counts()"]),
        ],
    );
}

#[test]
fn temp_buffers_are_a_sessions_own() {
    const STRANGER: &str = "stranger: create temporary table t (n int); insert into t values (1)";
    let stage = stage();
    // The first in a pool may find servers that do not take it any more; then these are closed.
    strangers(stage.pooler.address(), &STRANGER["stranger: ".len()..]);
    let mut first = stage.client();
    let is_set = |client: &mut Client| client.query("set temp_buffers = '2MB'").expect("connected").errors.is_empty();
    outer::eventually("a server takes it", || is_set(&mut first));
    assert!(is_set(&mut stage.client()));
    drop(first);
    run(
        &stage,
        &[
            program(
                "begun with",
                &[("options", "-c temp_buffers=256")],
                &[
                    STRANGER,
                    "show temp_buffers",
                    "show temp_buffers",
                    "create temporary table t (n int)",
                    "insert into t values (2)",
                    "show temp_buffers",
                    "drop table t",
                    "show temp_buffers",
                ],
            ),
            program(
                "set",
                &[],
                &[STRANGER, "set temp_buffers = '2MB'", "show temp_buffers", STRANGER, "show temp_buffers"],
            ),
            program(
                "after its own",
                &[],
                &[
                    "create temporary table t (n int)",
                    "insert into t values (1)",
                    "set temp_buffers = '2MB'",
                    "drop table t",
                    "select 1",
                    "show temp_buffers",
                ],
            ),
            program(
                "twice",
                &[],
                &[
                    "set temp_buffers = '3MB'",
                    "create temporary table t (n int)",
                    "insert into t values (1)",
                    "drop table t",
                    STRANGER,
                    "show temp_buffers",
                    "show temp_buffers",
                ],
            ),
        ],
    );
}

#[test]
fn a_constant_that_is_a_moment_is_that_of_its_own_session() {
    let stage = stage();
    let value = |answer: Answer| answer.value().expect("one value").to_owned();
    for text in [
        "select 'now'::timestamptz::text",
        "select timestamptz 'Now'::text",
        "select lower('[now,infinity)'::tstzrange)::text",
    ] {
        let (mut one, mut other) = (stage.client(), stage.client());
        let first = value(one.extended("moment", text, &[]).expect("connected"));
        let between = value(other.query("select clock_timestamp()::text").expect("connected"));
        let second = value(other.extended("moment", text, &[]).expect("connected"));
        assert!(first < between && between < second, "{text}: {first}, {between}, {second}");
    }
}
