use super::frame;

#[test]
fn frame_replaces_the_previous_frame() {
    assert_eq!(frame("a\nb\n", 3), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
}

#[test]
fn frame_taller_than_the_screen_is_cut() {
    for rows in 1..6 {
        let frame = frame("a\nb\nc\nd\n", rows);
        let drawn = frame.matches('\n').count();
        assert!(drawn < rows.max(2), "{rows}: {frame:?}");
    }
    let cut = frame("a\nb\nc\nd\n", 4);
    assert_eq!(cut, "\x1b[Ha\x1b[K\nb\x1b[K\n(2 more lines in a higher window)\x1b[K\n\x1b[J");
}
