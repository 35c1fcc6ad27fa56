//! Which effects the statements of a text have.

use super::*;
use sql::Rules;

fn read(text: &str) -> Vec<Effect> {
    let tracked = Tracked::new(&["IntervalStyle".to_owned()]);
    let effects = Effects::read(&Text::new(text.as_bytes(), Rules::default()), &tracked);
    effects.iter().cloned().collect()
}

fn set(name: &str, clause: Option<&str>) -> Effect {
    let again = clause.map(|clause| Again::Clause(clause.as_bytes().into()));
    Effect::Change([SettingChange::Set { name: name.as_bytes().into(), again }].into())
}

fn config(name: &str, value: &str) -> Effect {
    let again = Some(Again::Value(value.as_bytes().into()));
    Effect::Change([SettingChange::Set { name: name.as_bytes().into(), again }].into())
}

fn asked(name: &str, others: bool) -> Effect {
    Effect::QueryAgain { names: [name.as_bytes().into()].into(), parameters: Vec::new(), others }
}

fn prepared(text: &str, run: Option<Effect>) -> SqlStatement {
    SqlStatement { text: Some(text.as_bytes().into()), run: run.map(Arc::new) }
}

fn asked_by(parameters: &[u16], others: bool) -> Effect {
    Effect::QueryAgain { names: [].into(), parameters: parameters.to_vec(), others }
}

fn reset(name: &str) -> Effect {
    Effect::Change([SettingChange::Reset(name.as_bytes().into())].into())
}

fn tracked_parameter(index: usize, value: Option<&str>, is_local: bool) -> Effect {
    Effect::Parameter { index, value: value.map(|value| value.as_bytes().into()), is_local }
}

#[test]
fn each_statement_has_its_effect() {
    let named = |name: &str| -> Box<[u8]> { name.as_bytes().into() };
    let parameter = |index, value| tracked_parameter(index, value, false);
    let local = |index, value| tracked_parameter(index, value, true);
    let table: [(&str, Effect); 51] = [
        ("select 1", Effect::Nothing),
        ("begin", Effect::Nothing),
        ("commit and chain", Effect::End),
        ("end", Effect::End),
        ("abort", Effect::End),
        ("prepare transaction 'x'", Effect::PrepareTransaction),
        ("savepoint A", Effect::Save(named("a"))),
        ("release \"A\"", Effect::Release(named("A"))),
        ("rollback to a", Effect::RollBackTo(named("a"))),
        ("set Work_Mem = '1MB'", set("work_mem", Some("Work_Mem = '1MB'"))),
        ("set session work_mem to default", reset("work_mem")),
        ("set local work_mem = '1MB'", Effect::SetLocally(named("work_mem"))),
        ("set app.user_id = '7'", set("app.user_id", Some("app.user_id = '7'"))),
        ("set app.x = 'a\\b'", asked("app.x", false)),
        ("set app.x = 'é'", asked("app.x", false)),
        ("set work_mem from current", asked("work_mem", false)),
        ("set time zone 'UTC'", parameter(2, Some("'UTC'"))),
        ("set names 'latin-1'", parameter(Tracked::CLIENT_ENCODING, Some("latin1"))),
        ("set local standard_conforming_strings to no", local(Tracked::STANDARD_STRINGS, Some("off"))),
        ("set standard_conforming_strings = E'o\\x6e'", parameter(Tracked::STANDARD_STRINGS, None)),
        ("set local time zone default", local(2, None)),
        ("set time zone default", Effect::Restart(named("timezone"))),
        ("select set_config('timezone', 'UTC', false)", parameter(2, Some("UTC"))),
        ("select set_config('App.x', '7', false)", config("app.x", "7")),
        ("select set_config('app.x', $1, false)", asked("app.x", false)),
        ("select set_config('app.x', '7', false) from t", asked("app.x", false)),
        ("select set_config($1, '7', false)", asked_by(&[1], false)),
        ("select set_config($2::text, $1, $3), set_config(lower($3), $1, false)", asked_by(&[2], true)),
        ("select set_config($2, $1, true)", Effect::Nothing),
        ("select set_config('app.x', '7', true)", Effect::Nothing),
        ("set intervalstyle = iso_8601", parameter(5, Some("iso_8601"))),
        ("set schema 's'", set("search_path", Some("schema 's'"))),
        ("set role r", set("role", Some("role r"))),
        ("set role none", Effect::Change([SettingChange::NoRole].into())),
        ("set default_text_search_config = 'english'", asked("default_text_search_config", false)),
        (
            "set default_text_search_config = 'a.english'",
            set("default_text_search_config", Some("default_text_search_config = 'a.english'")),
        ),
        ("reset role", reset("role")),
        ("reset transaction_isolation", Effect::Nothing),
        ("set session authorization default", reset("session_authorization")),
        ("set transaction isolation level serializable", Effect::Nothing),
        (
            "set session characteristics as transaction read only",
            set("default_transaction_read_only", Some("default_transaction_read_only='on'")),
        ),
        ("reset all", Effect::Change([SettingChange::ResetAll].into())),
        ("discard sequences", Effect::Unpin(Pins::SEQUENCE)),
        (
            "prepare p as select 1",
            Effect::Prepare(SqlPrepare { name: named("p"), statement: prepared("prepare p as select 1", None) }),
        ),
        ("explain execute P(1)", Effect::Execute(named("p"))),
        ("deallocate prepare p", Effect::Deallocate(named("p"))),
        ("deallocate all", Effect::DeallocateAll),
        ("listen C", Effect::Listen(named("c"))),
        ("unlisten \"C\"", Effect::Unlisten(Some(named("C")))),
        ("unlisten *", Effect::Unlisten(None)),
        ("load 'auto_explain'", Effect::Pin(Pins::LOAD)),
    ];
    for (text, effect) in table {
        assert_eq!(read(text), [effect], "{text}");
    }
}

#[test]
fn what_commits_at_once_says_so_last() {
    let read = |text: &str| {
        let effects = Effects::read(&Text::new(text.as_bytes(), Rules::default()), &Tracked::new(&[]));
        effects.iter().cloned().collect::<Vec<Effect>>()
    };
    assert_eq!(read("discard all"), [Effect::DiscardAll, Effect::Committed]);
    assert_eq!(read("vacuum"), [Effect::Committed]);
}

#[test]
fn what_a_name_stands_for_is_asked_once_a_text() {
    let text = format!("{}prepare q as select set_config('app.q', '1', false);execute q", "execute p;".repeat(1000));
    let mut effects = Effects::read(&Text::new(text.as_bytes(), Rules::default()), &Tracked::new(&[]));
    let (mut names, ran) = (Vec::new(), config("app.p", "7"));
    effects.add_executed(|name| {
        names.push(name.to_vec());
        ran.clone()
    });
    assert_eq!(names, [b"p"]);
    assert_eq!((effects.iter().count(), effects.statements()), (2003, 1002));
    let shared = effects.iter().filter_map(|effect| if let Effect::Change(it) = effect { Some(it) } else { None });
    let Effect::Change(first) = &ran else { panic!("it changes a setting") };
    assert_eq!(shared.filter(|it| Arc::ptr_eq(it, first)).count(), 1000, "they share one copy");
    assert!(effects.iter().any(|effect| *effect == asked("app.q", false)));
}

#[test]
fn calls_without_end_are_not_all_listed() {
    let calls = |count: usize| {
        let calls: Vec<String> = (0..count).map(|number| format!("set_config('a.x{number}', $1, false)")).collect();
        read(&format!("select {}", calls.join(",")))
    };
    let listed = |effects: &[Effect]| match effects {
        [Effect::QueryAgain { names, others, .. }] => (names.len(), *others),
        _ => panic!("{effects:?}"),
    };
    assert_eq!(listed(&calls(limits::UNREAD_MAX)), (limits::UNREAD_MAX, false));
    assert_eq!(listed(&calls(limits::UNREAD_MAX + 1)), (limits::UNREAD_MAX, true));
}

#[test]
fn a_name_is_taken_from_its_parameter() {
    let bound = |value: Option<&'static [u8]>| asked_by(&[2], false).bound(|number| value.filter(|_| number == 2));
    assert_eq!(bound(Some(b"App.Tenant")), asked("app.tenant", false));
    // The server may make something else of these.
    for value in [None, Some(&b""[..]), Some(b"app.x "), Some(b"app.\xe9"), Some(b"app.x\0")] {
        assert_eq!(bound(value), asked_by(&[], true), "{value:?}");
    }
}

#[test]
fn a_text_has_one_effect_for_each_command_tag() {
    assert_eq!(
        read(";; set role r; select 1;; reset role -- x"),
        [set("role", Some("role r")), Effect::Nothing, reset("role")]
    );
}
