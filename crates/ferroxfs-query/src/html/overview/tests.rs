use super::{space, totals, tree};
use crate::rows::{Cell, Column, Kind, Rows};

fn rows(columns: &[(&str, Kind)], rows: &[&[Cell]]) -> Rows {
    let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind };
    Rows {
        columns: columns.iter().map(column).collect(),
        rows: rows.iter().map(|row| row.to_vec()).collect(),
        is_cut: false,
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn volumes() -> Rows {
    let columns = [
        ("volume_uuid", Kind::Text),
        ("label", Kind::Text),
        ("used_bytes", Kind::Bytes),
        ("inodes_found", Kind::Count),
    ];
    rows(&columns, &[&[text("aa-1"), text("<b>"), Cell::Number(100), Cell::Number(1234)]])
}

fn directories() -> Rows {
    let columns =
        [("volume_uuid", Kind::Text), ("directory", Kind::Text), ("used_bytes", Kind::Bytes)];
    let row = |path: &str, bytes| [text("aa-1"), text(path), Cell::Number(bytes)];
    let all = [row("/", 100), row("/home", 80), row("/home/ada", 50), row("/home-2", 10)];
    let all: Vec<&[Cell]> = all.iter().map(|it| it.as_slice()).collect();
    rows(&columns, &all)
}

#[test]
fn directories_lie_in_the_directory_above_them() {
    let root = tree(&volumes(), &directories());
    let names = |node: &super::Node| -> Vec<String> {
        node.children.iter().map(|child| child.path.clone()).collect()
    };
    assert_eq!(names(&root), ["/home", "/home-2"]);
    assert_eq!(root.children.first().map(names), Some(vec!["/home/ada".to_owned()]));
}

#[test]
fn label_of_a_volume_is_escaped() {
    let html = space(&volumes(), &directories());
    assert!(html.contains("&lt;b&gt;: files here"), "{html}");
    assert!(!html.contains("<b>"), "{html}");
}

#[test]
fn totals_are_sums_over_volumes() {
    let html = totals(&volumes(), &rows(&[], &[]));
    assert!(html.contains("<b>1\u{202f}234</b>inodes"), "{html}");
    assert!(html.contains("<b>100 B</b>used"), "{html}");
}
