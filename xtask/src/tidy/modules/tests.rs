use super::check;
use crate::tidy::File;

fn check_modules(files: &[(&str, &str)], dead: &[&str]) {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
        .collect();
    let roots = ["crates/a/src/lib.rs".to_owned(), "crates/a/tests/it/main.rs".to_owned()];
    let found: Vec<_> = check(&files, &roots).into_iter().map(|finding| finding.place).collect();
    assert_eq!(found, dead);
}

#[test]
fn nested_modules_are_followed() {
    check_modules(
        &[
            ("crates/a/src/lib.rs", "//! Doc.\npub(crate) mod log;\n"),
            ("crates/a/src/log.rs", "mod record;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/log/record.rs", ""),
            ("crates/a/src/log/tests.rs", ""),
            ("crates/a/tests/it/main.rs", "mod walk;"),
            ("crates/a/tests/it/walk.rs", ""),
            ("fuzz/fuzz_targets/agf.rs", ""),
        ],
        &[],
    );
}

#[test]
fn file_that_nobody_names_is_dead() {
    check_modules(
        &[("crates/a/src/lib.rs", "// mod old;\n"), ("crates/a/src/old.rs", "")],
        &["crates/a/src/old.rs"],
    );
}
