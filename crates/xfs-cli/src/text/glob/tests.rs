use super::Glob;

#[track_caller]
fn check_match(pattern: &str, text: &[u8], expected: bool) {
    assert_eq!(Glob::new(pattern.as_bytes(), false).matches(text), expected, "{pattern}");
}

#[test]
fn stars_and_question_marks() {
    check_match("*", b"", true);
    check_match("*.rs", b"main.rs", true);
    check_match("*.rs", b"main.rs.bak", false);
    check_match("a*b*c", b"axxbyyc", true);
    check_match("a*b*c", b"axxbyy", false);
    check_match("a**c", b"ac", true);
    check_match("?", b"", false);
    check_match("?", "ü".as_bytes(), true);
    check_match("?", b"\xff", true);
    check_match("/a*c", b"/a/b/c", true);
    check_match("*", b".hidden", true);
}

#[test]
fn sets() {
    check_match("[abc]x", b"bx", true);
    check_match("[!abc]x", b"bx", false);
    check_match("[^abc]x", b"dx", true);
    check_match("[a-f0-9]", b"e", true);
    check_match("[]]", b"]", true);
    check_match("[a-]", b"-", true);
    check_match("[", b"[", true);
    check_match("[a", b"[a", true);
    check_match("[[:digit:]x]", b"7", true);
    check_match("[[:upper:]]", b"q", false);
}

#[test]
fn escapes_and_case() {
    check_match("\\*", b"*", true);
    check_match("\\*", b"a", false);
    check_match("a\\", b"a\\", true);
    assert!(Glob::new(b"READ*", true).matches(b"readme"));
    assert!(Glob::new(b"[A-F]x", true).matches(b"cX"));
}

#[test]
fn many_stars_match_in_bounded_time() {
    let pattern = "*a".repeat(200) + "b";
    check_match(&pattern, &[b'a'; 20_000], false);
}
