//! Charts as SVG: areas on one another, and lines. Colours are the page's: each shape has a class, and the page's style says what that is in the
//! light and in the dark.

use std::fmt::Write as _;

const LEFT: f64 = 44.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 22.0;

/// Room for a mark on the axis of time.
const TIME_WIDTH: f64 = 150.0;

/// One line or area: its class in the style, its name, and a value for each place; `None`: nobody has looked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) style: String,
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Areas,
    Lines,
}

/// A chart of some series of equal length. `times`: what to write below each place. `size`: width and height.
pub(crate) fn chart(series: &[Series], times: &[String], size: (u32, u32), form: Form, name: &str) -> String {
    let (width, height) = (f64::from(size.0), f64::from(size.1));
    let stacked = if form == Form::Areas { stacked(series) } else { series.to_vec() };
    let most = stacked.iter().flat_map(|series| &series.values).copied().flatten().fold(0.0, f64::max);
    let step = step(most);
    let top = (most / step).ceil().max(1.0) * step;
    let scale = Scale { places: times.len(), top, width, height };
    let mut out = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escaped(name));
    let mut mark = 0.0;
    while mark <= top + step / 2.0 {
        let y = scale.y(mark);
        write(
            &mut out,
            format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", width - RIGHT),
        );
        write(
            &mut out,
            format_args!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, y + 4.0, number(mark)),
        );
        mark += step;
    }
    for place in marks(times.len(), (width / TIME_WIDTH) as usize) {
        let x = scale.x(place);
        // At both ends there is room on one side only.
        let anchor = match place {
            0 => "start",
            _ if x + TIME_WIDTH / 4.0 > width => "end",
            _ => "middle",
        };
        let y = height - 6.0;
        write(
            &mut out,
            format_args!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", escaped(&times[place])),
        );
    }
    let nothing = vec![Some(0.0); times.len()];
    for (index, series) in stacked.iter().enumerate() {
        let below = if index == 0 { &nothing } else { &stacked[index - 1].values };
        for run in runs(&series.values) {
            let path = if form == Form::Areas { scale.area(series, below, run) } else { scale.line(series, run) };
            let style = escaped(&series.style);
            let kind = if form == Form::Areas { "area" } else { "line" };
            write(
                &mut out,
                format_args!(
                    "<path class=\"{kind} {style}\" d=\"{path}\"><title>{}</title></path>",
                    escaped(&series.name)
                ),
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// Each on top of those before it.
fn stacked(series: &[Series]) -> Vec<Series> {
    let mut sums: Vec<Option<f64>> = Vec::new();
    let mut stacked = Vec::new();
    for one in series {
        sums.resize(one.values.len(), Some(0.0));
        for (sum, value) in sums.iter_mut().zip(&one.values) {
            *sum = sum.zip(*value).map(|(sum, value)| sum + value);
        }
        stacked.push(Series { values: sums.clone(), ..one.clone() });
    }
    stacked
}

/// Places that were looked at, one behind the other: from, and the one behind the last.
fn runs(values: &[Option<f64>]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, _) in values.iter().enumerate().filter(|(_, value)| value.is_some()) {
        match runs.last_mut() {
            Some((_, end)) if *end == place => *end += 1,
            _ => runs.push((place, place + 1)),
        }
    }
    runs
}

struct Scale {
    places: usize,
    top: f64,
    width: f64,
    height: f64,
}

impl Scale {
    fn x(&self, place: usize) -> f64 {
        let width = self.width - LEFT - RIGHT;
        LEFT + width * place as f64 / (self.places.saturating_sub(1)).max(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        let high = self.height - TOP - BOTTOM;
        TOP + high * (1.0 - value / self.top)
    }

    fn points(&self, values: &[Option<f64>], places: impl Iterator<Item = usize>) -> String {
        let points = places.map(|place| format!("{:.1} {:.1}", self.x(place), self.y(values[place].unwrap_or(0.0))));
        points.collect::<Vec<_>>().join("L")
    }

    fn line(&self, series: &Series, (from, end): (usize, usize)) -> String {
        format!("M{}", self.points(&series.values, from..end))
    }

    fn area(&self, series: &Series, below: &[Option<f64>], (from, end): (usize, usize)) -> String {
        format!("M{}L{}Z", self.points(&series.values, from..end), self.points(below, (from..end).rev()))
    }
}

fn marks(places: usize, most: usize) -> Vec<usize> {
    if places == 0 {
        return Vec::new();
    }
    let mut marks: Vec<usize> = (0..most).map(|mark| mark * places / most).collect();
    marks.dedup();
    marks
}

/// 1, 2 or 5 times a power of ten, of which some four are up to `most`.
fn step(most: f64) -> f64 {
    let rough = (most / 4.0).max(0.25);
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= rough).unwrap_or(10.0);
    times * power
}

/// As short as it can be read: `1.2k`.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        value if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    // Two digits that count: a small number is not 0.
    if value > 0.0 && value < 0.095 {
        let digits = (1.0 - value.log10().floor()).clamp(2.0, 6.0) as usize;
        let text = format!("{value:.digits$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write(out: &mut String, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[Option<f64>]) -> Series {
        Series { style: "lock".to_owned(), name: "<b>\"&".to_owned(), values: values.to_vec() }
    }

    #[test]
    fn areas_stand_on_one_another_and_end_where_nobody_looked() {
        let one = series(&[Some(1.0), Some(2.0), None, Some(1.0)]);
        let stack = stacked(&[one.clone(), one]);
        assert_eq!(stack[1].values, [Some(2.0), Some(4.0), None, Some(2.0)]);
        assert_eq!(runs(&stack[1].values), [(0, 2), (3, 4)]);
        let times: Vec<String> = (0..4).map(|second| format!("12:00:0{second}")).collect();
        let svg = chart(&stack, &times, (960, 200), Form::Areas, "waits <now>");
        assert_eq!(svg.matches("<path class=\"area lock\"").count(), 4);
        assert!(
            svg.contains("aria-label=\"waits &lt;now&gt;\"") && svg.contains("<title>&lt;b&gt;&quot;&amp;</title>"),
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn marks_are_round_numbers() {
        let steps = [0.0, 3.0, 7.0, 40.0, 234.0, 9000.0].map(|most| number(step(most)));
        assert_eq!(steps, ["0.5", "1", "2", "10", "100", "5000"]);
        assert_eq!([0.0, 1.25, 12_000.0, 3_400_000.0].map(number), ["0", "1.2", "12k", "3.4M"]);
        assert_eq!([0.03, 0.016_66, 0.094, 0.095, 0.000_4].map(number), ["0.03", "0.017", "0.094", "0.1", "0.0004"]);
        assert_eq!((marks(0, 6), marks(3, 6), marks(60, 6)), (vec![], vec![0, 1, 2], vec![0, 10, 20, 30, 40, 50]));
    }

    #[test]
    fn nothing_is_a_chart_too() {
        let svg = chart(&[], &[], (960, 100), Form::Lines, "");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }
}
