//! Draws a line chart as SVG. The horizontal axis mostly has numbers of threads. Each variant of
//! the benchmark has one line.
//!
//! Owns: the layout. Does **not** own: colours. The style sheet of the page defines a class for
//! each colour, so that colours follow the light or dark scheme.
//!
//! Lines also differ by their dashes and marks, and each is named at its end, so that readers do
//! not need the colours. All coordinates are in units of the SVG view box.

use std::fmt::Write;

use super::escape;
use crate::tables::rate;

pub(crate) const WIDTH: f64 = 560.0;
pub(crate) const HEIGHT: f64 = 300.0;

const LEFT: f64 = 62.0;
/// The x coordinate of the right edge of the plot. The names of lines are to the right of this
/// edge.
const RIGHT: f64 = WIDTH - 150.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Distance between the left or right edge of the plot and the nearest position on the horizontal
/// axis.
const INSET: f64 = 18.0;
/// Height of a line of small text, in units of the view box.
const TEXT_HEIGHT: f64 = 14.0;
/// Estimated width of a letter of small text with its margin, in units of the view box.
const LETTER_WIDTH: f64 = 6.6;
const TICKS: f64 = 4.0;

/// The data of a chart.
pub(crate) struct Chart<'a> {
    /// The title: the name of the measured step or section.
    pub(crate) title: &'a str,
    /// The unit of the vertical axis.
    pub(crate) unit: &'a str,
    /// The label of the horizontal axis, which says what its positions are.
    pub(crate) places_are: &'a str,
    /// The labels of the positions on the horizontal axis, from left to right.
    pub(crate) places: Vec<String>,
    /// The lines of the chart.
    pub(crate) lines: Vec<ChartLine<'a>>,
}

/// One line of a chart.
pub(crate) struct ChartLine<'a> {
    /// The name of the variant that the line shows.
    pub(crate) name: &'a str,
    /// The class in the style sheet that sets the colour of the line.
    pub(crate) class: &'static str,
    /// The value at each position on the horizontal axis. `None` if there is no measurement.
    pub(crate) values: Vec<Option<f64>>,
}

/// A finished chart.
pub(crate) struct Drawing {
    /// The text of the SVG element.
    pub(crate) svg: String,
    /// The rectangles that the texts of the chart cover, so that a test can check that none
    /// overlap. They are estimates, because the font is unknown.
    pub(crate) words: Vec<TextArea>,
}

/// A rectangle that a text covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TextArea {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// A point of the chart.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// The point of a text that lies at its x coordinate: the start, the middle or the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextAnchor {
    Start,
    Middle,
    End,
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart<'_>) -> Drawing {
    let mut drawing = Drawing { svg: String::new(), words: Vec::new() };
    let all = chart.lines.iter().flat_map(|line| line.values.iter().copied().flatten());
    let scale = AxisScale::up_to(all.fold(0.0, f64::max));
    let (title, unit) = (escape(chart.title), escape(chart.unit));
    drawing.put(format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}, {unit}, by {}">"#,
        escape(chart.places_are)
    ));
    drawing.text(Point { x: LEFT, y: 18.0 }, TextAnchor::Start, "title", chart.title);
    drawing.text(Point { x: LEFT, y: TOP - 12.0 }, TextAnchor::Start, "unit", chart.unit);
    axes(&mut drawing, chart, &scale);
    let ends = chart.lines.iter().map(|line| end(line, &scale));
    let wanted: Vec<f64> = ends.collect();
    let places = spread(&wanted, TEXT_HEIGHT, TOP, BOTTOM);
    // The first line is drawn last, on top.
    for ((line, at), name_at) in chart.lines.iter().zip(&wanted).zip(&places).rev() {
        draw_line(&mut drawing, chart, line, &scale);
        let last = x_of(chart.places.len().saturating_sub(1), chart.places.len());
        drawing.put(format!(
            r#"<path class="leader" d="M{:.1} {at:.1}L{:.1} {name_at:.1}"/>"#,
            last + 6.0,
            RIGHT + 8.0
        ));
        let class = format!("name {}", line.class);
        drawing.text(
            Point { x: RIGHT + 11.0, y: name_at + 4.0 },
            TextAnchor::Start,
            &class,
            line.name,
        );
    }
    drawing.put("</svg>".to_owned());
    drawing
}

fn axes(drawing: &mut Drawing, chart: &Chart<'_>, scale: &AxisScale) {
    for tick in scale.ticks() {
        let y = scale.y_of(tick);
        drawing.put(format!(r#"<path class="grid" d="M{LEFT} {y:.1}H{RIGHT}"/>"#));
        drawing.text(Point { x: LEFT - 8.0, y: y + 4.0 }, TextAnchor::End, "tick", &short(tick));
    }
    for (number, place) in chart.places.iter().enumerate() {
        let x = x_of(number, chart.places.len());
        drawing.text(Point { x, y: BOTTOM + 18.0 }, TextAnchor::Middle, "tick", place);
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    drawing.text(
        Point { x: middle, y: BOTTOM + 38.0 },
        TextAnchor::Middle,
        "unit",
        chart.places_are,
    );
}

fn draw_line(drawing: &mut Drawing, chart: &Chart<'_>, line: &ChartLine<'_>, scale: &AxisScale) {
    let count = chart.places.len();
    let mut path = String::new();
    let mut marks = String::new();
    let mut is_begun = false;
    for (number, value) in line.values.iter().enumerate() {
        let Some(value) = value else {
            is_begun = false;
            continue;
        };
        let (x, y) = (x_of(number, count), scale.y_of(*value));
        let step = if is_begun { 'L' } else { 'M' };
        is_begun = true;
        // Writing to a string does not fail.
        _ = write!(path, "{step}{x:.1} {y:.1}");
        let place = chart.places.get(number).map_or("", String::as_str);
        let what = format!("{}, {place}: {} {}", line.name, rate(*value), chart.unit);
        _ = write!(
            marks,
            r#"<circle class="mark" cx="{x:.1}" cy="{y:.1}" r="4"><title>{}</title></circle>"#,
            escape(&what)
        );
    }
    drawing.put(format!(r#"<g class="{}"><path class="line" d="{path}"/>{marks}</g>"#, line.class));
}

impl Drawing {
    fn put(&mut self, element: String) {
        self.svg.push_str(&element);
        self.svg.push('\n');
    }

    fn text(&mut self, Point { x, y }: Point, anchor: TextAnchor, class: &str, text: &str) {
        let width = text.chars().count() as f64 * LETTER_WIDTH;
        let (word, left) = match anchor {
            TextAnchor::Start => ("start", x),
            TextAnchor::Middle => ("middle", x - width / 2.0),
            TextAnchor::End => ("end", x - width),
        };
        let top = y - TEXT_HEIGHT + 4.0;
        self.words.push(TextArea { left, top, right: left + width, bottom: top + TEXT_HEIGHT });
        self.put(format!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{word}">{}</text>"#,
            escape(text)
        ));
    }
}

/// The vertical axis. It extends from zero to a round number.
struct AxisScale {
    step: f64,
    steps: f64,
}

impl AxisScale {
    fn up_to(most: f64) -> Self {
        if most <= 0.0 {
            return Self { step: 1.0, steps: 1.0 };
        }
        let wanted = most / TICKS;
        let power = 10.0_f64.powf(wanted.log10().floor());
        let round = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        let step = round.into_iter().find(|step| *step >= wanted).unwrap_or(wanted);
        Self { step, steps: (most / step).ceil() }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps as u32).map(|tick| f64::from(tick) * self.step)
    }

    fn y_of(&self, value: f64) -> f64 {
        BOTTOM - value / (self.step * self.steps) * (BOTTOM - TOP)
    }
}

/// Returns the x coordinate of the position with index `number` on the horizontal axis, which has
/// `count` positions. Positions have equal distances, whatever their labels are.
fn x_of(number: usize, count: usize) -> f64 {
    let (first, last) = (LEFT + INSET, RIGHT - INSET);
    match count {
        0 | 1 => f64::midpoint(first, last),
        _ => first + (last - first) * number as f64 / (count - 1) as f64,
    }
}

/// Returns the y coordinate of a line's right end, where its name is put. A line without values
/// ends at the height of zero.
fn end(line: &ChartLine<'_>, scale: &AxisScale) -> f64 {
    scale.y_of(line.values.iter().rev().find_map(|value| *value).unwrap_or(0.0))
}

/// Moves the y coordinates `wanted` of some texts apart, so that neighbours have a distance of at
/// least `gap`. Keeps their order, moves them no further than needed, and keeps them between `top`
/// and `bottom`.
fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    let at = |index: &usize| wanted.get(*index).copied().unwrap_or_default();
    order.sort_by(|one, other| at(one).total_cmp(&at(other)));
    let mut placed: Vec<f64> = Vec::new();
    for index in &order {
        let least = placed.last().map_or(top, |last| last + gap);
        placed.push(at(index).max(least));
    }
    let mut most = bottom;
    for place in placed.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
    let mut places = vec![0.0; wanted.len()];
    for (index, place) in order.into_iter().zip(placed) {
        if let Some(slot) = places.get_mut(index) {
            *slot = place;
        }
    }
    places
}

/// Formats a number in few characters for the label of an axis.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // Steps are 1, 2, 2.5 or 5 times a power of ten, so two decimals suffice.
    let digits = format!("{scaled:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests;
