//! Horizontal bars as SVG: a name, a bar, its value, and the range of the rounds as a thin line.
//!
//! Promises: colours come from the page's style by class, so that light, dark and paper are the page's matter; every bar has a title for
//! whoever cannot see it.

use std::fmt::Write;

use crate::sample::{Figure, number};

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Its colour: `direct`, `pgweir`, `pgbouncer`.
    pub(crate) class: &'static str,
    /// `None`: there is no value, and `words` say why.
    pub(crate) figure: Option<Figure>,
    pub(crate) words: String,
}

const WIDTH: f64 = 380.0;
const NAMES: f64 = 104.0;
const VALUES: f64 = 76.0;
const ROW: f64 = 22.0;
const THICK: f64 = 14.0;

/// A drawing of these bars, on one scale that begins at zero; nothing for no bars.
pub(crate) fn bars(bars: &[Bar]) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let most = bars.iter().filter_map(|bar| Some(bar.figure?.high)).fold(0.0_f64, f64::max);
    let scale = if most > 0.0 { (WIDTH - NAMES - VALUES) / most } else { 0.0 };
    let height = ROW * bars.len() as f64;
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (at, bar) in bars.iter().enumerate() {
        one(&mut out, bar, ROW * at as f64, scale);
    }
    out.push_str("</svg>");
    out
}

fn one(out: &mut String, bar: &Bar, top: f64, scale: f64) {
    let (name, class, text) = (escaped(&bar.name), bar.class, top + ROW / 2.0 + 4.0);
    let _ =
        write!(out, "<g class=\"{class}\"><text class=\"name\" x=\"{:.0}\" y=\"{text:.1}\">{name}</text>", NAMES - 8.0);
    let Some(figure) = bar.figure else {
        let _ = write!(out, "<text class=\"none\" x=\"{NAMES:.0}\" y=\"{text:.1}\">{}</text></g>", escaped(&bar.words));
        return;
    };
    let [median, low, high] = [figure.median, figure.low, figure.high].map(|value| value.max(0.0) * scale);
    let (y, middle, value) = (top + (ROW - THICK) / 2.0, top + ROW / 2.0, number(figure.median));
    let _ = write!(
        out,
        "<title>{name}: {value}</title><rect x=\"{NAMES:.0}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{THICK}\" rx=\"2\"/>",
        median.max(1.0)
    );
    if high - low > 1.0 {
        let (from, to) = (NAMES + low, NAMES + high);
        let _ = write!(out, "<path class=\"range\" d=\"M{from:.1} {middle:.1}H{to:.1}\"/>");
    }
    let x = NAMES + median.max(high) + 6.0;
    let _ = write!(out, "<text class=\"value\" x=\"{x:.1}\" y=\"{text:.1}\">{value}</text></g>");
}

/// Text as HTML and SVG have it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(median: f64) -> Bar {
        let figure = Some(Figure { median, low: median, high: median });
        Bar { name: "a<b".to_owned(), class: "direct", figure, words: String::new() }
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_names_are_escaped() {
        let text = bars(&[bar(10.0), bar(5.0)]);
        assert!(text.contains("width=\"200.0\"") && text.contains("width=\"100.0\""), "{text}");
        assert!(text.contains("a&lt;b") && !text.contains("a<b"));
        assert_eq!(bars(&[]), "");
    }

    #[test]
    fn nothing_but_zeros_is_drawn_too() {
        assert!(bars(&[bar(0.0)]).contains("width=\"1.0\""));
    }
}
