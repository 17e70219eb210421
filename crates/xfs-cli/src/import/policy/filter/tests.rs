use super::{Filter, PathMatch, PathPattern};

fn compare(pattern: &str, path: &str) -> PathMatch {
    let names: Vec<&[u8]> = super::names_of(path.as_bytes()).collect();
    PathPattern::parse(pattern.as_bytes(), "test").unwrap().compare(&names)
}

#[test]
fn patterns_match_names_and_paths() {
    use PathMatch::{No, OnTheWay, Whole};
    for (pattern, path, expected) in [
        ("x", "x", Whole),
        ("x", "a/b/x", Whole),
        ("x", "a/x/b", OnTheWay),
        ("/x", "x", Whole),
        ("/x", "a/x", No),
        ("a/x", "a/x", Whole),
        ("a/x", "b/a/x", No),
        ("a/x", "a", OnTheWay),
        ("a/*", "a/b", Whole),
        ("a/*", "a/b/c", No),
        ("a/**", "a", OnTheWay),
        ("a/**", "a/b/c", Whole),
        ("**/x", "x", Whole),
        ("a/**/x", "a/x", Whole),
        ("a/**/x", "a/b/c/x", Whole),
        ("a/**/x", "a/b/c", OnTheWay),
        ("a/**/x", "b", No),
        ("*.p[yc]", "m.py", Whole),
        ("./a//b/", "a/b", Whole),
    ] {
        assert_eq!(compare(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn filter_takes_what_is_included_and_not_excluded() {
    let parse = |text: &str| PathPattern::parse(text.as_bytes(), "test").unwrap();
    let filter = Filter {
        excluded: vec![parse("*.o"), parse("keep/tmp/")],
        included: Some(vec![parse("keep"), parse("some/*.c")]),
        within: None,
    };
    for (path, is_directory, expected) in [
        ("", true, true),
        ("keep", true, true),
        ("keep/deep/x", false, true),
        ("keep/x.o", false, false),
        ("keep/tmp", false, true),
        ("keep/tmp", true, false),
        ("keep/tmp/x", false, false),
        ("some", true, true),
        ("some", false, false),
        ("some/a.c", false, true),
        ("some/a.h", false, false),
        ("other", false, false),
        ("other", true, true),
    ] {
        assert_eq!(filter.takes(path.as_bytes(), is_directory), expected, "{path} {is_directory}");
    }
}

#[test]
fn patterns_without_a_name_are_refused() {
    for pattern in ["", "/", ".", "//"] {
        assert!(PathPattern::parse(pattern.as_bytes(), "test").is_err(), "{pattern:?}");
    }
}
