//! Horizontal bars as SVG: above each bar its name and its value, over it the range of the rounds as a thin line.
//!
//! Promises: a name has the whole width, so that none is cut; colours are the light page's, which the page's style maps to its own
//! by their values, so that light, dark and paper are the page's matter.

use measure::statistics::Range;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::sample::number;

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    /// `None`: there is no value, and `words` say why.
    pub(crate) figure: Option<Range>,
    pub(crate) words: String,
}

/// Whose bar it is, by which it is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Direct,
    Pgweir,
    PgBouncer,
}

/// What a page has of it.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    pub(crate) svg: String,
    /// The same in words, for whoever cannot see it.
    pub(crate) words: String,
}

const WIDTH: i32 = 320;
const ROW: i32 = 34;
/// Where the text's middle is, and where the bar begins.
const TEXT: i32 = 9;
const BAR: i32 = 17;
const THICK: i32 = 10;
/// plotters takes a font's size for its height.
const FONT: f64 = 12.0 * 1.24;
/// The page's style names these colours.
const INK: RGBColor = RGBColor(0x1c, 0x20, 0x24);
const TRACK: RGBColor = RGBColor(0xec, 0xec, 0xe6);

impl Whose {
    fn colour(self) -> RGBColor {
        match self {
            Whose::Direct => RGBColor(0xa3, 0xac, 0xb5),
            Whose::Pgweir => RGBColor(0x1b, 0x7f, 0x79),
            Whose::PgBouncer => RGBColor(0xe0, 0x9f, 0x3e),
        }
    }
}

/// A drawing of these bars, on one scale that begins at zero; `None` for no bars.
pub(crate) fn bars(bars: &[Bar]) -> Option<Drawing> {
    if bars.is_empty() {
        return None;
    }
    let most = bars.iter().filter_map(|bar| Some(bar.figure?.high)).fold(0.0_f64, f64::max);
    let scale = if most > 0.0 { f64::from(WIDTH) / most } else { 0.0 };
    let mut svg = String::new();
    let size = (WIDTH.unsigned_abs(), ROW.unsigned_abs() * u32::try_from(bars.len()).unwrap_or(1));
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    for (at, bar) in (0..).zip(bars) {
        one(&area, bar, ROW * at, scale).expect("writing to a String cannot fail");
    }
    area.present().expect("writing to a String cannot fail");
    drop(area);
    // Within a page it needs none, and a page that names no other place is seen to need none.
    let svg = svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
    let words = bars.iter().map(|bar| format!("{}: {}", bar.name, value(bar))).collect::<Vec<_>>().join("; ");
    Some(Drawing { svg, words })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn one<'a>(area: &Area<'a>, bar: &Bar, top: i32, scale: f64) -> Drawn<'a> {
    let text = |at: HPos| ("sans-serif", FONT).into_text_style(area).color(&INK).pos(Pos::new(at, VPos::Center));
    area.draw(&Text::new(bar.name.clone(), (0, top + TEXT), text(HPos::Left)))?;
    area.draw(&Text::new(value(bar), (WIDTH, top + TEXT), text(HPos::Right)))?;
    area.draw(&Rectangle::new([(0, top + BAR), (WIDTH, top + BAR + THICK)], TRACK.filled()))?;
    let Some(figure) = bar.figure else { return Ok(()) };
    let [median, low, high] = [figure.median, figure.low, figure.high].map(|value| pixels(value * scale));
    let colour = bar.whose.colour();
    area.draw(&Rectangle::new([(0, top + BAR), (median.max(1), top + BAR + THICK)], colour.filled()))?;
    if high - low > 1 {
        let middle = top + BAR + THICK / 2;
        area.draw(&PathElement::new(vec![(low, middle), (high, middle)], INK.stroke_width(1)))?;
    }
    Ok(())
}

fn value(bar: &Bar) -> String {
    bar.figure.map_or_else(|| bar.words.clone(), |figure| number(figure.median))
}

fn pixels(length: f64) -> i32 {
    // A width of some hundred; what is no number is drawn as nothing.
    length.clamp(0.0, f64::from(WIDTH)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, median: f64) -> Bar {
        let figure = Some(Range { median, low: median, high: median });
        Bar { name: name.to_owned(), whose: Whose::Direct, figure, words: String::new() }
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_texts_are_escaped() {
        let drawing = bars(&[bar("a<b", 10.0), bar("c", 5.0)]).expect("there are bars");
        let widths = drawing.svg.matches("#A3ACB5").count();
        assert_eq!(widths, 2, "{}", drawing.svg);
        assert!(
            drawing.svg.contains("width=\"320\" height=\"10\"") && drawing.svg.contains("width=\"160\" height=\"10\"")
        );
        assert!(drawing.svg.contains("a&lt;b") && !drawing.svg.contains("a<b"));
        assert!(!drawing.svg.contains("http"), "{}", drawing.svg);
        assert_eq!(drawing.words, "a<b: 10; c: 5");
        assert!(bars(&[]).is_none());
    }

    #[test]
    fn nothing_but_zeros_is_drawn_too_and_what_has_no_value_says_why() {
        assert!(bars(&[bar("a", 0.0)]).expect("a bar").svg.contains("width=\"1\""));
        let none = Bar { figure: None, words: "not possible".to_owned(), ..bar("a", 0.0) };
        assert!(bars(&[none]).expect("a bar").svg.contains("not possible"));
    }

    /// The style maps colours by their values: one that it does not know would be the same in the dark.
    #[test]
    fn the_style_knows_every_colour() {
        let style = include_str!("../templates/page.css");
        let colours = [INK, TRACK, Whose::Direct.colour(), Whose::Pgweir.colour(), Whose::PgBouncer.colour()];
        for RGBColor(red, green, blue) in colours {
            let colour = format!("[fill=\"#{red:02X}{green:02X}{blue:02X}\"]");
            assert!(style.contains(&colour), "{colour}");
        }
    }
}
