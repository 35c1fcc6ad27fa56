//! Bases that servers answer, and what sessions do to them.

use sql::Rules;
use sql::Text;

use super::*;
use crate::state::journal::Journal;

fn tracked() -> Tracked {
    Tracked::new(&[])
}

fn row(settings: &str, named: &str) -> Vec<u8> {
    let mut body = 5_u16.to_be_bytes().to_vec();
    for column in [b"f", b"f", b"f", settings.as_bytes(), named.as_bytes()] {
        body.extend((column.len() as i32).to_be_bytes());
        body.extend_from_slice(column);
    }
    body
}

fn effects(text: &str) -> Effects {
    Effects::read(&Text::new(text.as_bytes(), Rules::default()), &tracked())
}

/// Of servers whose connect_query is `query`, by what PostgreSQL answers then.
fn base(query: &str, settings: &str, named: &str) -> Base {
    let effects = effects(query);
    let question = Base::question(Some(&effects));
    Base::read(&question, &row(settings, named), Some(&effects), &tracked()).expect("it is a row")
}

fn of_role() -> Base {
    base("set role app_ro", "", "'session_authorization'='','role'='app_ro'")
}

/// A session's changes, one after the other, each in a transaction of its own.
fn changed(base: &Base, texts: &[&str]) -> Journal {
    let mut journal = Journal::default();
    for text in texts {
        run(&mut journal, base, text);
        journal.committed();
    }
    journal
}

/// A text is executed.
fn run(journal: &mut Journal, base: &Base, text: &str) {
    for effect in effects(text).iter() {
        match effect {
            Effect::Change(changes) => changes.iter().for_each(|change| _ = journal.change(change, base)),
            Effect::DiscardAll => _ = journal.change(&SettingChange::DiscardAll, base),
            Effect::SetLocally(name) => journal.set_locally(name),
            _ => {}
        }
    }
}

fn difference(wanted: &State, found: &State, base: &Base) -> String {
    let mut out = Vec::new();
    wanted.write_difference(found, base, &mut out);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn the_question_asks_for_the_names_that_postgresql_does_not_list() {
    let names = |query: &str| Base::question(Some(&effects(query))).names;
    let expected: [Box<[u8]>; 2] = [b"app.tenant"[..].into(), b"app.user"[..].into()];
    assert_eq!(
        names("set app.user = '1'; set work_mem = '1MB'; select set_config('App.Tenant', 'x', false)"),
        expected
    );
    let question = Base::question(None);
    assert!(!question.with_settings && question.with_identity, "ALTER ROLE may have set a role");
}

/// A lock on a table of PostgreSQL's catalogue would hold back the logins of all new servers.
#[test]
fn the_question_waits_a_second_for_a_lock_and_that_is_no_setting_of_the_base() {
    let text = |question: &Check| {
        let mut text = Vec::new();
        question.write_text(&mut text);
        String::from_utf8(text).expect("ASCII")
    };
    let waits_long = |query: &str| {
        !text(&Base::question(Some(&effects(query)))).starts_with("SET LOCAL lock_timeout = 1000;SELECT ")
    };
    assert!(text(&Base::question(None)).starts_with("SET LOCAL lock_timeout = 1000;SELECT "));
    assert!(!waits_long("set work_mem = '1MB'") && waits_long("set lock_timeout = '5s'"));
    let listed = "'lock_timeout'='1000','work_mem'='1024'";
    let identity = "'session_authorization'='','role'=''";
    assert_eq!(
        base("set work_mem = '1MB'", listed, identity),
        base("set work_mem = '1MB'", "'work_mem'='1024'", identity)
    );
    let own = base("set lock_timeout = '5s'", "'lock_timeout'='5000'", identity);
    assert_eq!(difference(&own.state, &State::default(), &Base::default()), "SET SESSION \"lock_timeout\"='5000';");
}

#[test]
fn a_server_that_a_session_has_changed_gets_its_base_again() {
    let settings = "'search_path'='app, public','work_mem'='1024'";
    let base =
        base("set search_path = app, public; set work_mem = '1MB'", settings, "'session_authorization'='','role'=''");
    for (text, expected) in [
        ("set work_mem = '2MB'", "SET SESSION \"work_mem\"='1024';"),
        ("set search_path = x", "SELECT pg_catalog.set_config('search_path','app, public',false);"),
        ("set enable_sort = off", "RESET \"enable_sort\";"),
        ("set work_mem = '2MB'; reset work_mem", ""),
        ("reset all", ""),
    ] {
        let journal = changed(&base, &[text]);
        assert_eq!(difference(&State::default(), journal.now(), &base), expected, "{text}");
    }
}

#[test]
fn what_a_session_resets_is_the_base_again_and_its_server_knows_nothing_of_that() {
    let base = base("set work_mem = '1MB'", "'work_mem'='1024'", "'session_authorization'='','role'=''");
    for text in ["reset work_mem", "set work_mem to default", "reset all", "discard all"] {
        let mut journal = changed(&base, &["set work_mem = '9MB'", text]);
        assert!(journal.is_reverted() && journal.now().is_initial(), "{text}");
        let found = journal.take_reverted(&base, false);
        assert_eq!(difference(journal.now(), &found, &base), "SET SESSION \"work_mem\"='1024';", "{text}");
    }
    assert!(!changed(&base, &["reset enable_sort"]).is_reverted(), "PostgreSQL has done all of it");
    assert!(!changed(&base, &["reset role"]).is_reverted());
}

#[test]
fn a_role_that_servers_begin_with_is_nobodys_to_take_away() {
    let base = of_role();
    for (text, expected) in [
        ("set role none", "SET SESSION role='app_ro';"),
        ("set role other", "SET SESSION role='app_ro';"),
        ("set session authorization ann", "RESET SESSION AUTHORIZATION;RESET ROLE;SET SESSION role='app_ro';"),
    ] {
        let journal = changed(&base, &[text]);
        assert!(!journal.is_reverted(), "{text}");
        assert_eq!(difference(&State::default(), journal.now(), &base), expected, "{text}");
    }
    for text in ["reset role", "discard all", "reset session authorization", "set session authorization default"] {
        let mut journal = changed(&base, &[text]);
        assert!(journal.is_reverted() && journal.now().is_initial(), "{text}");
        let found = journal.take_reverted(&base, false);
        assert_eq!(difference(journal.now(), &found, &base), "SET SESSION role='app_ro';", "{text}");
    }
    assert!(!changed(&base, &["reset all"]).is_reverted(), "RESET ALL leaves the role");
}

#[test]
fn what_was_set_while_the_role_was_gone_keeps_its_server() {
    let set = "set session_replication_role = replica";
    assert!(changed(&of_role(), &["reset role", set]).now().is_bound(), "the role that is brought back may not set it");
    assert!(!changed(&of_role(), &[set]).now().is_bound());
    assert!(!changed(&of_role(), &["reset role", "set work_mem = '1MB'"]).now().is_bound(), "anybody may set this");
}

#[test]
fn a_session_without_a_role_has_none_on_every_server() {
    let base = of_role();
    let journal = changed(&base, &["set role none"]);
    assert_eq!(difference(journal.now(), &State::default(), &base), "SET SESSION role none;");
    // And without a base it has nothing to say.
    assert!(changed(&LOGIN, &["set role none"]).now().is_initial());
}

#[test]
fn what_needs_the_logins_rights_or_is_not_known_is_cleared() {
    let base = base(
        "set log_statement = 'none'; select set_app()",
        "'log_statement'='none'",
        "'session_authorization'='','role'=''",
    );
    let clears = |text: &str| changed(&base, &[text]).now().needs_clearing(&base);
    assert!(clears("set log_statement = 'all'") && clears("set app.user = '1'") && !clears("set work_mem = '1MB'"));
    assert!(!changed(&LOGIN, &["set app.user = '1'"]).now().needs_clearing(&LOGIN));
}

#[test]
fn what_the_base_has_no_session_has_set() {
    let base = base(
        "set work_mem = '1MB'; set app.user = '1'; set role app_ro",
        "'work_mem'='1024'",
        "'session_authorization'='','role'='app_ro','app.user'='1'",
    );
    for (name, value, is) in [
        (&b"work_mem"[..], &b"1024"[..], true),
        (b"work_mem", b"2048", false),
        (b"role", b"app_ro", true),
        (b"role", b"other", false),
        (b"role", b"", false),
        (b"session_authorization", b"", true),
        (b"app.user", b"1", true),
        (b"enable_sort", b"off", false),
    ] {
        assert_eq!(base.is(name, value), is, "{}={}", name.escape_ascii(), value.escape_ascii());
    }
    let mut text = Vec::new();
    base.write(&mut text);
    let text = String::from_utf8(text).expect("ASCII");
    assert_eq!(text, "SET SESSION \"app\".\"user\"='1';SET SESSION \"work_mem\"='1024';SET SESSION role='app_ro';");
}

#[test]
fn a_server_that_answers_something_else_has_no_base_that_is_known() {
    let question = Base::question(None);
    assert_eq!(Base::read(&question, b"\0\x01", None, &tracked()), None);
    let unasked = Base::unasked(true);
    assert!(!unasked.is_login() && Base::unasked(false).is_login());
    assert!(
        changed(&unasked, &["set role other"]).now().needs_clearing(&unasked),
        "its role may be another than the login's"
    );
    assert!(unasked.loses_more(&SettingChange::Reset(b"role"[..].into())));
}

#[test]
fn what_a_reset_takes_away_and_no_name_brings_back_is_known_to_be_lost() {
    let loses = |base: &Base, text: &str| {
        let effects = effects(text);
        let changes = effects.iter().flat_map(|effect| match effect {
            Effect::Change(changes) => changes.to_vec(),
            Effect::DiscardAll => vec![SettingChange::DiscardAll],
            _ => Vec::new(),
        });
        changes.into_iter().any(|change| base.loses_more(&change))
    };
    let unlisted = base("select app.init()", "", "'session_authorization'='','role'=''");
    for text in ["discard all", "reset all", "reset app.tenant"] {
        assert!(loses(&unlisted, text) && !loses(&of_role(), text), "{text}");
    }
    assert!(!loses(&unlisted, "reset work_mem") && !loses(&unlisted, "set app.tenant = '1'"));
    let guarded = base("set log_statement = 'all'", "'log_statement'='all'", "'session_authorization'='','role'=''");
    assert!(
        loses(&guarded, "reset all") && loses(&guarded, "reset log_statement") && !loses(&guarded, "reset work_mem")
    );
    assert!(!changed(&guarded, &["reset all"]).is_reverted(), "a session may not have the rights to set it again");
}

#[test]
fn what_a_rollback_takes_back_is_restored_once_more() {
    let base = of_role();
    let mut journal = changed(&base, &["reset role"]);
    journal.take_reverted(&base, true);
    assert!(!journal.is_reverted());
    journal.rolled_back();
    assert!(journal.is_reverted(), "the reset may have been committed before");
    journal.take_reverted(&base, true);
    journal.committed();
    journal.rolled_back();
    assert!(!journal.is_reverted());
}

#[test]
fn a_local_value_behind_a_reset_stays_until_the_transaction_ends() {
    let base = of_role();
    for (text, is_overlaid) in [
        ("reset role; set local role other", true),
        ("reset role; set local role other; reset role", false),
        ("set local role other; reset role", false),
        ("reset role; set local work_mem = '1MB'", false),
    ] {
        let running = || {
            let mut journal = Journal::default();
            run(&mut journal, &base, text);
            journal
        };
        let mut journal = running();
        assert_eq!(journal.is_reverted(), !is_overlaid, "{text}");
        journal.committed();
        assert!(journal.is_reverted(), "{text}: the server has the login's role behind the transaction");
        let mut undone = running();
        undone.rolled_back();
        assert!(undone.is_reverted(), "{text}: the reset may have been committed before");
    }
}

#[test]
fn a_value_in_an_unknown_encoding_is_not_set_again() {
    let named = "'session_authorization'='','role'='m\u{fc}ller'";
    let base = base("set role \"m\u{fc}ller\"", "", named);
    assert!(!base.is_read() && !base.is_login());
    assert!(changed(&base, &["set role other"]).now().needs_clearing(&base));
}

#[test]
fn a_timeout_of_the_base_outlives_a_shorter_one() {
    let base =
        base("set statement_timeout = 5000", "'statement_timeout'='5000'", "'session_authorization'='','role'=''");
    let journal = changed(&base, &["set statement_timeout = 1"]);
    assert!(journal.now().is_hasty());
    let found = journal.now().unhurried(&base);
    assert_eq!(difference(&State::default(), &found, &base), "SET SESSION \"statement_timeout\"='5000';");
}

#[test]
fn no_role_is_said_where_a_reset_would_bring_one_back() {
    let base = of_role();
    let both = changed(&base, &["set session authorization ann", "set role other"]);
    let without = changed(&base, &["set session authorization ann"]);
    assert_eq!(difference(without.now(), both.now(), &base), "SET SESSION role none;");
}

#[test]
fn a_role_that_connect_query_ends_is_ended_for_every_session() {
    let none = "'session_authorization'='','role'=''";
    for query in ["set role none", "select app.init()", "set session authorization default", "set role to 'none'"] {
        let base = base(query, "", none);
        assert!(base.is(b"role", b"") && !base.is(b"role", b"app_ro"), "{query}");
        for text in ["discard all", "reset role", "reset session authorization"] {
            let mut journal = changed(&base, &[text]);
            assert!(journal.is_reverted() && journal.now().is_initial(), "{query}; {text}");
            let found = journal.take_reverted(&base, false);
            assert_eq!(difference(journal.now(), &found, &base), "SET SESSION role none;", "{query}; {text}");
        }
        assert!(changed(&base, &["set role none"]).now().is_initial(), "{query}: it is the base's");
        let journal = changed(&base, &["set role app_rw"]);
        assert_eq!(difference(&State::default(), journal.now(), &base), "SET SESSION role none;", "{query}");
        let mut text = Vec::new();
        base.write(&mut text);
        assert_eq!(text, b"SET SESSION role none;", "{query}");
    }
    let untouched = base("set work_mem = '1MB'", "'work_mem'='1024'", none);
    assert!(!changed(&untouched, &["reset role"]).is_reverted(), "PostgreSQL has done all of it");
    let journal = changed(&untouched, &["set role app_rw"]);
    assert_eq!(difference(&State::default(), journal.now(), &untouched), "RESET ROLE;");
}
