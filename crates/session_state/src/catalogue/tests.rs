//! Small databases as rows, and the side effects of texts in them.

use super::*;
use sql::{Rules, Summary, Text};

fn body<'a>(name: &'a str, source: &'a str) -> Row<'a> {
    Row::Body { land: Land::Called, name: name.as_bytes(), source: Some(source.as_bytes()) }
}

fn edge<'a>(land: Land, take: Take, name: &'a str, other: &'a str) -> Row<'a> {
    Row::Edge { land, take, name: name.as_bytes(), other: other.as_bytes() }
}

/// On the session.
fn side_effects(catalogue: &Catalogue, text: &str) -> SideEffects {
    all_side_effects(catalogue, text).without(SideEffects::WRITES)
}

fn all_side_effects(catalogue: &Catalogue, text: &str) -> SideEffects {
    catalogue.side_effects(Summary::of(&Text::new(text.as_bytes(), Rules::default())).words())
}

#[track_caller]
fn check(catalogue: &Catalogue, rows: &[(&str, SideEffects)]) {
    for (text, expected) in rows {
        assert_eq!(side_effects(catalogue, text), *expected, "{text}");
    }
}

#[test]
fn an_empty_database_has_only_the_side_effects_of_the_servers_own_functions() {
    let catalogue = Catalogue::new([]);
    check(
        &catalogue,
        &[
            ("select 1 from pg_class", SideEffects::NONE),
            ("insert into t values (1)", SideEffects::NONE),
            ("create table t()", SideEffects::NONE),
            ("select query_to_xml('select 1', true, true, '')", SideEffects::DYNAMIC),
            ("select query_to_xml from t", SideEffects::NONE),
            ("update pg_catalog.pg_settings set setting = 'off' where name = 'row_security'", SideEffects::SETTINGS),
            ("select * from pg_settings", SideEffects::NONE),
        ],
    );
    assert!(catalogue.bytes() < 4096, "{}", catalogue.bytes());
}

#[test]
fn an_unknown_catalogue_may_have_any_side_effect() {
    let catalogue = Catalogue::unknown();
    check(&catalogue, &[("select 1", SideEffects::UNKNOWN), ("", SideEffects::UNKNOWN)]);
    assert_eq!(catalogue.definitions(), SideEffects::UNKNOWN);
}

#[test]
fn functions_hide_what_they_call() {
    let catalogue = Catalogue::new([
        body("outermost", "begin perform middle(); end"),
        body("middle", "select inner1(); select inner2()"),
        body("inner1", "begin create temp table x(); end"),
        body("inner2", "begin perform middle(); perform pg_advisory_lock(1); end"),
        body("clean", "begin perform cleaner(middle); end"),
        body("cleaner", "begin return 1; end"),
        Row::Body { land: Land::Called, name: b"long", source: None },
        Row::Other { land: Land::Called, name: b"snake", keeps: false },
        Row::Other { land: Land::Called, name: b"shared", keeps: true },
        Row::C { land: Land::Called, name: b"sea", extension: None },
        Row::C { land: Land::Called, name: b"digest", extension: Some(b"pgcrypto") },
        Row::Internal { land: Land::Called, name: b"quiet", symbol: b"set_config_by_name" },
    ]);
    let both = SideEffects::TEMPORARY | SideEffects::ADVISORY;
    check(
        &catalogue,
        &[
            ("select outermost()", both),
            ("call s.middle (1)", both),
            ("select inner1()", SideEffects::TEMPORARY),
            ("select inner2()", both),
            ("select clean(), cleaner()", SideEffects::NONE),
            ("select digest(x, 'md5')", SideEffects::NONE),
            ("select long()", SideEffects::UNKNOWN),
            ("select snake(), inner1()", SideEffects::UNKNOWN | SideEffects::TEMPORARY),
            ("select sea()", SideEffects::UNKNOWN),
            ("select shared()", SideEffects::UNKNOWN | SideEffects::LOAD),
            ("select quiet('a', 'b', false)", SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS),
            // Not called.
            ("select outermost from long", SideEffects::NONE),
        ],
    );
}

#[test]
fn a_block_has_the_side_effects_of_its_body() {
    let catalogue =
        Catalogue::new([body("locks", "select pg_advisory_lock(1)"), edge(Land::Filling, Take::All, "t", "nextval")]);
    let side_effects =
        |text: &str| catalogue.side_effects_of_block(text.as_bytes()).side_effects.without(SideEffects::WRITES);
    assert_eq!(side_effects("do $$ begin raise notice 'set x'; end $$"), SideEffects::NONE);
    assert_eq!(
        side_effects("do $$ begin perform locks(); insert into t values (1); end $$"),
        SideEffects::ADVISORY | SideEffects::SEQUENCE
    );
    assert_eq!(
        side_effects("do language plpgsql 'begin perform set_config(''a'', ''b'', true); end'"),
        SideEffects::NONE
    );
    let block = catalogue.side_effects_of_block(b"do $$ begin set a.b = 1; end $$");
    assert_eq!((block.side_effects, block.settings), (SideEffects::SETTINGS, vec![b"a.b".to_vec().into_boxed_slice()]));
    assert_eq!(Catalogue::unknown().side_effects_of_block(b"do $$ begin end $$").side_effects, SideEffects::UNKNOWN);
}

#[test]
fn a_function_of_a_row_may_be_named_as_its_column() {
    let source = Some(&b"begin listen x; end"[..]);
    let catalogue = Catalogue::new([Row::Body { land: Land::Named, name: b"f", source }]);
    check(&catalogue, &[("select t.f from t", SideEffects::LISTEN), ("select f(t) from t", SideEffects::LISTEN)]);
}

#[test]
fn tables_hide_what_happens_when_they_are_written_to() {
    let catalogue = Catalogue::new([
        body("audit", "begin perform set_config('audit.on', 'x', false); return new; end"),
        edge(Land::Writing, Take::All, "orders", "audit"),
        edge(Land::Filling, Take::All, "orders", "nextval"),
        // Deleting a customer deletes orders.
        edge(Land::Writing, Take::All, "customers", "orders"),
        edge(Land::Same, Take::All, "order_view", "orders"),
        edge(Land::Same, Take::All, "orders_of_all", "orders"),
        body("reads", "select count(*) from orders"),
        body("writes", "insert into orders values (1)"),
    ]);
    let (written, filled) = (SideEffects::SETTINGS, SideEffects::SETTINGS | SideEffects::SEQUENCE);
    check(
        &catalogue,
        &[
            ("select * from orders, customers, order_view", SideEffects::NONE),
            ("insert into orders values (1)", filled),
            ("copy orders from stdin", filled),
            ("with x as (delete from customers returning *) select * from x", filled),
            ("update order_view set x = 1", written),
            ("update order_view set x = default", filled),
            ("merge into orders_of_all using x on true when matched then delete", filled),
            ("select reads()", SideEffects::NONE),
            ("select writes()", filled),
            ("insert into other select reads()", SideEffects::NONE),
        ],
    );
    assert_eq!(catalogue.settings(), [b"audit.on".to_vec().into_boxed_slice()]);
}

#[test]
fn views_and_policies_hide_what_happens_when_they_are_read() {
    let catalogue = Catalogue::new([
        body("f", "begin perform pg_advisory_lock(1); end"),
        edge(Land::Same, Take::All, "v", "f"),
        edge(Land::Same, Take::All, "w", "v"),
        edge(Land::Named, Take::Reading, "secrets", "f"),
        edge(Land::Same, Take::All, "set_view", "set_config"),
        edge(Land::Named, Take::All, "positive", "f"),
    ]);
    let locks = SideEffects::ADVISORY;
    check(
        &catalogue,
        &[
            ("select * from w", locks),
            ("table secrets", locks),
            ("select 1::positive", locks),
            ("select * from set_view", SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS),
            ("select * from x", SideEffects::NONE),
        ],
    );
}

#[test]
fn rules_and_views_run_notify() {
    let catalogue = Catalogue::new([
        edge(Land::Writing, Take::All, "ruled", "pg_notify"),
        edge(Land::Same, Take::All, "told", "pg_notify"),
        edge(Land::Same, Take::All, "over", "told"),
        body("fills", "begin insert into ruled values (1); end"),
    ]);
    let notifies = |text: &str| all_side_effects(&catalogue, text).any(SideEffects::NOTIFIES);
    for text in ["insert into ruled values (1)", "select * from told", "table over", "select fills()"] {
        assert!(notifies(text), "{text}");
    }
    assert!(!notifies("select * from ruled") && !notifies("insert into t values (1)"));
}

#[test]
fn what_no_text_names_is_everywhere_if_it_is_known() {
    let unknown = Row::C { land: Land::Called, name: b"c_eq", extension: Some(b"mine") };
    let operator = edge(Land::Everywhere, Take::Known, "", "c_eq");
    check(&Catalogue::new([unknown, operator]), &[("select a === b", SideEffects::NONE)]);

    let known = body("p_eq", "begin listen x; end");
    let operator = edge(Land::Everywhere, Take::Known, "", "p_eq");
    check(&Catalogue::new([known, operator]), &[("select a === b", SideEffects::LISTEN)]);
}

#[test]
fn an_operator_of_an_extension_that_was_checked_writes_nothing_by_its_functions_name() {
    let hstore = |land| Row::C { land, name: b"delete", extension: Some(b"hstore") };
    let operator = || edge(Land::Everywhere, Take::Known, "", "delete");
    let catalogue = Catalogue::new([hstore(Land::Called), operator()]);
    assert_eq!(all_side_effects(&catalogue, "select pg_sleep(1)"), SideEffects::NONE);

    let own = Catalogue::new([body("delete", "begin insert into t values (1); end"), operator()]);
    assert_eq!(all_side_effects(&own, "select pg_sleep(1)"), SideEffects::WRITES, "this one writes by its body");
}

#[test]
fn event_triggers_are_met_by_definitions() {
    let catalogue =
        Catalogue::new([body("f", "begin create temp table x(); end"), edge(Land::Definitions, Take::All, "", "f")]);
    check(
        &catalogue,
        &[
            ("create table t()", SideEffects::TEMPORARY),
            ("drop table t", SideEffects::TEMPORARY),
            ("grant select on t to u", SideEffects::TEMPORARY),
            ("select 1", SideEffects::NONE),
            ("insert into t values (1)", SideEffects::NONE),
        ],
    );
    assert_eq!(catalogue.definitions(), SideEffects::TEMPORARY | SideEffects::WRITES);
}

#[test]
fn names_that_are_keywords_too_are_both() {
    let catalogue =
        Catalogue::new([body("insert", "begin listen x; end"), edge(Land::Writing, Take::All, "t", "nextval")]);
    check(
        &catalogue,
        &[("insert into t values (1)", SideEffects::SEQUENCE), ("select insert(1)", SideEffects::LISTEN)],
    );
}

#[test]
fn beyond_its_bounds_any_side_effect_is_possible() {
    let words: String = (0..10_000).map(|number| format!("w{number} ")).collect();
    let mut reading = CatalogueBuilder::new();
    for number in 0..60 {
        reading.row(&body(&format!("f{number}"), &words));
    }
    assert_eq!(side_effects(&reading.finish(), "select 1"), SideEffects::UNKNOWN);

    let mut reading = CatalogueBuilder::new();
    for number in 0..70 {
        let source = format!("begin set a{number}.b = 1; end");
        reading.row(&body(&format!("f{number}"), &source));
    }
    let catalogue = reading.finish();
    assert_eq!(catalogue.settings().len(), units::limits::CATALOGUE_SETTINGS_MAX);
    assert_eq!(side_effects(&catalogue, "select f1()"), SideEffects::SETTINGS);
    assert_eq!(side_effects(&catalogue, "select f69()"), SideEffects::SETTINGS | SideEffects::DYNAMIC_SETTINGS);
}

#[test]
fn many_names_are_each_found_and_no_others() {
    let names: Vec<String> = (0..5_000).map(|number| format!("f{number}")).collect();
    let catalogue = Catalogue::new(names.iter().map(|name| body(name, "begin listen x; end")));
    for number in 0..10_000 {
        let expected = if number < 5_000 { SideEffects::LISTEN } else { SideEffects::NONE };
        assert_eq!(side_effects(&catalogue, &format!("select f{number}()")), expected, "f{number}");
    }
    // 24 bytes an entry, two of the filter, and what the filter is larger for being a power of two.
    assert!(catalogue.bytes() < 200_000, "{}", catalogue.bytes());
}

#[test]
fn a_long_chain_is_followed_to_its_end() {
    let names: Vec<String> = (0..=20_000).map(|number| format!("f{number}")).collect();
    let bodies: Vec<String> = (0..20_000).map(|number| format!("begin perform f{}(); end", number + 1)).collect();
    let mut reading = CatalogueBuilder::new();
    for (name, source) in names.iter().zip(&bodies) {
        reading.row(&body(name, source));
    }
    reading.row(&body("f20000", "begin listen x; end"));
    assert_eq!(side_effects(&reading.finish(), "select f0()"), SideEffects::LISTEN);
}

#[test]
fn functions_and_views_write_where_something_inside_them_does() {
    let catalogue = Catalogue::new([
        body("logs", "begin insert into log values (1); end"),
        body("calls", "select logs()"),
        body("counts", "select count(*) from t"),
        edge(Land::Named, Take::Reading, "v", "calls"),
        edge(Land::Writing, Take::All, "audited", "logs"),
        Row::Internal { land: Land::Called, name: b"makes", symbol: b"lo_create" },
    ]);
    let writes = |text: &str| all_side_effects(&catalogue, text).any(SideEffects::WRITES);
    for text in
        ["select logs()", "select calls()", "select * from v", "select makes(0)", "insert into audited values (1)"]
    {
        assert!(writes(text), "{text}");
    }
    for text in ["select counts()", "select * from audited", "select logs from t", "select count(*) from t"] {
        assert!(!writes(text), "{text}");
    }
}
