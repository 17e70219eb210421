use super::Masked;

fn check_mask(text: &str, code: &str, comments: &str) {
    let masked = Masked::new(text);
    assert_eq!(masked.code, code, "code of {text:?}");
    assert_eq!(masked.comments, comments, "comments of {text:?}");
}

#[test]
fn comments_go_apart() {
    check_mask("a // b\nc", "a \nc", "/ b\n");
    check_mask("a /* b /* c */ d */ e", "a  e", "* b /* c */ d */");
}

#[test]
fn strings_are_left_out() {
    check_mask(r#"f("a // \" b", c)"#, r#"f("", c)"#, "");
    check_mask("f(\"a\nb\")", "f(\"\n\")", "\n");
    check_mask(r###"f(r#"a " b"#, br"c\")"###, r#"f("", b"")"#, "");
}

#[test]
fn characters_are_not_lifetimes() {
    check_mask(r#"'"' 'a '\'' b"#, "'' 'a '' b", "");
    check_mask("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}", "");
}

#[test]
fn name_that_ends_in_r_starts_no_string() {
    check_mask(r#"for"x" r b"#, r#"for"" r b"#, "");
}
