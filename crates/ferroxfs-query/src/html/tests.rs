use super::{Escaped, report};
use crate::rows::{Cell, Column, Kind, Rows};

#[test]
fn text_cannot_become_markup() {
    let text = "<script>\"'&\u{7}\u{202e}";
    let escaped = "&lt;script&gt;&quot;&#39;&amp;\\u{7}\\u{202e}";
    assert_eq!(Escaped(text).to_string(), escaped);
}

#[test]
fn page_has_every_row_and_needs_no_network() {
    let rows = Rows {
        columns: vec![
            Column { name: "path".to_owned(), kind: Kind::Text },
            Column { name: "used_bytes".to_owned(), kind: Kind::Bytes },
        ],
        rows: vec![
            vec![Cell::Text("/a<b".to_owned()), Cell::Number(2048)],
            vec![Cell::Null, Cell::Number(1024)],
        ],
        is_cut: true,
    };
    let html = report("Title", &rows);
    assert!(html.contains("<td class=text>/a&lt;b</td>"), "{html}");
    assert!(html.contains("data-value=2048>2.0 KiB"), "{html}");
    assert!(html.contains("style=\"width:50.0%\""), "{html}");
    assert!(html.contains("more rows than the 2"), "{html}");
    for word in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
}
