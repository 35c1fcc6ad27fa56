//! Pictures: what is drawn from the same answers in terminals of several sizes, kept as text in `screens/`. `UPDATE=1` writes them.
//!
//! Names, tags and statements in them are hostile.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use crate::plain::lines_of;
use crate::rows::table;
use crate::screen::{Beginning, Heard, Palette, Screen};
use crate::text::width;
use crate::views::View;
use crate::{Effect, Key, Table, draw, text_of};

const CULPRIT: &str = "UPDATE items SET n = n + 1\nWHERE id = 7 /* controller='Report\u{1b}[2J' */";

// tidy: a table of answers
fn answers() -> Vec<(String, Result<Table, String>)> {
    let totals = table(
        &["name", "value"],
        &[
            &["total_xact_count", "100000"],
            &["avg_xact_count", "1234"],
            &["avg_query_count", "2468"],
            &["avg_client_bytes", "1234567"],
            &["avg_server_bytes", "23456789"],
        ],
    );
    let pools = table(
        &[
            "database",
            "user",
            "cl_active",
            "cl_waiting",
            "sv_active",
            "sv_idle",
            "sv_login",
            "maxwait",
            "maxwait_us",
            "pool_mode",
        ],
        &[
            &["postgres", "postgres", "1", "0", "0", "2", "0", "0", "0", "transaction"],
            &["shop", "app", "120", "34", "18", "0", "2", "12", "345678", "transaction"],
            &["名前\u{202e}", "e\u{301}ve\n\u{1b}]0;title\u{7}", "1", "0", "1", "1", "0", "0", "0", "session"],
        ],
    );
    let holders = table(
        &[
            "database",
            "user",
            "waiting",
            "held",
            "reason",
            "idle",
            "blocking",
            "server",
            "pid",
            "client_id",
            "client_addr",
            "application_name",
            "tags",
            "query",
        ],
        &[
            &[
                "shop",
                "app",
                "34",
                "93.417",
                "idle in transaction",
                "90.104",
                "50",
                "10.0.0.9:5432",
                "4711",
                "17",
                "10.0.0.5",
                "billing \u{1b}[31m",
                "controller=Report\u{200f}",
                CULPRIT,
            ],
            &[
                "shop",
                "app",
                "34",
                "3.2",
                "active",
                "",
                "0",
                "10.0.0.9:5432",
                "4712",
                "18",
                "10.0.0.6",
                "工单系统",
                "",
                "SELECT * FROM a\tWHERE b = '\u{202e}x'",
            ],
            &[
                "shop",
                "app",
                "34",
                "0.02",
                "active",
                "",
                "0",
                "10.0.0.9:5432",
                "4713",
                "19",
                "10.0.0.7",
                "web",
                "",
                "SELECT 1",
            ],
        ],
    );
    let locks = table(
        &[
            "depth",
            "server",
            "pid",
            "tree",
            "blocking",
            "blocked_by",
            "waits_for",
            "object",
            "waiting",
            "blocks_with",
            "blocks_on",
            "state",
            "application_name",
            "client_id",
            "query",
            "note",
        ],
        &[
            &[
                "0",
                "10.0.0.9:5432",
                "4711",
                "4711",
                "50",
                "",
                "",
                "",
                "",
                "ShareLock",
                "orders",
                "active",
                "deploy",
                "17",
                "CREATE INDEX ON orders (n)",
                "CREATE INDEX, in the way of 50: CREATE INDEX CONCURRENTLY lets writers go on",
            ],
            &[
                "1",
                "10.0.0.9:5432",
                "4712",
                "└─ 4712",
                "0",
                "4711",
                "RowExclusiveLock",
                "orders",
                "12.3",
                "",
                "",
                "active",
                "web",
                "18",
                "INSERT INTO orders VALUES (1)",
                "",
            ],
            &[
                "1",
                "10.0.0.9:5432",
                "4720",
                "└─ 4720",
                "0",
                "4711",
                "RowExclusiveLock",
                "orders",
                "11.1",
                "",
                "",
                "active",
                "psql\u{7f}",
                "",
                "INSERT INTO orders VALUES (2)",
                "",
            ],
        ],
    );
    let why = table(
        &["database", "user", "waiting", "queue", "sentence"],
        &[&[
            "shop",
            "app",
            "34",
            "consequence",
            "34 clients of shop/app wait, because 19 of its 20 servers wait behind CREATE INDEX orders of deploy\u{1b}[31m, which holds ShareLock on \
             orders, in its transaction for 12 s. More servers would not help. To end it: KILL_CLIENT 17;",
        ]],
    );
    let waits = table(
        &["name", "samples", "percent", "max", "avg", "seen", "looks", "from", "to"],
        &[
            &["Pool: Server", "1980", "62.5", "40", "33.00", "60", "60", "", ""],
            &["Lock: transactionid", "900", "28.4", "15", "15.00", "60", "60", "", ""],
            &["CPU", "288", "9.1", "8", "4.80", "55", "60", "", ""],
        ],
    );
    let clients = table(
        &["type", "user", "database", "state", "addr", "port", "wait", "id", "application_name"],
        &[&["C", "app", "shop", "active", "10.0.0.5", "40000", "0", "17", "billing \u{1b}[31m"]],
    );
    let activity = table(
        &[
            "server",
            "pid",
            "origin",
            "database",
            "user",
            "application_name",
            "client_addr",
            "state",
            "client_id",
            "query_age",
            "tags",
            "query",
        ],
        &[
            &[
                "10.0.0.9:5432",
                "4711",
                "client",
                "shop",
                "app",
                "billing \u{1b}[31m",
                "10.0.0.5",
                "idle in transaction",
                "17",
                "93.4",
                "controller=Report",
                CULPRIT,
            ],
            &["10.0.0.9:5432", "99", "stranger", "shop", "dba", "psql", "", "active", "", "1.5", "", "VACUUM"],
        ],
    );
    let unknown = Err("08P01: invalid command 'SHOW QUERIES', use SHOW HELP;".to_owned());
    [
        ("SHOW WHY", Ok(why)),
        ("SHOW TOTALS", Ok(totals)),
        ("SHOW POOLS", Ok(pools)),
        ("SHOW HOLDERS", Ok(holders)),
        ("SHOW LOCKS", Ok(locks)),
        ("SHOW WAITS BY EVENT LAST 60s", Ok(waits.clone())),
        ("SHOW WAITS BY EVENT LAST 5min", Ok(waits)),
        ("SHOW CLIENTS", Ok(clients)),
        ("SHOW ACTIVITY", Ok(activity)),
        ("SHOW QUERIES", unknown),
    ]
    .map(|(sql, answer)| (sql.to_owned(), answer))
    .into()
}

fn screen(view: &str) -> Screen {
    let mut screen = Screen::new("dba@pooler.example:6432", Palette::Colours);
    screen.begin(&Beginning { view: Some(view.to_owned()), ..Beginning::default() }).expect("a view");
    screen.take(Heard::Answers(answers()), Duration::from_secs(1));
    screen
}

fn drawn(screen: &Screen, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("memory");
    terminal.draw(|frame| draw(screen, frame)).expect("memory");
    let cells = terminal.backend().buffer();
    for cell in cells.content() {
        assert!(!cell.symbol().contains(char::is_control), "{:?}", cell.symbol());
        // On light and on dark backgrounds these can be read.
        assert!(matches!(cell.fg, Color::Reset | Color::Red | Color::Magenta) && cell.bg == Color::Reset);
    }
    let lines = lines_of(cells);
    for line in &lines {
        assert!(width(line) <= usize::from(columns), "{line}");
        assert!(!line.contains(['\u{202e}', '\u{200f}', '\u{1b}', '\u{7}', '\u{7f}']), "{line:?}");
    }
    lines
}

fn press(screen: &mut Screen, keys: &str) -> Effect {
    let key = |c: char| match c {
        '\n' => Key::Enter,
        '\u{1b}' => Key::Escape,
        '↓' => Key::Down,
        '→' => Key::Right,
        c => Key::Char(c),
    };
    keys.chars().map(|c| screen.step(key(c))).last().expect("a key")
}

#[allow(clippy::disallowed_methods, reason = "a test reads what it compares with")]
fn compare(name: &str, screen: &Screen) {
    for (columns, rows) in [(40, 12), (80, 24), (150, 40)] {
        let picture = drawn(screen, columns, rows).join("\n") + "\n";
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("screens/{name}-{columns}x{rows}.txt"));
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("the tree can be written to");
            fs::write(&path, &picture).expect("the tree can be written to");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(picture, kept, "{}: UPDATE=1 cargo test -p top", path.display());
    }
}

#[test]
fn each_view_in_three_sizes() {
    for view in ["overview", "pools", "waits", "statements", "holders", "locks", "clients"] {
        compare(view, &screen(view));
    }
}

/// The answers of a console while a primary is frozen.
fn failover() -> Vec<(String, Result<Table, String>)> {
    let why = table(
        &["database", "user", "waiting", "waited", "queue", "sentence", "reason"],
        &[&[
            "shop",
            "",
            "34",
            "6.5",
            "consequence",
            "shop: no host accepts writes, for 7 s (10.0.0.5:5432: it does not answer, 10.0.0.6:5432: a standby, db3\u{1b}[2J:5432: a standby). \
             34 clients wait, until failover_wait is over. Promoting a standby is for Patroni, repmgr or you: SHOW HOSTS;",
            "no primary",
        ]],
    );
    let names = ["host", "port", "up", "role", "timeline", "lag", "epoch", "no_primary", "probed", "why", "databases"];
    let hosts = table(
        &names,
        &[
            &["10.0.0.5", "5432", "0", "", "", "", "3", "1", "7010", "it does not answer", "shop,reports"],
            &["10.0.0.6", "5432", "1", "standby", "7", "8192", "", "1", "41", "a standby", "shop,reports"],
            &["db3\u{1b}[2J", "5432", "1", "standby", "7", "73400320", "", "1", "43", "a standby", "shop,reports"],
        ],
    );
    let is_other = |(sql, _): &(String, Result<Table, String>)| sql != "SHOW WHY";
    let own = [("SHOW WHY".to_owned(), Ok(why)), ("SHOW HOSTS".to_owned(), Ok(hosts))];
    answers().into_iter().filter(is_other).chain(own).collect()
}

#[test]
fn a_database_that_is_held_is_said_first_and_each_host_is_shown() {
    let mut screen = screen("overview");
    screen.take(Heard::Answers(failover()), Duration::from_secs(2));
    compare("failover", &screen);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("memory");
    terminal.draw(|frame| draw(&screen, frame)).expect("memory");
    assert_eq!(terminal.backend().buffer()[(10, 2)].fg, Color::Red, "the verdict cannot be missed");
    press(&mut screen, "2B");
    assert_eq!(screen.questions(), ["SHOW HOSTS"]);
    compare("hosts", &screen);
}

#[test]
fn what_is_known_of_a_client_with_its_statement_in_full() {
    let mut screen = screen("holders");
    assert_eq!(press(&mut screen, "\n"), Effect::Ask);
    assert_eq!(screen.questions()[0], "SHOW ACTIVITY");
    compare("look", &screen);
    let gone = answers().into_iter().map(|(sql, _)| (sql, Ok(Table::default()))).collect();
    screen.take(Heard::Answers(gone), Duration::from_secs(2));
    assert!(drawn(&screen, 80, 24)[2].contains("client 17 is gone; as seen last:"));
    press(&mut screen, "\u{1b}");
    assert_eq!(screen.questions(), ["SHOW HOLDERS"]);
}

#[test]
fn help_in_three_sizes() {
    let mut screen = screen("pools");
    press(&mut screen, "?");
    compare("help", &screen);
    press(&mut screen, "q");
    assert!(drawn(&screen, 80, 24)[2].starts_with("pools: 3 rows"), "any key goes back");
}

#[test]
fn a_query_is_cancelled_after_a_yes_to_the_client_that_was_chosen() {
    let mut screen = screen("holders");
    assert_eq!(press(&mut screen, "c"), Effect::None);
    let footer = |screen: &Screen| drawn(screen, 100, 24).pop().expect("a line");
    assert!(footer(&screen).starts_with("Cancel the query of client 17 (billing \\x1b[31m, 10.0.0.5)? y: yes"));
    // Rows that come meanwhile are others.
    let others = table(&["client_id", "held"], &[&["99", "1000"]]);
    screen.take(Heard::Answers(vec![("SHOW HOLDERS".to_owned(), Ok(others))]), Duration::from_secs(2));
    let Effect::Order(order) = press(&mut screen, "y") else { panic!("an order is given") };
    assert_eq!(order.sql(), "KILL_QUERY 17");
    screen.take(
        Heard::Done(order, Err("08P01: invalid command 'KILL_QUERY 17', use SHOW HELP;".to_owned())),
        Duration::from_secs(3),
    );
    assert_eq!(footer(&screen), "this pgweir has no KILL_QUERY");
    assert_eq!(press(&mut screen, "Kn"), Effect::None, "n is no yes");
    let Effect::Order(order) = press(&mut screen, "Ky") else { panic!("an order is given") };
    assert_eq!(order.sql(), "KILL_CLIENT 99");
    screen.take(Heard::Done(order, Ok(())), Duration::from_secs(4));
    assert_eq!(footer(&screen), "client 99: ended");
}

#[test]
fn a_backend_that_is_no_clients_is_not_ended_here() {
    let mut screen = screen("clients");
    press(&mut screen, "↓K");
    assert!(drawn(&screen, 100, 24).pop().expect("a line").contains("SELECT pg_terminate_backend(99) at PostgreSQL"));
    assert_eq!(press(&mut screen, "y"), Effect::None);
}

#[test]
fn rows_are_filtered_and_sorted_by_any_column() {
    let mut screen = screen("holders");
    press(&mut screen, "/工单\n");
    let lines = drawn(&screen, 100, 24);
    assert!(lines[2].starts_with("holders: 1 of 3 rows  filter: 工单"), "{}", lines[2]);
    press(&mut screen, "\u{1b}>");
    let lines = drawn(&screen, 100, 24);
    assert!(lines[3].contains("held▾") && lines[4].trim_start().starts_with("93.417"), "{lines:?}");
    press(&mut screen, "r");
    let lines = drawn(&screen, 100, 24);
    assert!(lines[3].contains("held▴") && lines[4].trim_start().starts_with("0.02"), "{lines:?}");
    press(&mut screen, "<");
    assert!(drawn(&screen, 100, 24)[3].contains("query▾"), "round the end");
    press(&mut screen, "o→");
    assert!(!drawn(&screen, 100, 24)[3].contains("held"), "columns to the right");
}

#[test]
fn views_tables_and_spans_by_keys() {
    let mut screen = screen("overview");
    assert_eq!(press(&mut screen, "4"), Effect::Ask);
    press(&mut screen, "b");
    assert_eq!(screen.questions()[0], "SHOW WAITS BY STATEMENT LAST 5min");
    press(&mut screen, "s");
    assert_eq!(screen.questions()[0], "SHOW WAITS BY STATEMENT LAST 15min");
    press(&mut screen, "S");
    for _ in 0..20 {
        screen.step(Key::Backspace);
    }
    press(&mut screen, "from '14:03' last 30s\n");
    assert_eq!(screen.questions()[0], "SHOW WAITS BY STATEMENT from '14:03' last 30s");
    screen.step(Key::Tab);
    assert_eq!(screen.questions(), ["SHOW QUERIES"]);
    screen.step(Key::BackTab);
    press(&mut screen, "B");
    assert_eq!(screen.questions()[0], "SHOW WAITS BY EVENT from '14:03' last 30s");
    assert_eq!(press(&mut screen, "q"), Effect::Quit);
    assert_eq!(screen.step(Key::Interrupt), Effect::Quit);
}

#[test]
fn a_console_that_is_lost_is_said_and_the_last_rows_stay() {
    let mut screen = screen("holders");
    screen.take(Heard::Lost("cannot connect to \u{1b}[5m".to_owned()), Duration::from_secs(2));
    let lines = drawn(&screen, 80, 24);
    assert!(lines[0].ends_with("LOST"), "{}", lines[0]);
    assert_eq!(lines.last().expect("a line"), "trying again: cannot connect to \\x1b[5m");
    assert!(lines[4].contains("93.417"));
    screen.take(Heard::Answers(answers()), Duration::from_secs(3));
    assert!(!drawn(&screen, 80, 24)[0].contains("LOST"));
    press(&mut screen, "p");
    assert!(drawn(&screen, 80, 24)[0].ends_with("PAUSED"));
}

#[test]
fn without_colours_there_are_none() {
    let mut screen = screen("holders");
    screen.palette = Palette::Plain;
    for view in "1236781".chars() {
        screen.step(Key::Char(view));
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).expect("memory");
        terminal.draw(|frame| draw(&screen, frame)).expect("memory");
        assert!(terminal.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset));
    }
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).expect("memory");
    screen.step(Key::Char('6'));
    terminal.draw(|frame| draw(&screen, frame)).expect("memory");
    let selected = &terminal.backend().buffer()[(0, 4)];
    assert!(selected.modifier.contains(Modifier::REVERSED), "the selected row is told without a colour");
}

#[test]
fn any_size_is_drawn() {
    for view in ["overview", "pools", "holders", "locks", "waits"] {
        let mut screen = screen(view);
        for (columns, rows) in [(1, 1), (19, 4), (20, 5), (21, 6), (300, 5), (20, 100), (500, 200)] {
            drawn(&screen, columns, rows);
        }
        press(&mut screen, "\n");
        drawn(&screen, 20, 5);
    }
}

#[test]
fn as_text_a_row_is_a_line_and_nothing_is_cut() {
    let text = text_of(&screen("holders")).expect("a table");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("  held  reason") && lines[0].ends_with("query"), "{text}");
    assert!(lines[1].ends_with("UPDATE items SET n = n + 1 WHERE id = 7 /* controller='Report\\x1b[2J' */"), "{text}");
    assert!(lines[3].contains("  -  "), "{text}");
    assert_eq!(text_of(&screen("statements")), Err("this pgweir has no SHOW QUERIES".to_owned()));
    let text = text_of(&screen("overview")).expect("it is always there");
    assert!(text.contains("Blocker: 50 wait behind client 17 (deploy)"), "{text}");
}

/// Every other view shows what is now.
#[test]
fn a_span_is_of_the_view_of_waits() {
    let begin = |view: Option<&str>| {
        let mut screen = Screen::new("db1:6432", Palette::Plain);
        let view = view.map(str::to_owned);
        screen.begin(&Beginning { view, span: Some("15min".to_owned()), ..Beginning::default() }).map(|()| screen.view)
    };
    assert_eq!(begin(None), Ok(View::Waits));
    assert_eq!(begin(Some("waits")), Ok(View::Waits));
    assert!(begin(Some("locks")).is_err_and(|why| why.contains("--span is for the view waits")));
}
