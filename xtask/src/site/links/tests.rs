use std::fs;

use super::check;

/// Writes a site of two pages, `a.html` with the text `a` and `b/c.html` with the text `c`.
/// Compares its broken links with `expected`.
fn check_site(a: &str, c: &str, expected: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("b")).unwrap();
    fs::write(place.path().join("a.html"), a).unwrap();
    fs::write(place.path().join("b/c.html"), c).unwrap();
    fs::write(place.path().join("LICENSE"), "text").unwrap();
    assert_eq!(check(place.path()).unwrap(), expected);
}

#[test]
fn links_to_pages_files_sections_and_other_sites_are_good() {
    let a =
        r##"<h2 id="x">X</h2> <a href="b/c.html#y"> <a class="k" href="LICENSE"> <a href="#x">"##;
    let c =
        r##"<h2 class="k" id="y">Y</h2> <a href="../a.html"> <img src="https://example.org/i">"##;
    check_site(a, c, &[]);
}

#[test]
fn links_to_missing_pages_files_and_sections_are_found() {
    let a = r##"<h2 id="x">X</h2> <a href="b/d.html"> <img src="i.png"> <a href="#y">"##;
    let c = r##"<a href="../a.html#x"> <a href="a.html">"##;
    let expected = [
        "a.html: link to nowhere: #y",
        "a.html: link to nowhere: b/d.html",
        "a.html: link to nowhere: i.png",
        "b/c.html: link to nowhere: a.html",
    ];
    check_site(a, c, &expected);
}
