//! A page of metrics as Prometheus reads it, in either of two formats that differ little.
//!
//! Promises: all lines of a metric stand together below its type, in the order in which they came; whatever a label holds, it
//! stays in its quotes.
//!
//! [Prometheus's text format](https://prometheus.io/docs/instrumenting/exposition_formats/),
//! [OpenMetrics 1.0](https://prometheus.io/docs/specs/om/open_metrics_spec/)

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use crate::plane::Exemplar;

/// How the page is written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4 of Prometheus's own.
    #[default]
    Text,
    OpenMetrics,
}

/// What a metric's values mean. The name of a counter ends with `_total`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The labels of a series, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels(String);

impl Labels {
    pub(super) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Labels {
        let mut text = String::new();
        for (name, value) in pairs {
            let comma = if text.is_empty() { "" } else { "," };
            write(&mut text, format_args!("{comma}{name}=\"{}\"", escaped(value)));
        }
        Labels(text)
    }
}

/// A metric: its lines are written as they come.
struct Family {
    kind: Kind,
    help: String,
    lines: String,
}

/// The metrics so far, by name.
pub(super) struct Page {
    format: Format,
    families: BTreeMap<String, Family>,
}

impl Page {
    pub(super) fn new(format: Format) -> Page {
        Page { format, families: BTreeMap::new() }
    }

    /// A metric, whose series are put into it.
    pub(super) fn metric<'p>(&'p mut self, name: &'p str, kind: Kind, help: &str) -> Metric<'p> {
        debug_assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let new = || Family { kind, help: help.to_owned(), lines: String::new() };
        Metric { format: self.format, name, lines: &mut self.families.entry(name.to_owned()).or_insert_with(new).lines }
    }

    /// A metric of which there is nothing is left out.
    pub(super) fn finish(mut self) -> String {
        self.families.retain(|_, family| !family.lines.is_empty());
        let mut text = String::with_capacity(self.families.values().map(|family| family.lines.len() + 256).sum());
        for (name, Family { kind, help, lines }) in &self.families {
            // OpenMetrics names a counter without what its lines have at their end.
            let name = match self.format {
                Format::Text => name,
                Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            };
            write(&mut text, format_args!("# HELP {name} {help}\n# TYPE {name} {}\n{lines}", kind.word()));
        }
        if self.format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

/// Where the series of one metric are put.
pub(super) struct Metric<'p> {
    format: Format,
    name: &'p str,
    lines: &'p mut String,
}

impl Metric<'_> {
    pub(super) fn put(&mut self, Labels(labels): &Labels, value: impl Display) {
        let (name, lines) = (self.name, &mut *self.lines);
        if labels.is_empty() {
            write(lines, format_args!("{name} {value}\n"));
        } else {
            write(lines, format_args!("{name}{{{labels}}} {value}\n"));
        }
    }

    /// The lines of one histogram. `buckets`: upper bounds, and how many are above the bound before; the last has none. `exemplars`: of
    /// buckets, by their places.
    pub(super) fn put_histogram(
        &mut self,
        Labels(labels): &Labels,
        buckets: impl Iterator<Item = (Option<String>, u64)>,
        exemplars: Option<&BTreeMap<usize, Exemplar>>,
        sum: impl Display,
    ) {
        let (name, lines) = (self.name, &mut *self.lines);
        let mut below = 0;
        for (place, (bound, count)) in buckets.enumerate() {
            below += count;
            let bound = bound.as_deref().unwrap_or("+Inf");
            write(lines, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {below}"));
            // Only this format has them.
            let exemplar = exemplars.filter(|_| self.format == Format::OpenMetrics).and_then(|known| known.get(&place));
            if let Some(Exemplar { trace_id, waited_us, at }) = exemplar {
                let waited = Duration::from_micros(*waited_us).as_secs_f64();
                write(lines, format_args!(" # {{trace_id=\"{trace_id}\"}} {waited} {:.3}", at.as_secs_f64()));
            }
            lines.push('\n');
        }
        write(lines, format_args!("{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {below}\n"));
    }
}

/// Escapes a label's value. Clients choose some names, and people read them in terminals and on pages. So a control character or a direction
/// mark becomes U+FFFD and its code point. Different names stay different.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() || is_direction(c) || c == char::REPLACEMENT_CHARACTER;
    if !text.contains(|c| matches!(c, '\\' | '"') || is_odd(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            odd if is_odd(odd) => write(&mut out, format_args!("\u{fffd}{{{:x}}}", u32::from(odd))),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// Marks that change the direction of text: Unicode Standard Annex 9, section 2.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn write(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        page.metric("b", Kind::Gauge, "B.").put(&Labels::of([("x", "a\"b\\c\nd"), ("y", "")]), 1);
        page.metric("none", Kind::Gauge, "Of nothing.");
        page.metric("a_total", Kind::Counter, "A.").put(&Labels::default(), 2);
        page.metric("b", Kind::Gauge, "B.").put(&Labels::of([("x", "e")]), 3.5);
        let exemplar =
            Exemplar { trace_id: "ab".to_owned(), waited_us: 250_000, at: Duration::from_millis(1_700_000_000_125) };
        let exemplars = BTreeMap::from([(1, exemplar)]);
        let buckets = [(Some("0.1".to_owned()), 2), (None, 3)];
        page.metric("c", Kind::Histogram, "C.").put_histogram(
            &Labels::of([("x", "e")]),
            buckets.into_iter(),
            Some(&exemplars),
            0.25,
        );
        page.finish()
    }

    #[test]
    fn labels_are_escaped_and_lines_of_a_metric_stand_together() {
        let expected = r#"# HELP a_total A.
# TYPE a_total counter
a_total 2
# HELP b B.
# TYPE b gauge
b{x="a\"b\\c\nd",y=""} 1
b{x="e"} 3.5
# HELP c C.
# TYPE c histogram
c_bucket{x="e",le="0.1"} 2
c_bucket{x="e",le="+Inf"} 5
c_sum{x="e"} 0.25
c_count{x="e"} 5
"#;
        assert_eq!(page(Format::Text), expected);
    }

    #[test]
    fn a_label_speaks_to_no_terminal() {
        assert_eq!(escaped("a\x1b[2J"), "a\u{fffd}{1b}[2J");
        assert_eq!(escaped("\u{202e}txt\u{e9}\t"), "\u{fffd}{202e}txt\u{e9}\u{fffd}{9}");
        assert_ne!(escaped("\x1b"), escaped("\u{fffd}{1b}"), "two names stay two");
    }

    #[test]
    fn openmetrics_names_counters_otherwise_and_says_where_it_ends() {
        let text = page(Format::OpenMetrics);
        assert!(text.starts_with("# HELP a A.\n# TYPE a counter\na_total 2\n"), "{text}");
        assert!(text.contains("\nc_bucket{x=\"e\",le=\"+Inf\"} 5 # {trace_id=\"ab\"} 0.25 1700000000.125\n"), "{text}");
        assert!(text.ends_with("\nc_count{x=\"e\"} 5\n# EOF\n"), "{text}");
    }
}
