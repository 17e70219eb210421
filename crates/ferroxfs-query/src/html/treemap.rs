//! The map of space by directory: a squarified treemap of nested boxes.
//!
//! The boxes are HTML with positions in percent. So the map fits each screen, and its text keeps
//! its size. A box is a link to the row of its directory, which makes the map usable by keyboard.

use super::Escaped;
use crate::size;

/// A directory with the directories in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) bytes: i128,
    /// The number of its row in the table of directories.
    pub(super) row: Option<usize>,
    pub(super) children: Vec<Node>,
}

/// A rectangle in units of the enclosing one, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Boxes below this share of the map are drawn as one.
const LEAST_SHARE: f64 = 0.002;
/// The ratio of width to height for which boxes are close to squares.
const ASPECT: f64 = 2.0;
const HUES: usize = 8;
/// The depth of boxes in boxes.
const DEPTH: usize = 4;

/// Returns the map. `line` is the identifier of the element that describes a box.
pub(super) fn map(root: &Node, anchor: &str, line: &str) -> String {
    let mut html = format!("<div class=map data-line={line}>");
    let pen = Pen { whole: root.bytes as f64, anchor, depth: 0, hue: 0, aspect: ASPECT };
    pen.children(root, &mut html);
    html.push_str("</div>");
    html
}

/// State of drawing one level.
#[derive(Clone, Copy)]
struct Pen<'a> {
    whole: f64,
    anchor: &'a str,
    depth: usize,
    hue: usize,
    aspect: f64,
}

impl Pen<'_> {
    fn children(self, node: &Node, html: &mut String) {
        let mut children = node.children.clone();
        let inside: i128 = children.iter().map(|child| child.bytes).sum();
        let own = node.bytes - inside;
        children.sort_by_key(|child| std::cmp::Reverse(child.bytes));
        let is_small = |child: &Node| (child.bytes as f64) < self.whole * LEAST_SHARE;
        let first_small = children.iter().position(is_small).unwrap_or(children.len());
        let small = children.split_off(first_small);
        if !small.is_empty() {
            let bytes = small.iter().map(|child| child.bytes).sum();
            let (name, path) =
                (format!("{} smaller", small.len()), format!("{}: smaller directories", node.path));
            children.push(Node { name, path, bytes, ..Node::default() });
        }
        if own > 0 {
            let path = format!("{}: files here", node.path);
            children.push(Node {
                name: "files here".to_owned(),
                path,
                bytes: own,
                ..Node::default()
            });
        }
        children.sort_by_key(|child| std::cmp::Reverse(child.bytes));
        let sizes: Vec<f64> = children.iter().map(|child| child.bytes as f64).collect();
        for (at, (child, area)) in children.iter().zip(squarify(&sizes, self.aspect)).enumerate() {
            let hue = if self.depth == 0 { at % HUES } else { self.hue };
            let aspect = self.aspect * area.width / area.height.max(f64::MIN_POSITIVE);
            Self { hue, aspect, ..self }.tile(child, area, html);
        }
    }

    fn tile(self, node: &Node, area: Area, html: &mut String) {
        if node.bytes <= 0 {
            return;
        }
        let share = node.bytes as f64 * 100.0 / self.whole.max(1.0);
        let shown = size::human(node.bytes);
        let about = format!("{}: {shown}, {share:.1} %", node.path);
        let mix = 46_usize.saturating_sub(self.depth * 12);
        html.push_str(&format!(
            "<div class=tile data-about=\"{}\" style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;\
             height:{:.3}%;--hue:var(--h{});--mix:{mix}%\">",
            Escaped(&about),
            area.left * 100.0,
            area.top * 100.0,
            area.width * 100.0,
            area.height * 100.0,
            self.hue
        ));
        let is_open = !node.children.is_empty() && self.depth + 1 < DEPTH && share > 2.0;
        let label = format!("{} <small>{shown}</small>", Escaped(&node.name));
        match node.row {
            Some(row) => {
                let class = if is_open { "" } else { " class=leaf" };
                html.push_str(&format!(
                    "<a href=\"#{}-{row}\"{class} title=\"{about}\">{label}</a>",
                    self.anchor,
                    about = Escaped(&about)
                ));
            }
            None => html.push_str(&format!("<span title=\"{}\">{label}</span>", Escaped(&about))),
        }
        if is_open {
            html.push_str("<div class=inner>");
            Self { depth: self.depth + 1, ..self }.children(node, html);
            html.push_str("</div>");
        }
        html.push_str("</div>");
    }
}

/// Divides a rectangle of this aspect into areas of these sizes, which are in descending order.
///
/// Each row of boxes takes the shorter side of what is left. It grows while that makes the worst of
/// its boxes more like a square (Bruls, Huizing, van Wijk: Squarified Treemaps).
fn squarify(sizes: &[f64], aspect: f64) -> Vec<Area> {
    let total: f64 = sizes.iter().sum();
    if total <= 0.0 {
        return Vec::new();
    }
    // In a frame of width `aspect` and height 1.
    let scale = aspect / total;
    let (mut left, mut top, mut width, mut height) = (0.0, 0.0, aspect, 1.0);
    let mut areas = Vec::with_capacity(sizes.len());
    let mut rest = sizes;
    while !rest.is_empty() {
        let side = f64::min(width, height);
        let count = row_length(rest, scale, side);
        let (row, after) = rest.split_at(count);
        let sum: f64 = row.iter().sum::<f64>() * scale;
        let depth = if side > 0.0 { sum / side } else { 0.0 };
        let mut along = 0.0;
        for size in row {
            let length = if depth > 0.0 { size * scale / depth } else { 0.0 };
            areas.push(if width >= height {
                Area { left, top: top + along, width: depth, height: length }
            } else {
                Area { left: left + along, top, width: length, height: depth }
            });
            along += length;
        }
        if width >= height {
            left += depth;
            width = f64::max(width - depth, 0.0);
        } else {
            top += depth;
            height = f64::max(height - depth, 0.0);
        }
        rest = after;
    }
    for area in &mut areas {
        area.left /= aspect;
        area.width /= aspect;
    }
    areas
}

/// Returns how many of the sizes stand in one row along this side.
fn row_length(sizes: &[f64], scale: f64, side: f64) -> usize {
    let (mut sum, mut best, mut count) = (0.0, f64::INFINITY, 0);
    let largest = sizes.first().copied().unwrap_or_default() * scale;
    for size in sizes {
        sum += size * scale;
        let smallest = size * scale;
        let (square, length) = (side * side, sum * sum);
        let worst = f64::max(square * largest / length, length / (square * smallest));
        if count > 0 && worst > best {
            break;
        }
        best = worst;
        count += 1;
    }
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::{Node, map, squarify};

    #[test]
    fn areas_fill_the_map_in_proportion_and_do_not_overlap() {
        let sizes = [500.0, 300.0, 120.0, 50.0, 20.0, 9.0, 1.0];
        let areas = squarify(&sizes, 2.0);
        assert_eq!(areas.len(), sizes.len());
        for (size, area) in sizes.iter().zip(&areas) {
            let expected = size / 1000.0;
            assert!((area.width * area.height - expected).abs() < 1e-9, "{area:?}");
            assert!(area.left > -1e-9 && area.left + area.width < 1.0 + 1e-9, "{area:?}");
            assert!(area.top > -1e-9 && area.top + area.height < 1.0 + 1e-9, "{area:?}");
        }
        for (at, a) in areas.iter().enumerate() {
            for b in areas.iter().skip(at + 1) {
                let across =
                    f64::min(a.left + a.width, b.left + b.width) - f64::max(a.left, b.left);
                let down = f64::min(a.top + a.height, b.top + b.height) - f64::max(a.top, b.top);
                assert!(across < 1e-9 || down < 1e-9, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn space_outside_of_children_is_a_box_of_its_own() {
        let child =
            Node { name: "a".into(), path: "/a".into(), bytes: 60, row: Some(1), children: vec![] };
        let root = Node { path: "/".into(), bytes: 100, children: vec![child], ..Node::default() };
        let html = map(&root, "dir", "line");
        assert!(html.contains("/a: 60 B, 60.0 %"), "{html}");
        assert!(html.contains("/: files here: 40 B, 40.0 %"), "{html}");
        assert!(html.contains("href=\"#dir-1\""), "{html}");
    }

    #[test]
    fn empty_sizes_make_no_areas() {
        assert!(squarify(&[], 2.0).is_empty());
        assert!(squarify(&[0.0], 2.0).is_empty());
    }
}
