//! The page: what it says in words first, then charts, then tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use askama::Template;

use crate::chart::{Form, Series, chart, number};
use crate::lines::{RowLine, Waits, WhyLine};
use crate::points::Point;
use crate::sums::{Heading, Named, Sums, WhySum};

const STYLE: &str = include_str!("../templates/page.css");

/// Places on the axis of time, at most: a longer span has means.
const PLACES_MAX: u64 = 320;

/// Rows of each table that are seen at once, and those that a reader may unfold. Before a reader unfolds any, the page has three screens or three sheets of
/// paper at most.
const TABLE_MAX: usize = 5;
const TABLE_UNFOLDED_MAX: usize = 10;
const WORST_MAX: usize = 5;
const WORST_UNFOLDED_MAX: usize = 35;

/// The number of equal victims whose ids are named.
const ALIKE_NAMED: usize = 12;

/// Verdicts at the top: most often few roots stop all pools.
const VERDICTS_MAX: usize = 3;

/// Times of trouble that are listed beside these.
const OTHER_TIMES_MAX: usize = 12;

/// Classes of wait events from the bottom of the chart, each with its colour in the style; all others are `other`.
const CLASSES: [&str; 9] = ["CPU", "IO", "LWLock", "Lock", "IPC", "BufferPin", "Client", "Timeout", "Pool"];

/// Events that are not PostgreSQL's.
const MEANINGS: [(&str, &str); 2] =
    [("Pool:Server", ": clients that waited for a server"), ("CPU", ": it ran, and waited for nothing")];

/// What `templates/page.html` shows.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    style: &'static str,
    heading: &'a Heading,
    /// What a reader should know first.
    sentences: Vec<String>,
    tiles: Vec<(String, &'static str)>,
    charts: Vec<Chart>,
    tables: Vec<Ranking>,
    worst: Vec<Worst>,
    /// These a reader may unfold.
    worst_unfolded: Vec<Worst>,
    rows_left_out: usize,
}

struct Chart {
    title: &'static str,
    about: &'static str,
    svg: String,
    /// Style and name.
    legend: Vec<(String, String)>,
}

struct Ranking {
    title: &'static str,
    about: &'static str,
    what: &'static str,
    rows: Vec<Ranked>,
    /// These a reader may unfold.
    unfolded: Vec<Ranked>,
    left_out: usize,
}

struct Ranked {
    name: String,
    samples: u64,
    /// In percent of all, and as the width of its bar.
    percent: String,
    most: String,
}

/// A client or backend with all its ids, or some equal victims.
struct Worst {
    when: String,
    who: String,
    client: String,
    wait: String,
    times: String,
    blocked: String,
    tags: String,
    query: String,
    /// The ids of the equal victims: `client 7, pid 815 · client 9, …`.
    alike: String,
}

impl Sums {
    /// One self-contained HTML page.
    #[must_use]
    pub fn page(&self, heading: &Heading) -> String {
        page(self, heading)
    }
}

fn page(sums: &Sums, heading: &Heading) -> String {
    let worst = folded(sums);
    let rows_left_out = worst.len().saturating_sub(WORST_MAX + WORST_UNFOLDED_MAX);
    let sentences = sentences(sums, worst.first().map(|fold| fold.worst));
    let mut described = worst.iter().take(WORST_MAX + WORST_UNFOLDED_MAX).map(|fold| described(sums, fold));
    let page = Page {
        style: STYLE,
        heading,
        sentences: sentences.iter().map(|sentence| visible(sentence)).collect(),
        tiles: tiles(sums),
        charts: charts(sums),
        tables: tables(sums),
        worst: described.by_ref().take(WORST_MAX).collect(),
        worst_unfolded: described.collect(),
        rows_left_out,
    };
    page.render().expect("writing to a String cannot fail")
}

/// A row with the victims that are equal to it: they waited for the same in the same statement behind the same root, and nobody waited behind them.
struct Fold<'s> {
    worst: &'s RowLine,
    others: Vec<&'s RowLine>,
}

/// The worst first.
fn folded(sums: &Sums) -> Vec<Fold<'_>> {
    let mut worst: Vec<&RowLine> = sums.rows.values().collect();
    worst.sort_by_key(|row| Reverse(row.weight()));
    let is_victim = |row: &RowLine| row.waited.is_some() && !row.pid.is_some_and(|pid| sums.blockers.contains(&pid));
    let mut folds: Vec<Fold<'_>> = Vec::new();
    let mut places: BTreeMap<([&str; 6], Option<i64>), usize> = BTreeMap::new();
    for row in worst {
        if !is_victim(row) {
            folds.push(Fold { worst: row, others: Vec::new() });
            continue;
        }
        let Waits { database, user, class, wait_event_type, wait_event, query, .. } = row.waiting.waits();
        let doing = [database, user, class, wait_event_type, wait_event, query.unwrap_or_default()];
        let alike = (doing, row.blocked_by_root);
        if let Some(place) = places.get(&alike) {
            folds[*place].others.push(row);
        } else {
            places.insert(alike, folds.len());
            folds.push(Fold { worst: row, others: Vec::new() });
        }
    }
    // Victims that update one row are in each other's way, one before the next; the blockers come before all of them.
    folds.sort_by_key(|fold| is_victim(fold.worst));
    folds
}

fn sentences(sums: &Sums, worst: Option<&RowLine>) -> Vec<String> {
    let total = sums.by_event.total();
    if sums.seconds() == 0 {
        return vec!["Nothing is known of this time: the pooler did not run, or did not observe.".to_owned()];
    }
    if total == 0 {
        return vec!["Nobody waited for anything, and nothing ran when it was looked.".to_owned()];
    }
    let verdicts = sums.verdicts();
    let (shown, others) = verdicts.split_at(verdicts.len().min(VERDICTS_MAX));
    let mut sentences: Vec<String> = shown.iter().map(|sum| verdict(sum)).collect();
    sentences.extend(other_times(others));
    // A process of an earlier build gives no verdicts.
    let waited_long = sums.points.all().any(|point| point.max_wait >= 1.0);
    if sentences.is_empty() && !waited_long {
        sentences.push("Nothing was wrong: no client has waited for 1 s or longer.".to_owned());
    }
    if let Some((event, sum)) = sums.by_event.ranked().first() {
        let known = MEANINGS.iter().find(|(known, _)| known == event).map_or("", |(_, meaning)| meaning);
        sentences.push(format!("{} of what was seen was {event}{known}.", percent(sum.samples, total)));
    }
    if let Some((blocker, sum)) = sums.by_blocker.ranked().first() {
        let share = percent(sum.samples, total);
        sentences.push(format!("{share} waited for a lock behind {blocker}"));
    }
    if let Some(row) = worst.filter(|row| row.blocking > 0) {
        let idle = row.idle.map(|idle| format!(", idle in its transaction for {}", seconds(idle))).unwrap_or_default();
        sentences.push(format!("At {} {} was in the way of {}{idle}.", row.when.time, named(row), row.blocking));
    }
    sentences
}

/// `billing [close_month, bill-50645b], client 7, pid 815`: as the verdict names it, with its ids. Without an application the pool is named.
fn named(row: &RowLine) -> String {
    let application = row.application_name.clone().filter(|name| !name.is_empty());
    let application = application.unwrap_or_else(|| row.waiting.waits().pool().into_owned());
    let tags =
        row.waiting.tags.as_deref().map(tag_values).filter(|tags| !tags.is_empty()).map(|tags| format!("[{tags}]"));
    let words: Vec<String> = [application].into_iter().chain(tags).collect();
    let client = row.client_id.map_or_else(|| "a connection past pgweir".to_owned(), |id| format!("client {id}"));
    let pid = row.pid.filter(|pid| *pid > 0).map(|pid| format!("pid {pid}"));
    [words.join(" "), client].into_iter().chain(pid).collect::<Vec<_>>().join(", ")
}

/// Tags of a statement by which a person knows whose it is.
const TAGS_NAMED: usize = 4;

/// `close_month, bill-50645b` of `job=close_month request_id=bill-50645b`.
fn tag_values(tags: &str) -> String {
    let values = tags.split(' ').filter_map(|tag| Some(tag.split_once('=')?.1)).filter(|value| !value.is_empty());
    values.take(TAGS_NAMED).collect::<Vec<_>>().join(", ")
}

/// `From 2026-07-01 14:03:20 to 14:03:45: 60 clients of shop/web wait, because … It was so in 25 seconds.`
fn verdict(sum: &WhySum) -> String {
    let seconds = if sum.seconds == 1 { "1 second".to_owned() } else { format!("{} seconds", sum.seconds) };
    let WhyLine { database, user, waiting, sentence, .. } = &sum.worst;
    let unnamed = || format!("{waiting} clients of {database}/{user} waited. Administrators see why.");
    let sentence = sentence.clone().unwrap_or_else(unnamed);
    let when = match sum.from.at == sum.to.at {
        true => format!("At {}", sum.from.time),
        false => format!("From {}", between(sum)),
    };
    format!("{when}: {sentence} It was so in {seconds}.")
}

/// `2026-07-01 14:03:20 to 14:03:45`: the day once if it is the same.
fn between(sum: &WhySum) -> String {
    let (from, to): (&str, &str) = (&sum.from.time, &sum.to.time);
    let day = |time: &str| time.split(' ').next().map(str::to_owned);
    let clock = to.rsplit(' ').next().filter(|_| day(from) == day(to)).unwrap_or(to);
    if from == to { from.to_owned() } else { format!("{from} to {clock}") }
}

/// The times of trouble that have no sentence of their own: when, how many clients, and the root.
fn other_times(others: &[&WhySum]) -> Option<String> {
    let one = |sum: &&WhySum| {
        let WhyLine { database, user, waiting, root, .. } = &sum.worst;
        let root = root.as_ref().filter(|root| !root.is_empty()).map(|root| format!(" behind {root}"));
        let clients = match waiting {
            0 => format!("clients of {database}/{user} that had a server"),
            _ => format!("{waiting} clients of {database}/{user}"),
        };
        format!("{}: {clients}{}", between(sum), root.unwrap_or_default())
    };
    let mut others: Vec<&WhySum> = others.to_vec();
    let left_out = others.len().saturating_sub(OTHER_TIMES_MAX);
    others.truncate(OTHER_TIMES_MAX);
    others.sort_by_key(|sum| sum.from.at);
    let mut listed: Vec<String> = others.iter().map(one).collect();
    if left_out > 0 {
        listed.push(format!("and {left_out} more"));
    }
    (!listed.is_empty()).then(|| format!("Less was waited at other times: {}.", listed.join("; ")))
}

fn tiles(sums: &Sums) -> Vec<(String, &'static str)> {
    let busy = sums.by_event.total() as f64 / sums.seconds().max(1) as f64;
    let waiting = sums.points.all().map(|point| point.waiting).max().unwrap_or(0);
    let longest = sums.points.all().map(|point| point.max_wait).fold(0.0, f64::max);
    let rated: u64 = sums.points.all().map(|point| point.rated).sum();
    let transactions: f64 = sums.points.all().map(|point| point.transactions).sum();
    let rate = if rated == 0 { "–".to_owned() } else { number(transactions / rated as f64) };
    vec![
        (number(busy), "sessions and backends busy or waiting, on average"),
        (waiting.to_string(), "clients that waited for a server, at most"),
        (seconds(longest), "the longest wait for a server"),
        (rate, "transactions a second, on average"),
    ]
}

/// Points that a chart shows at one place: their mean, or their most.
struct Places<'s> {
    times: Vec<String>,
    points: Vec<Vec<&'s Point>>,
}

/// A report of a longer time, in seconds, has dates beside its times of day.
const DATED_FROM: u64 = 20 * 3600;

/// Whether the report is of a long time.
fn is_dated(sums: &Sums) -> bool {
    sums.points.ends().is_some_and(|(first, last)| (last - first) * sums.points.width() > DATED_FROM)
}

/// A time of day, with month and day where the report is of a long time.
fn shown_time(time: &str, is_dated: bool) -> &str {
    let short = if is_dated { time.split_once('-').map(|(_, rest)| rest) } else { time.split(' ').next_back() };
    short.unwrap_or(time)
}

impl<'s> Places<'s> {
    fn of(sums: &'s Sums) -> Places<'s> {
        let mut places = Places { times: Vec::new(), points: Vec::new() };
        let Some((first, last)) = sums.points.ends() else { return places };
        let width = (last - first + 1).div_ceil(PLACES_MAX).max(1);
        let is_dated = is_dated(sums);
        for place in 0..=(last - first) / width {
            let from = first + place * width;
            let points: Vec<&Point> = sums.points.between(from, from + width).collect();
            let time = points.first().map_or("", |point| shown_time(&point.time, is_dated));
            places.times.push(time.to_owned());
            places.points.push(points);
        }
        places
    }

    /// `value`: a sum, and the number of seconds that it is of.
    fn mean(&self, value: impl Fn(&Point) -> (f64, u64)) -> Vec<Option<f64>> {
        let mean = |points: &Vec<&Point>| {
            let add = |(sum, count): (f64, u64), (more, seconds): (f64, u64)| (sum + more, count + seconds);
            let (sum, count) = points.iter().map(|point| value(point)).fold((0.0, 0), add);
            (count > 0).then(|| sum / count as f64)
        };
        self.points.iter().map(mean).collect()
    }

    fn most(&self, value: impl Fn(&Point) -> f64) -> Vec<Option<f64>> {
        self.points.iter().map(|points| points.iter().map(|point| value(point)).reduce(f64::max)).collect()
    }
}

/// Width and height of the first chart, and of those beside each other.
const LARGE: (u32, u32) = (1160, 230);
const SMALL: (u32, u32) = (380, 150);

fn charts(sums: &Sums) -> Vec<Chart> {
    let places = Places::of(sums);
    let one = |style: &str, name: &str, values| Series { style: style.to_owned(), name: name.to_owned(), values };
    let waits = waits(sums, &places);
    let queue = [
        one("pool", "clients that wait", places.most(|point| point.waiting as f64)),
        one("lock", "the longest wait, seconds", places.most(|point| point.max_wait)),
    ];
    let rate = [one("cpu", "transactions a second", places.mean(|point| (point.transactions, point.rated)))];
    let servers = [
        one("cpu", "servers that work", places.mean(|point| (point.active as f64, point.seconds))),
        one("other", "idle servers", places.mean(|point| (point.idle as f64, point.seconds))),
    ];
    let drawn = |title, about, series: &[Series], size, form| Chart {
        title,
        about,
        svg: chart(series, &places.times, size, form, title),
        legend: series.iter().map(|series| (series.style.clone(), series.name.clone())).collect(),
    };
    vec![
        drawn(
            "What sessions did and waited for",
            "Sessions and backends by class of wait event. CPU: it ran. Client: idle in a transaction. Pool: a client that waited for a server.",
            &waits,
            LARGE,
            Form::Areas,
        ),
        drawn("Queue", "Clients that waited for a server, and the longest wait.", &queue, SMALL, Form::Lines),
        drawn("Throughput", "Transactions in a second, over all pools.", &rate, SMALL, Form::Lines),
        drawn("Servers", "Connections to PostgreSQL.", &servers, SMALL, Form::Areas),
    ]
}

/// A series for each class that there is.
fn waits(sums: &Sums, places: &Places<'_>) -> Vec<Series> {
    let seen: BTreeSet<&str> = sums.points.all().flat_map(|point| point.classes.keys()).map(String::as_str).collect();
    let known = CLASSES.iter().copied().filter(|class| seen.contains(class));
    let others = seen.iter().copied().filter(|class| !CLASSES.contains(class));
    let series = known.chain(others).map(|class| Series {
        style: if CLASSES.contains(&class) { class.to_lowercase() } else { "other".to_owned() },
        name: visible(class),
        values: places.mean(|point| (point.classes.get(class).copied().unwrap_or(0) as f64, point.seconds)),
    });
    series.collect()
}

fn tables(sums: &Sums) -> Vec<Ranking> {
    let total = sums.by_event.total();
    let table = |title, about, what, named: &Named| {
        let ranked = named.ranked();
        let row = |(name, sum): &(&str, &crate::sums::NamedSum)| Ranked {
            name: visible(name),
            samples: sum.samples,
            percent: percent(sum.samples, total),
            most: visible(sum.most()),
        };
        let left_out = ranked.len().saturating_sub(TABLE_MAX + TABLE_UNFOLDED_MAX);
        let mut ranked = ranked.iter().take(TABLE_MAX + TABLE_UNFOLDED_MAX).map(row);
        let rows = ranked.by_ref().take(TABLE_MAX).collect();
        Ranking { title, about, what, rows, unfolded: ranked.collect(), left_out }
    };
    let all = [
        table("Waits", "What was waited for.", "event", &sums.by_event),
        table(
            "Blockers",
            "Who stood at the end of the chain of those in the way.",
            "pool, tags, statement",
            &sums.by_blocker,
        ),
        table("Statements", "Whose statements waited or ran.", "statement", &sums.by_statement),
        table("Tags", "What the application says of its statements.", "tags", &sums.by_tags),
        table("Pools", "Whose sessions waited or ran.", "pool", &sums.by_pool),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn described(sums: &Sums, fold: &Fold<'_>) -> Worst {
    let row = fold.worst;
    let waiting = &row.waiting;
    let times = [
        row.waited.map(|waited| format!("waits {}", seconds(waited))),
        row.idle.map(|idle| format!("idle {}", seconds(idle))),
        row.transaction_age.map(|age| format!("transaction {}", seconds(age))),
        row.query_age.filter(|_| row.idle.is_none()).map(|age| format!("query {}", seconds(age))),
    ];
    let kept = fold.others.len() + 1;
    let is_many = kept > 1;
    let at_once = usize::try_from(sums.most_alike(waiting)).unwrap_or(usize::MAX);
    let count = kept.max(at_once);
    let behind = row.blocked_by_root.or(row.blocked_by).filter(|pid| *pid > 0).map(|pid| format!("behind pid {pid}"));
    let blocking = (row.blocking > 0 && !is_many).then(|| format!("in the way of {}", row.blocking));
    let joined = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    let class = match waiting.class.as_str() {
        "" | "default" => String::new(),
        class => format!(", class {class}"),
    };
    // Equal victims have the tags of a single request each. Only tags that all victims have are shown.
    let tags = |row: &RowLine| row.waiting.tags.clone().unwrap_or_default();
    let common = fold.others.iter().fold(tags(row), |common, other| common_tags(&common, &tags(other)));
    let ids = |row: &RowLine| {
        let client = row.client_id.map(|id| format!("client {id}"));
        joined(&[client, row.pid.filter(|pid| *pid > 0).map(|pid| format!("pid {pid}"))])
    };
    let named: Vec<String> = [row].into_iter().chain(fold.others.iter().copied()).take(ALIKE_NAMED).map(ids).collect();
    let unnamed = count.saturating_sub(ALIKE_NAMED);
    let more = if unnamed > 0 { format!(" and {unnamed} more") } else { String::new() };
    let application = row.application_name.as_deref().filter(|name| !name.is_empty());
    Worst {
        when: shown_time(&row.when.time, is_dated(sums)).to_owned(),
        who: visible(&format!("{}{class}", waiting.waits().pool())),
        client: match is_many {
            true => format!("{count} clients alike, the longest wait first"),
            false => visible(&joined(&[Some(ids(row)), row.client_addr.clone(), application.map(str::to_owned)])),
        },
        wait: visible(&waiting.waits().event()),
        times: joined(&times),
        blocked: joined(&[blocking, behind]),
        tags: visible(&common),
        query: visible(waiting.query.as_deref().unwrap_or_default()),
        alike: if is_many { format!("{}{more}", named.join(" · ")) } else { String::new() },
    }
}

/// The tags that both have.
fn common_tags(one: &str, other: &str) -> String {
    let theirs: BTreeSet<&str> = other.split(' ').collect();
    one.split(' ').filter(|tag| theirs.contains(tag)).collect::<Vec<_>>().join(" ")
}

/// What a terminal would obey, and what changes the direction of writing, can be seen instead.
fn visible(text: &str) -> String {
    let is_odd =
        |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if is_odd(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

fn percent(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    if percent > 0.0 && percent < 0.1 { "< 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 90.0 => format!("{} min", number(seconds / 60.0)),
        seconds if seconds > 0.0 && seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        seconds => format!("{} s", number(seconds)),
    }
}

#[cfg(test)]
mod tests;
