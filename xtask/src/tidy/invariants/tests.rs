use super::check;
use crate::tidy::File;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn findings(files: &[File]) -> Vec<String> {
    check(files).iter().map(ToString::to_string).collect()
}

const HEADER: &str = "//! A log.\n//!\n//! - **I1** Pinned once.\n//! - I2: Moves forward.\n";

#[test]
fn uncited_invariants_are_found() {
    let expected = |number: usize, line| {
        format!("a/src/log.rs:{line}: I{number} is cited by no assert, check or test of the module")
    };
    assert_eq!(findings(&[file("a/src/log.rs", HEADER)]), [expected(1, 3), expected(2, 4)]);
    let elsewhere = file("a/src/tail.rs", "// I1 and I2\n");
    assert_eq!(findings(&[file("a/src/log.rs", HEADER), elsewhere]).len(), 2);
}

#[test]
fn module_and_the_modules_below_it_cite() {
    let module = format!("{HEADER}assert!(pins == 1, \"I1: pinned once\");\n");
    let tests = file("a/src/log/tests.rs", "/// I2.\n");
    assert_eq!(findings(&[file("a/src/log.rs", &module), tests]), [""; 0]);
}

#[test]
fn crate_root_is_cited_by_its_crate() {
    let cites = file("a/tests/it/main.rs", "// I1, I2\n");
    assert_eq!(findings(&[file("a/src/lib.rs", HEADER), cites]), [""; 0]);
}

#[test]
fn longer_number_is_another_invariant() {
    let module = format!("{HEADER}if a {{}} // I10 and I2\n");
    assert_eq!(findings(&[file("a/src/log.rs", &module)]).len(), 1);
}

#[test]
fn end_of_a_path_names_a_module_of_the_same_crate() {
    let module = file("crates/a/src/log.rs", HEADER);
    let cites = "/// Checks I1 of `log`, and I2 of `log`.\n#[test]\nfn f() {}\n";
    let same = file("crates/a/src/tail/tests.rs", cites);
    assert_eq!(findings(&[file("crates/a/src/log.rs", HEADER), same]), [""; 0]);
    let other = file("crates/b/src/tail/tests.rs", cites);
    assert_eq!(findings(&[module, other]).len(), 2);
}

/// Checks that the rule finds a citation of I1 in `code` exactly if `is_cited` is true. The file
/// that is checked has `code` below a header that defines I1.
#[track_caller]
fn check_cites(code: &str, is_cited: bool) {
    let text = format!("//! A log.\n//!\n//! - **I1** Pinned once.\n\n{code}");
    let found = findings(&[file("crates/a/src/log.rs", &text)]);
    assert_eq!(found.is_empty(), is_cited, "{code}");
}

#[test]
fn message_of_an_assert_cites() {
    check_cites("fn f() {\n    assert!(a, \"I1: pinned once\");\n}\n", true);
    check_cites("fn f() {\n    let b = a.expect(\n        \"pinned (I1)\",\n    );\n}\n", true);
}

#[test]
fn comment_cites_only_beside_a_check() {
    check_cites("fn f() {\n    // Pinned once (I1).\n    if a {\n    }\n}\n", true);
    check_cites(
        "fn f() {\n    // I1, as the\n    // caller knows.\n    let b = a\n        .b()?;\n}\n",
        true,
    );
    check_cites("fn f() {\n    let Some(a) = b else { return }; // I1\n}\n", true);
    check_cites(
        "fn f() {\n    // Pinned once (I1).\n    let a = b;\n    if a {\n    }\n}\n",
        false,
    );
    check_cites("fn f() {\n    // I1\n\n    if a {\n    }\n}\n", false);
}

#[test]
fn documentation_cites_only_in_tests() {
    check_cites("/// Pins once (I1).\nfn f() {\n    if a {\n    }\n}\n", false);
    check_cites(
        "#[cfg(test)]\nmod tests {\n    /// Checks I1.\n    #[test]\n    fn f() {}\n}\n",
        true,
    );
}

#[test]
fn module_below_with_the_same_number_cites_its_own() {
    let below = file("crates/a/src/log/tail.rs", "//! A tail.\n//!\n//! - **I1** Moves.\n");
    let tests = file("crates/a/src/log/tail/tests.rs", "/// Checks I1.\n");
    let module = file("crates/a/src/log.rs", "//! A log.\n//!\n//! - **I1** Pinned once.\n");
    let expected = "crates/a/src/log.rs:3: I1 is cited by no assert, check or test of the module";
    assert_eq!(findings(&[module, below, tests]), [expected]);
}

#[test]
fn other_file_cites_with_the_name_of_the_module() {
    let module = || file("crates/a-b/src/log.rs", "//! A log.\n//!\n//! - **I1** Pinned once.\n");
    let root = || file("crates/a-b/src/lib.rs", "//! Logs.\n//!\n//! - **I1** No panic.\n");
    let tests = |text| file("crates/a-b/tests/it/main.rs", text);
    assert_eq!(findings(&[module(), tests("/// Checks I1 of `a_b::log`.\n")]), [""; 0]);
    assert_eq!(findings(&[module(), tests("/// Checks I1 of `a_b::tail`.\n")]).len(), 1);
    assert_eq!(findings(&[root(), tests("/// Checks I1 of the crate.\n")]), [""; 0]);
    let elsewhere = file("crates/c/tests/it/main.rs", "/// Checks I1 of the crate.\n");
    assert_eq!(findings(&[root(), elsewhere]).len(), 1);
}

#[test]
fn letters_other_than_i_name_invariants() {
    let header = "//! Undo.\n//!\n//! - **U4** Kept.\n//!\n//! **Q12** Counted.\n";
    let expected = |line, name| {
        format!("a/src/undo.rs:{line}: {name} is cited by no assert, check or test of the module")
    };
    assert_eq!(findings(&[file("a/src/undo.rs", header)]), [expected(3, "U4"), expected(5, "Q12")]);
    let cited = format!("{header}assert!(a, \"U4 and Q12\");\n");
    assert_eq!(findings(&[file("a/src/undo.rs", &cited)]), [""; 0]);
}

#[test]
fn words_of_the_form_of_a_name_define_nothing() {
    for line in [
        "- L1 entry: 8 bytes",
        "L2 entry",
        "- S3 buckets",
        "**I4 of the log.** Waits.",
        "- Q123: x",
    ] {
        assert_eq!(findings(&[file("a/src/undo.rs", &format!("//! {line}\n"))]), [""; 0], "{line}");
    }
}

/// Checks that S3, which is also the name of a service, is a citation only in modules below the one
/// that defines an invariant S3.
#[test]
fn word_that_no_module_above_defines_cites_nothing() {
    let module = file("crates/a/src/salvage.rs", "//! Files.\n//!\n//! - **S3** Kept.\n");
    let object = file("crates/a/src/object/tests.rs", "/// Reads from S3.\n");
    assert_eq!(findings(&[module, object]).len(), 1);
}

#[test]
fn letter_other_than_i_is_defined_once() {
    let header =
        |letter| format!("//! A.\n//!\n//! - **{letter}1** Kept.\n\n// {letter}1\nif a {{}}\n");
    let both =
        |letter| ["crates/a/src/a.rs", "crates/b/src/b.rs"].map(|path| file(path, &header(letter)));
    let expected =
        "crates/b/src/b.rs:3: U1 is defined in crates/a/src/a.rs too, and only I may repeat";
    assert_eq!(findings(&both('U')), [expected]);
    assert_eq!(findings(&both('I')), [""; 0]);
}

const PAGE: &str = "# Log\n\n- **I1** Pinned once.\n\n**Q2.** Counted.\n";

#[test]
fn invariant_of_a_page_is_cited_with_the_page() {
    let page = || file("docs/internals/log.md", PAGE);
    let expected = |line, name| {
        format!(
            "docs/internals/log.md:{line}: {name} is cited by no assert, check or test with this page"
        )
    };
    assert_eq!(findings(&[page()]), [expected(3, "I1"), expected(5, "Q2")]);
    let tests = |text: &str| file("crates/a/src/tests.rs", text);
    let named = "/// I1 in docs/internals/log.md, and Q2 in docs/internals/log.md.\n";
    assert_eq!(findings(&[page(), tests(named)]), [""; 0]);
    assert_eq!(findings(&[page(), tests("/// I1 and Q2 in docs/internals/tail.md.\n")]).len(), 2);
    assert_eq!(findings(&[page(), tests("/// I1 and Q2.\n")]).len(), 2);
    assert_eq!(findings(&[file("docs/guide/log.md", PAGE)]), [""; 0]);
}

#[test]
fn letter_other_than_i_is_one_invariant_of_page_and_module() {
    let page = || file("docs/internals/quota.md", "# Quota\n\n**Q2.** Counted.\n");
    let module = |code: &str| {
        file("crates/a/src/quota.rs", &format!("//! Quota.\n//!\n//! - **Q2** Counted.\n{code}"))
    };
    assert_eq!(findings(&[page(), module("assert!(a, \"Q2\");\n")]), [""; 0]);
    let expected = "crates/a/src/quota.rs:3: Q2 is cited by no assert, check or test of the module";
    assert_eq!(findings(&[page(), module("")]), [expected]);
    let tests = file("crates/b/tests/it/main.rs", "/// Q2 in docs/internals/quota.md.\n");
    assert_eq!(findings(&[page(), module(""), tests]), [""; 0]);
}
