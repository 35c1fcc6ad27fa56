//! Draws folded stacks as a flame graph: one SVG that needs nothing else, without scripts.
//!
//! ```text
//!                        ┌──────┐
//!            ┌───────────┤ poll │        a box is a call, as wide as its share of all samples; what it called lies on it
//!   ┌────────┤ WaitLatch └──────┤        colours: whose code it is
//!   │ main   └──────────────────┤        pointing at a box shows its name, samples and percent (<title>)
//!   └───────────────────────────┘
//! ```
//!
//! Promises: names are escaped; colours follow the reader's theme, light or dark; boxes below [`NARROWEST`] of the width are one that names them,
//! or are left out.

use std::fmt::Write as _;

use crate::folded::{Folded, Kind};
use crate::tree::{Plate, plates};

/// In pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 62.0;
const FOOT: f64 = 36.0;
/// A letter, about.
const LETTER: f64 = 6.9;
/// Boxes below this share of all samples are not drawn by themselves: a pixel and a half.
const NARROWEST: f64 = 0.001_25;
/// Narrower boxes, in pixels, have no text.
const TEXT_FROM: f64 = 26.0;
/// The kernel and gdb know no deeper stacks by default.
const DEPTH_MAX: usize = 140;

const STYLE: &str = "\
svg{--paper:#fff;--ink:#1b1f24;--soft:#57606a;--label:#d5dae1;--pooler:#f5b26b;--postgres:#8fbcec;--libc:#a5d6a0;--kernel:#f2a099;--library:#cfb2ec;\
--unknown:#e3e3e0}\
@media(prefers-color-scheme:dark){svg{--paper:#14171c;--ink:#eef1f5;--soft:#a3adb8;--label:#3b4452;--pooler:#8a5417;--postgres:#23568f;\
--libc:#2d6632;--kernel:#8d342c;--library:#5d3f86;--unknown:#46463f}}\
text{font:11.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--ink)}\
.paper{fill:var(--paper)}.title{font:600 16px system-ui,sans-serif}.note{font:12.5px system-ui,sans-serif;fill:var(--soft)}\
.label{fill:var(--label)}.pooler{fill:var(--pooler)}.postgres{fill:var(--postgres)}.libc{fill:var(--libc)}.kernel{fill:var(--kernel)}\
.library{fill:var(--library)}.unknown{fill:var(--unknown)}\
g:hover>rect{stroke:var(--ink)}";

/// A flame graph. `title` says what was sampled, `note` how: a line each, of any text.
#[must_use]
pub fn svg(folded: &Folded, title: &str, note: &str) -> String {
    let count = folded.count();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a count"
    )]
    let narrowest = (count as f64 * NARROWEST).ceil() as u64;
    let boxes = plates(folded, narrowest, DEPTH_MAX);
    let levels = boxes.iter().map(|plate| plate.depth + 1).max().unwrap_or(1);
    let height = HEAD + pixels(levels as u64) * ROW + FOOT;
    let mut text = String::new();
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("writing to a String cannot fail");
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         style=\"max-width:100%;height:auto\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>",
        escaped(title)
    ));
    put(format_args!("<text class=\"title\" x=\"{MARGIN}\" y=\"24\">{}</text>", escaped(title)));
    put(format_args!(
        "<text class=\"note\" x=\"{MARGIN}\" y=\"44\">{}</text>",
        escaped(&format!("{} {}", samples(count), note))
    ));
    if count == 0 {
        put(format_args!("<text x=\"{MARGIN}\" y=\"{}\">No samples.</text>", HEAD + 12.0));
    }
    for plate in &boxes {
        put(format_args!("{}", drawn(plate, count, levels)));
    }
    put(format_args!("{}</svg>", legend(folded, height)));
    text
}

/// A box, its text and what pointing at it shows.
fn drawn(plate: &Plate, count: u64, levels: usize) -> String {
    let scale = (WIDTH - 2.0 * MARGIN) / pixels(count);
    let (x, width) = (MARGIN + pixels(plate.begin) * scale, pixels(plate.width) * scale);
    let y = HEAD + pixels((levels - 1 - plate.depth) as u64) * ROW;
    let class = class(plate.kind);
    let (shown, height) = ((width - 0.5).max(0.5), ROW - 1.0);
    let tip = escaped(&tip(plate, count));
    let mut text = format!(
        "<g><title>{tip}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{shown:.1}\" height=\"{height}\" rx=\"1.5\"/>"
    );
    if width >= TEXT_FROM {
        let label = escaped(&label(&plate.name, width));
        write!(text, "<text x=\"{:.1}\" y=\"{}\">{label}</text>", x + 4.0, y + 12.5)
            .expect("writing to a String cannot fail");
    }
    text + "</g>"
}

fn tip(plate: &Plate, count: u64) -> String {
    let share = percent(plate.width, count);
    let mut text = match plate.kind {
        Kind::Label => plate.name.clone(),
        kind if plate.others.is_empty() => format!("{} ({})", plate.name, kind.as_str()),
        _ => format!("{}: {}", plate.name, plate.others.join(", ")),
    };
    write!(text, "\n{} {share}", samples(plate.width)).expect("writing to a String cannot fail");
    if plate.own > 0 && plate.own < plate.width {
        write!(text, ", in itself {} {}", plate.own, percent(plate.own, count))
            .expect("writing to a String cannot fail");
    }
    text
}

/// As much of a name as there is room for: a path's last two words rather than its first ones.
fn label(name: &str, width: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some dozens")]
    let room = ((width - 6.0) / LETTER) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let is_path = name.contains("::") && !name.contains(['<', '(', ' ']);
    let words: Vec<&str> = name.rsplitn(3, "::").take(2).collect();
    let short = if is_path { words.into_iter().rev().collect::<Vec<_>>().join("::") } else { name.to_owned() };
    if short.chars().count() <= room {
        return short;
    }
    short.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// What the colours mean, and how many samples were in whose code themselves.
fn legend(folded: &Folded, height: f64) -> String {
    let (mut text, mut x, y) = (String::new(), MARGIN, height - 14.0);
    let counts = folded.by_kind();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Label) {
        let Some(own) = counts.get(&kind) else { continue };
        let words = format!("{} {}", kind.as_str(), percent(*own, folded.count()));
        write!(
            text,
            "<rect class=\"{}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"/><text class=\"note\" x=\"{}\" y=\"{y}\">{words}</text>",
            class(kind),
            y - 10.5,
            x + 17.0
        )
        .expect("writing to a String cannot fail");
        x += 40.0 + pixels(words.chars().count() as u64) * LETTER;
    }
    text
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Label => "label",
        Kind::Pooler => "pooler",
        Kind::PostgreSql => "postgres",
        Kind::Libc => "libc",
        Kind::Kernel => "kernel",
        Kind::Library => "library",
        Kind::Unknown => "unknown",
    }
}

fn samples(count: u64) -> String {
    if count == 1 { "1 sample".to_owned() } else { format!("{count} samples") }
}

fn percent(part: u64, count: u64) -> String {
    format!("{:.1} %", 100.0 * pixels(part) / pixels(count.max(1)))
}

#[allow(clippy::cast_precision_loss, reason = "counts of samples are far below 2^52")]
fn pixels(count: u64) -> f64 {
    count as f64
}

/// Text in XML, also within quotes. Characters that XML does not have become `?`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folded::tests::folded;

    #[test]
    fn a_box_is_as_wide_as_its_share() {
        let text = svg(&folded(&[("main;Cpoll", 3), ("main", 1)]), "a title", "by perf");
        assert!(text.contains("<title>main (PostgreSQL)\n4 samples 100.0 %, in itself 1 25.0 %</title>"), "{text}");
        assert!(
            text.contains("<title>Cpoll (C library)\n3 samples 75.0 %</title><rect class=\"libc\" x=\"10.0\""),
            "{text}"
        );
        assert!(text.contains("width=\"884.5\""), "three quarters of 1,180 without a gap: {text}");
        assert!(text.contains(">4 samples by perf</text>") && text.contains(">C library 75.0 %</text>"), "{text}");
    }

    #[test]
    fn hostile_names_are_text() {
        let hostile = "</title><script>alert(1)</script>&\"'\u{1b}[2J\u{fffe}";
        let text = svg(&folded(&[(hostile, 1)]), hostile, hostile);
        assert!(!text.contains("<script") && !text.contains('\u{1b}') && !text.contains('\u{fffe}'), "{text}");
        assert!(text.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;?[2J?"), "{text}");
        let tags = |tag: &str| text.matches(tag).count();
        assert_eq!(tags("<title>"), tags("</title>"));
        assert_eq!(tags("<g>"), tags("</g>"));
    }

    #[test]
    fn it_needs_nothing_else_and_has_both_themes() {
        let text = svg(&folded(&[("a", 1)]), "t", "n");
        assert!(
            text.contains("prefers-color-scheme:dark") && !text.contains("href") && !text.contains("url("),
            "{text}"
        );
        assert_eq!(text.matches("http").count(), 1, "the name of SVG alone: {text}");
    }

    #[test]
    fn narrow_boxes_are_one_with_names() {
        let many: Vec<String> = (0..1000).map(|number| format!("main;f{number}")).collect();
        let stacks: Vec<(&str, u64)> = many.iter().map(|stack| (stack.as_str(), 1)).collect();
        let text = svg(&folded(&stacks), "t", "n");
        assert!(text.contains("<title>1000 more: f0 1, f1 1, f10 1"), "{text}");
        assert_eq!(text.matches("<g>").count(), 2);
    }

    #[test]
    fn a_table_of_labels() {
        let table = [
            ("PostgresMain", 100.0, "PostgresMain"),
            ("PostgresMain", 60.0, "Postgr…"),
            ("engine::host::Host::round", 100.0, "Host::round"),
            ("engine::host::Host::round", 60.0, "Host::…"),
            ("<a::B as c::D>::e", 60.0, "<a::B …"),
            ("ééééééééééé", 60.0, "éééééé…"),
        ];
        for (name, width, expected) in table {
            assert_eq!(label(name, width), expected, "{name} in {width}");
        }
    }

    #[test]
    fn no_samples_are_said() {
        assert!(svg(&Folded::default(), "t", "n").contains("No samples."));
    }
}
