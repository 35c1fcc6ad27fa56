//! The overview: why clients wait, how much passes, who waits, what was waited for, and whose fault it is.

use ratatui::style::Modifier;
use ratatui::text::{Line as Text, Span};

use crate::orders::is_unknown;
use crate::rows::Table;
use crate::screen::Screen;
use crate::text::{Side, fit, width, wrap};
use crate::views::{WHY, waits_of};
use crate::words::{amount, blocker, holder, hosts, is_held, seconds, verdicts};

const HOSTS: &str = "SHOW HOSTS";

/// Lines of a sentence about a culprit, where the terminal is low.
const SENTENCE_LINES: usize = 3;
/// Lines of the verdicts, where the terminal is low, and where it is not: a chain to its root, and how to end it, take some.
const VERDICT_LINES: usize = 6;
const TALL_VERDICT_LINES: usize = 8;
/// From this height on, sentences may be longer, and there is a curve.
const TALL: usize = 18;

/// Sums over all pools.
#[derive(Default)]
struct Sums {
    active: u64,
    waiting: u64,
    oldest: f64,
    pool: String,
    servers: [(&'static str, u64); 5],
}

pub(super) fn lines(screen: &Screen, columns: usize, height: usize) -> Vec<Text<'static>> {
    let mut lines = Vec::new();
    let is_tall = height >= TALL;
    // A console of an older version has no verdict.
    let is_judged = screen.answers.get(WHY).is_some_and(|answer| !answer.as_ref().is_err_and(|why| is_unknown(why)));
    if is_judged {
        let verdict_lines = if is_tall { TALL_VERDICT_LINES } else { VERDICT_LINES };
        let mut verdict = sentence(screen, "Why", WHY, verdicts, (columns, verdict_lines));
        if screen.table(WHY).is_some_and(is_held) {
            verdict.iter_mut().for_each(|line| *line = std::mem::take(line).patch_style(screen.bad()));
        }
        lines.extend(verdict);
        if is_tall {
            lines.push(Text::default());
        }
    }
    lines.extend(hosts_of(screen, columns, is_tall));
    lines.push(traffic(screen, columns));
    if is_tall {
        lines.push(curve(screen, columns));
    }
    let sums = sums(screen);
    lines.push(clients(screen, &sums, columns));
    lines.push(servers(&sums, columns));
    let sentence_lines = if is_tall { 5 } else { SENTENCE_LINES };
    let told = [("Holder", "SHOW HOLDERS", holder as fn(&Table) -> String), ("Blocker", "SHOW LOCKS", blocker)];
    // Where there is little room, the verdict stands for both.
    for (title, sql, tell) in told.into_iter().filter(|_| is_tall || !is_judged) {
        if is_tall {
            lines.push(Text::default());
        }
        lines.extend(sentence(screen, title, sql, tell, (columns, sentence_lines)));
    }
    if is_tall {
        lines.push(Text::default());
    }
    let room = height.saturating_sub(lines.len());
    lines.extend(waits(screen, columns, room));
    lines
}

/// Nothing where each database has one host, and it answers.
fn hosts_of(screen: &Screen, columns: usize, is_tall: bool) -> Vec<Text<'static>> {
    let is_shown = screen.table(HOSTS).is_some_and(|table| !hosts(table).is_empty());
    // Where there is little room, the verdict says what is wrong.
    if !is_shown || !is_tall {
        return Vec::new();
    }
    let mut lines = sentence(screen, "Hosts", HOSTS, hosts, (columns, SENTENCE_LINES));
    lines.push(Text::default());
    lines
}

fn traffic(screen: &Screen, columns: usize) -> Text<'static> {
    let rate = screen.rates.now();
    let (transactions, queries) = (amount(rate.transactions), amount(rate.queries));
    let short = format!("{transactions} transactions/s, {queries} queries/s");
    let long = format!("{short}, {} from clients, {} to them", bytes(rate.received), bytes(rate.sent));
    Text::styled(fit(if width(&long) <= columns { &long } else { &short }, columns, Side::Left), Modifier::BOLD)
}

fn bytes(rate: f64) -> String {
    let amount = amount(rate);
    let gap = if amount.contains(' ') { "" } else { " " };
    format!("{amount}{gap}B/s")
}

/// Transactions a second, as a line of bars.
fn curve(screen: &Screen, columns: usize) -> Text<'static> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let all = screen.rates.transactions();
    let last = &all[all.len().saturating_sub(columns)..];
    let most = last.iter().copied().fold(1.0, f64::max);
    let bar = |value: &f64| {
        let step = (value / most * 7.0).round();
        // The first step that is as high: there are eight.
        BARS.into_iter().zip(0_u8..).find(|(_, at)| f64::from(*at) >= step).map_or('█', |(bar, _)| bar)
    };
    Text::styled(last.iter().map(bar).collect::<String>(), screen.bar())
}

fn sums(screen: &Screen) -> Sums {
    let mut sums =
        Sums { servers: ["active", "idle", "used", "tested", "login"].map(|name| (name, 0)), ..Sums::default() };
    let Some(pools) = screen.table("SHOW POOLS") else { return sums };
    // The console's own clients wait for nobody.
    for row in pools.rows().filter(|row| row.get("database") != Some("pgbouncer")) {
        sums.active += row.count("cl_active");
        sums.waiting += row.count("cl_waiting");
        for (name, sum) in &mut sums.servers {
            *sum += row.count(&format!("sv_{name}"));
        }
        let micros = row.number("maxwait_us").unwrap_or(0.0);
        let wait = row.number("maxwait").unwrap_or(0.0) + micros / 1e6;
        if wait > sums.oldest {
            sums.oldest = wait;
            sums.pool = format!("{}/{}", row.get("database").unwrap_or("?"), row.get("user").unwrap_or("?"));
        }
    }
    sums
}

fn clients(screen: &Screen, sums: &Sums, columns: usize) -> Text<'static> {
    let Sums { active, waiting, oldest, pool, .. } = sums;
    let text = match waiting {
        0 => format!("clients: {active} connected, none waits for a server"),
        _ => format!(
            "clients: {waiting} wait for a server, the oldest for {} in {pool}; {active} others",
            seconds(*oldest)
        ),
    };
    let text = fit(&text, columns, Side::Left);
    if *waiting == 0 { Text::raw(text) } else { Text::styled(text, screen.bad()) }
}

fn servers(sums: &Sums, columns: usize) -> Text<'static> {
    let states: Vec<String> =
        sums.servers.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    let text = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
    Text::raw(fit(&format!("servers: {text}"), columns, Side::Left))
}

/// A title, and a sentence in at most so many lines.
fn sentence(
    screen: &Screen,
    title: &str,
    sql: &str,
    tell: fn(&Table) -> String,
    (columns, lines_max): (usize, usize),
) -> Vec<Text<'static>> {
    let told = match screen.answers.get(sql) {
        None => String::new(),
        Some(Ok(table)) => tell(table),
        Some(Err(why)) if is_unknown(why) => format!("this pgweir has no {sql}"),
        Some(Err(why)) => why.clone(),
    };
    let mut lines = wrap(&format!("{title}: {told}"), columns);
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        let last = lines.last_mut().expect("there is one at least");
        *last = fit(&format!("{last} …"), columns.min(width(last) + 2), Side::Left);
    }
    let mut lines: Vec<Text<'static>> = lines.into_iter().map(Text::from).collect();
    if let Some(first) = lines.first_mut() {
        let text = first.to_string();
        let rest = text.strip_prefix(title).unwrap_or_default().to_owned();
        *first = Text::from(vec![Span::styled(title.to_owned(), Modifier::BOLD), Span::raw(rest)]);
    }
    lines
}

/// Bars, the longest first.
fn waits(screen: &Screen, columns: usize, room: usize) -> Vec<Text<'static>> {
    let mut lines = vec![Text::styled(fit("Waits of the last minute", columns, Side::Left), Modifier::BOLD)];
    let sql = waits_of("EVENT", "LAST 60s");
    let rows: Vec<_> = screen.table(&sql).into_iter().flat_map(Table::rows).collect();
    let most = rows.iter().filter_map(|row| row.number("samples")).fold(1.0, f64::max);
    let name_columns =
        rows.iter().filter_map(|row| row.get("name")).map(width).max().unwrap_or(0).clamp(4, (columns / 2).max(4));
    for row in rows.iter().take(room.saturating_sub(1)) {
        let name = fit(row.get("name").unwrap_or("?"), name_columns, Side::Left);
        let part = format!(" {:>5}% ", row.get("percent").unwrap_or("0"));
        let left = columns.saturating_sub(name_columns + width(&part));
        let share = row.number("samples").unwrap_or(0.0) / most;
        lines.push(Text::from(vec![Span::raw(name), Span::raw(part), Span::styled(bar(share, left), screen.bar())]));
    }
    if rows.is_empty() {
        let text = match screen.answers.get(&sql) {
            Some(Err(why)) if is_unknown(why) => "this pgweir has no SHOW WAITS".to_owned(),
            Some(Err(why)) => why.clone(),
            _ => "none was seen".to_owned(),
        };
        lines.push(Text::raw(fit(&text, columns, Side::Left)));
    }
    lines.truncate(room);
    lines
}

/// A bar of at most so many columns; what is there has one at least.
fn bar(share: f64, columns: usize) -> String {
    let steps =
        (1..columns).filter(|step| f64::from(u32::try_from(*step).unwrap_or(u32::MAX)) < share * columns as f64);
    "█".repeat((steps.count() + 1).min(columns))
}
