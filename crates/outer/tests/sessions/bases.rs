//! What a server begins with, by connect_query or by ALTER ROLE, is what every session begins with, whatever others have done on that
//! server before: with a real PostgreSQL, and one server for all.

use outer::{Answer, Client, Pooler, Stage, Wishes, frontend};

/// Sets a role with fewer rights, two settings, and one that PostgreSQL reports.
const CONNECT_QUERY: &str = "set role app_ro; set search_path = app; set app.tenant = ''7''; set timezone = ''Asia/Tokyo''; \
                             set statement_timeout = 60000";

/// Where it is looked up in the end: the role, whose session it is, and settings.
const QUESTION: &str = "select current_user, current_setting('search_path'), current_setting('app.tenant', true), \
                        current_setting('timezone'), current_setting('work_mem'), current_setting('statement_timeout')";

/// What a session does on the server, each text a query of its own.
const DEEDS: [&[&str]; 29] = [
    &["reset role"],
    &["set role none"],
    &["set role other"],
    &["reset session authorization"],
    &["set session authorization other"],
    &["set session authorization other", "set role app_ro"],
    &["reset all"],
    &["discard all"],
    &["set search_path = mine, public; set work_mem = '9MB'"],
    &["set app.tenant = '8'"],
    &["reset app.tenant"],
    &["set timezone = 'UTC'"],
    &["reset timezone"],
    &["select set_config('search_path', 'mine', false), set_config('work_mem', '7MB', false)"],
    &["do $$begin set role none; end$$"],
    &["do $$begin execute 'reset search_path'; perform set_config('app.tenant', '9', false); end$$"],
    &["create temporary table kept (a int)", "reset search_path"],
    &["create temporary table kept (a int)", "discard all"],
    &["begin; reset role; set search_path = x; commit"],
    &["begin; set role none; savepoint s; reset search_path; rollback to s; commit"],
    &["begin; set role none; rollback"],
    &["begin", "set local role none", "select 1"],
    &["declare c cursor with hold for select 1", "reset all"],
    &["begin; reset role; savepoint s", "rollback to s; commit"],
    &["reset role; begin", "rollback"],
    &["begin; reset search_path", "commit and chain", "rollback"],
    &["do $$begin reset all; end$$"],
    &["set statement_timeout = 900"],
    &["prepare p as select set_config('search_path', 'prepared', false)", "execute p"],
];

fn run(client: &mut Client, sql: &str) -> Answer {
    let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer
}

fn ask(client: &mut Client) -> Vec<String> {
    let answer = run(client, QUESTION);
    answer.rows[0].iter().map(|value| value.clone().unwrap_or_default()).collect()
}

/// Roles and a schema, and a login that begins as another.
fn stage() -> Stage {
    let stage = Stage::set(&Wishes { workers: 1, ..Wishes::default() });
    let password = stage.cluster.password();
    drop(stage.direct(&format!(
        "create role app_ro; create role other; grant app_ro to other; create schema app; create role owner superuser login password '{password}'; \
         alter role owner set role = 'app_ro'; alter role owner set search_path = 'app'; \
         alter role owner set timezone = 'Asia/Tokyo'; alter role owner set app.tenant = '7'; alter role owner set statement_timeout = 60000"
    )));
    stage
}

/// `user`: who logs in to PostgreSQL. `lines`: more settings.
fn pooler(stage: &Stage, user: &str, connect_query: Option<&str>, lines: &str) -> Pooler {
    let (host, port) = (stage.cluster.host(), stage.cluster.port());
    let query = connect_query.map(|query| format!(" connect_query='{query}'")).unwrap_or_default();
    let ini = format!(
        "[databases]\nshop = host={host} port={port} dbname=postgres user={user} password={}{query}\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = any\n\
         workers = 1\ndefault_pool_size = 1\n{lines}",
        stage.cluster.password()
    );
    Pooler::start(&ini, "", None)
}

fn login(pooler: &Pooler) -> Client {
    Client::login(pooler.address(), "anybody", "shop").expect("a server begins as it should")
}

/// Does each of these deeds in a session, and looks at what the next session has on the same server.
fn everybody_begins_alike(pooler: &Pooler, lines: &str, deeds: &[&[&str]]) {
    let begun = ["app_ro", "app", "7", "Asia/Tokyo", "4MB", "1min"];
    assert_eq!(ask(&mut login(pooler)), begun);
    for deed in deeds {
        let mut one = login(pooler);
        for text in *deed {
            run(&mut one, text);
        }
        drop(one);
        assert_eq!(ask(&mut login(pooler)), begun, "after {deed:?} with {lines}");
    }
    assert!(pooler.log().lines().all(|line| !line.contains(" FATAL ")), "{}", pooler.log());
}

const TRANSPARENT: &str = "pool_mode = transaction\npool_fidelity = transparent\nchaos_check = 1\n";

#[test]
fn what_connect_query_has_set_is_every_sessions() {
    let stage = stage();
    everybody_begins_alike(&pooler(&stage, "postgres", Some(CONNECT_QUERY), TRANSPARENT), TRANSPARENT, &DEEDS);
    let own_reset = format!("{TRANSPARENT}server_reset_query_always = 1\nserver_reset_query = reset all; reset role\n");
    everybody_begins_alike(&pooler(&stage, "postgres", Some(CONNECT_QUERY), &own_reset), &own_reset, &DEEDS);
    for own_reset in ["discard all", "reset all; reset session authorization"] {
        let session = format!("pool_mode = session\nserver_reset_query = {own_reset}\n");
        everybody_begins_alike(&pooler(&stage, "postgres", Some(CONNECT_QUERY), &session), &session, &DEEDS);
    }
}

#[test]
fn what_a_login_begins_with_is_every_sessions() {
    let stage = stage();
    everybody_begins_alike(&pooler(&stage, "owner", None, TRANSPARENT), TRANSPARENT, &DEEDS);
    everybody_begins_alike(&pooler(&stage, "owner", None, "pool_mode = session\n"), "pool_mode = session\n", &DEEDS);
}

/// Where texts are not read, a DISCARD ALL or RESET shows by its command tag.
#[test]
fn a_reset_in_classic_is_followed_by_connect_query() {
    let stage = stage();
    let resets: Vec<&[&str]> = DEEDS
        .into_iter()
        .filter(|deed| matches!(deed, [one] if one.starts_with("reset") || *one == "discard all"))
        .collect();
    assert_eq!(resets.len(), 6);
    let classic = "pool_mode = transaction\npool_fidelity = classic\n";
    everybody_begins_alike(&pooler(&stage, "postgres", Some(CONNECT_QUERY), classic), classic, &resets);
    everybody_begins_alike(
        &pooler(&stage, "postgres", Some(CONNECT_QUERY), "pool_mode = session\n"),
        "pool_mode = session\n",
        &DEEDS,
    );
}

/// RESET and DISCARD ALL give a session what it began with; SET ROLE NONE takes the role away, on every server.
#[test]
fn a_session_that_resets_is_as_it_began() {
    let stage = stage();
    let pooler = pooler(&stage, "postgres", Some(CONNECT_QUERY), TRANSPARENT);
    let begun = ["app_ro", "app", "7", "Asia/Tokyo", "4MB", "1min"];
    let (mut one, mut other) = (login(&pooler), login(&pooler));
    for text in ["reset role", "reset all", "discard all", "reset app.tenant", "reset timezone", "reset search_path"] {
        run(
            &mut one,
            "set search_path = mine; set timezone = 'UTC'; set app.tenant = '8'; set work_mem = '1MB'; set role other",
        );
        assert_eq!(ask(&mut one), ["other", "mine", "8", "UTC", "1MB", "1min"]);
        assert_eq!(ask(&mut other), begun, "{text}");
        run(&mut one, text);
        let reset = ask(&mut one);
        for (index, (found, began)) in reset.iter().zip(begun).enumerate() {
            let is_reset = match text {
                _ if index == 5 => true,
                "discard all" => true,
                "reset all" => index != 0,
                "reset role" => index == 0,
                "reset search_path" => index == 1,
                "reset app.tenant" => index == 2,
                "reset timezone" => index == 3,
                other => unreachable!("{other}"),
            };
            assert_eq!(found == began, is_reset, "{text}: {reset:?}");
        }
        run(&mut one, "discard all");
    }
    run(&mut one, "set role none");
    for _ in 0..3 {
        assert_eq!((&*ask(&mut one)[0], ask(&mut other)), ("postgres", begun.map(String::from).to_vec()));
    }
}

/// Code resets what connect_query has set: the session has that again from its very next statement on, also if both come at once.
#[test]
fn code_that_resets_brings_back_what_a_session_began_with() {
    let stage = stage();
    let pooler = pooler(&stage, "postgres", Some(CONNECT_QUERY), TRANSPARENT);
    let begun = ["app_ro", "app", "7", "Asia/Tokyo", "4MB", "1min"];
    let (mut one, mut other) = (login(&pooler), login(&pooler));
    for name in ["search_path", "app.tenant", "timezone", "statement_timeout", "role"] {
        for code in [
            format!("do $$begin reset {name}; end$$"),
            format!("do $$begin execute 'reset {name}'; end$$"),
            format!("do $$begin perform set_config('{name}', null, false); end$$"),
        ] {
            run(&mut one, &code);
            assert_eq!(ask(&mut one), begun, "{code}");
            assert_eq!(ask(&mut other), begun, "{code}");
            let both = [frontend::query(&code), frontend::query(QUESTION)].concat();
            one.send(&both).expect("connected");
            let answers = [one.answer(), one.answer()].map(|answer| answer.expect("connected"));
            let row: Vec<_> = answers[1].rows[0].iter().flatten().collect();
            assert_eq!(row, begun, "{code}, and the question with it");
        }
    }
}

/// One text ends the role and sets another one by code, or none. `alter role … set role` gives the login a role that nobody is to have.
#[test]
fn a_role_that_code_sets_behind_a_reset_is_the_sessions() {
    let stage = stage();
    for (user, query) in [("postgres", CONNECT_QUERY), ("owner", "set role other")] {
        let pooler = pooler(&stage, user, Some(query), TRANSPARENT);
        let role = |client: &mut Client| ask(client)[0].clone();
        let (mut one, mut next) = (login(&pooler), login(&pooler));
        let begun = role(&mut one);
        run(&mut one, "reset role; do $$begin set role pg_monitor; end$$");
        for _ in 0..2 {
            assert_eq!((role(&mut one), role(&mut next)), ("pg_monitor".to_owned(), begun.clone()), "{user}");
        }
        run(&mut one, "reset role; do $$begin perform 1; end$$");
        for _ in 0..2 {
            assert_eq!((role(&mut one), role(&mut next)), (begun.clone(), begun.clone()), "{user}");
        }
    }
}

/// ALTER ROLE gives a setting with a dot a value: a session that resets its own has that, on each server.
#[test]
fn a_reset_of_a_setting_with_a_dot_brings_back_the_value_of_alter_role() {
    let stage = stage();
    let pooler = pooler(&stage, "owner", None, TRANSPARENT);
    let (mut one, mut other) = (login(&pooler), login(&pooler));
    for text in ["reset app.tenant", "set app.tenant to default", "reset all"] {
        run(&mut one, "set app.tenant = '8'");
        run(&mut other, "set app.tenant = '9'");
        run(&mut one, text);
        for _ in 0..2 {
            assert_eq!((&*ask(&mut other)[2], &*ask(&mut one)[2]), ("9", "7"), "{text}");
        }
    }
}

/// A function with its owner's rights, and one that takes a role: the login may neither set nor reset what they set.
#[test]
fn what_code_sets_with_more_rights_than_the_login_has_stays_its_sessions() {
    let stage = Stage::set(&Wishes { workers: 1, ..Wishes::default() });
    let password = stage.cluster.password();
    drop(stage.direct(&format!(
        "create role plain login password '{password}'; create role boss superuser; grant boss to plain; \
         create function as_owner() returns text language sql security definer as $$select set_config('log_statement', 'mod', false)$$; \
         create function as_boss() returns text language plpgsql as \
         $$begin set role boss; perform set_config('log_statement', 'mod', false); reset role; return 'mod'; end$$"
    )));
    let lines = "pool_mode = transaction\npool_fidelity = transparent\nchaos_check = 1\ndefault_pool_size = 2\n";
    let pooler = pooler(&stage, "plain", None, lines);
    let shown = |client: &mut Client| run(client, "show log_statement").rows;
    let is = |value: &str| vec![vec![Some(value.to_owned())]];
    for deed in ["select as_owner()", "select as_boss()"] {
        let mut one = login(&pooler);
        assert_eq!(run(&mut one, deed).rows, is("mod"), "{deed}");
        let mut others = [login(&pooler), login(&pooler)];
        for _ in 0..2 {
            assert_eq!(shown(&mut one), is("mod"), "{deed}");
            others.iter_mut().for_each(|other| assert_eq!(shown(other), is("none"), "after {deed}"));
        }
        drop(one);
        others.iter_mut().for_each(|other| assert_eq!(shown(other), is("none"), "after {deed}"));
    }
    assert!(pooler.log().lines().all(|line| !line.contains(" FATAL ")), "{}", pooler.log());
}
