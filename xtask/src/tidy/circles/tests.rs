use super::{check, paths};
use crate::tidy::File;

/// Checks that the rule reports one circle for each of `sizes`, in this order, and no other.
/// `files` are the paths and texts of one crate.
fn check_circles(files: &[(&str, &str)], sizes: &[usize]) {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| File { path: format!("crates/a/src/{path}"), text: (*text).to_owned() })
        .collect();
    let rules: Vec<_> = check(&files).into_iter().map(|finding| finding.rule).collect();
    let expected: Vec<_> =
        sizes.iter().map(|size| format!("{size} files import each other in a circle")).collect();
    assert_eq!(rules.len(), expected.len(), "{rules:?}");
    for (rule, expected) in rules.iter().zip(&expected) {
        assert!(rule.starts_with(expected), "{rule}");
    }
}

/// Returns the texts of `count` files that form a ring: the file `m<n>` imports the next one, and
/// the last imports the first.
fn ring(count: usize) -> Vec<(String, String)> {
    let file = |n: usize| (format!("m{n}.rs"), format!("use crate::m{}::Name;\n", (n + 1) % count));
    (0..count).map(file).collect()
}

fn check_ring(count: usize, sizes: &[usize]) {
    let files = ring(count);
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, sizes);
}

#[test]
fn circle_of_nine_files_is_found() {
    check_ring(8, &[]);
    check_ring(9, &[9]);
}

#[test]
fn line_of_nine_files_forms_no_circle() {
    let mut files = ring(9);
    files.pop();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, &[]);
}

#[test]
fn groups_and_paths_in_code_are_imports() {
    let mut files = ring(9);
    files.truncate(7);
    files.push(("m7.rs".to_owned(), "use crate::{m1::Name as Other, m8::{A, B}};\n".to_owned()));
    files.push(("m8.rs".to_owned(), "fn f() { crate::m0::g(); }\n".to_owned()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, &[9]);
}

#[test]
fn imports_of_tests_and_comments_close_no_circle() {
    let mut files = ring(9);
    files.pop();
    let last = "// crate::m0\n#[cfg(test)]\nuse crate::m0::{A, B};\n\
                #[cfg(test)]\nmod tests {\n    use crate::m0::C;\n}\n";
    files.push(("m8.rs".to_owned(), last.to_owned()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, &[]);
}

#[test]
fn children_import_their_parent_by_super() {
    let mut files: Vec<_> =
        (0..8).map(|n| (format!("m/c{n}.rs"), "use super::Name;\n".to_owned())).collect();
    let names = (0..8).map(|n| format!("use crate::m::c{n}::Name;\n")).collect::<String>();
    files.push(("m.rs".to_owned(), names));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, &[9]);
}

#[test]
fn groups_give_one_path_for_each_name() {
    let named = paths::named("use super::super::a::{b, c::{d as e, f}, self};\nlet x = 1;");
    let named: Vec<_> = named.iter().map(|path| path.join("::")).collect();
    let start = "super::super::a";
    let expected = ["b", "c::d", "c::f", "self"].map(|name| format!("{start}::{name}"));
    assert_eq!(named, expected);
}

#[test]
fn re_exported_names_import_the_module_that_defines_them() {
    let mut files = ring(9);
    files.truncate(7);
    files.push(("m7.rs".to_owned(), "use crate::Name;\n".to_owned()));
    files.push(("m8.rs".to_owned(), "use crate::m0::Name;\n".to_owned()));
    files.push(("lib.rs".to_owned(), "pub use shelf::{Name, Other};\n".to_owned()));
    files.push(("shelf.rs".to_owned(), "pub(crate) use crate::m8::Name;\n".to_owned()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check_circles(&files, &[10]);
}

#[test]
fn paths_of_other_crates_count_as_no_re_exports() {
    let re_exported =
        paths::re_exported("pub use std::io;\nuse crate::a::B;\npub use a::{B, c::D};");
    let re_exported: Vec<_> = re_exported.iter().map(|path| path.join("::")).collect();
    assert_eq!(re_exported, ["std::io", "a::B", "a::c::D"]);
}
