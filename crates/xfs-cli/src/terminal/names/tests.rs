use super::{NameStyle, printable, printable_bytes, printable_json, quote};

#[track_caller]
fn check_quote(name: &[u8], expected: &str) {
    assert_eq!(quote(name), expected);
}

#[test]
fn plain_names_stay() {
    check_quote(b"Makefile", "Makefile");
    check_quote(b"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6");
    check_quote("grün".as_bytes(), "grün");
}

#[test]
fn shell_special_names_are_quoted() {
    check_quote(b"", "''");
    check_quote(b"two words", "'two words'");
    check_quote(b"it's", "\"it's\"");
    check_quote(b"it's $HOME", "'it'\\''s $HOME'");
    check_quote(b"~", "'~'");
}

#[test]
fn control_bytes_are_quoted_in_octal() {
    check_quote(b"a\x1b[2Jb", "'a'$'\\033''[2Jb'");
    check_quote(b"line\nfeed", "'line'$'\\n''feed'");
    check_quote(b"\xff\xfe", "$'\\377\\376'");
    check_quote("\u{202e}gpj.exe".as_bytes(), "$'\\342\\200\\256''gpj.exe'");
    check_quote("\u{9b}31m".as_bytes(), "$'\\302\\233''31m'");
}

#[test]
fn pipes_get_every_byte() {
    assert_eq!(&*NameStyle::Raw.show(b"a\x1b\xff\n"), b"a\x1b\xff\n");
}

#[test]
fn shell_reads_quoted_names_back() {
    for name in [&b"a\x1b[2Jb"[..], b"it's $HOME", b"\xff'\n\"", b"two words", b"!x'y"] {
        let output = std::process::Command::new("bash")
            .arg("-c")
            .arg(format!("printf %s {}", quote(name)))
            .output()
            .expect("bash runs");
        assert_eq!(output.stdout, name);
    }
}

/// Characters that are invisible, that change the direction of text, or that control a terminal.
const HOSTILE: &str = "\u{1b}\u{7}\u{8}\r\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\
    \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}\u{e0041}";

#[test]
fn every_text_form_escapes_hostile_characters() {
    for c in HOSTILE.chars() {
        let text = format!("a{c}b");
        let forms = [
            quote(text.as_bytes()).into_owned(),
            printable(&text).into_owned(),
            String::from_utf8(printable_bytes(text.as_bytes()).into_owned()).unwrap(),
            String::from_utf8(printable_json(text.as_bytes()).into_owned()).unwrap(),
        ];
        for form in forms {
            assert!(!form.contains(c), "{form:?}");
            assert!(form.contains('a') && form.contains('b'), "{form:?}");
        }
    }
}

#[test]
fn printable_text_keeps_newlines_and_tabs() {
    assert_eq!(printable("one\ntwo\u{202e}"), "one\ntwo\\342\\200\\256");
    assert_eq!(&*printable_bytes(b"1\ta\xff\n"), b"1\ta\\377\n");
}

#[test]
fn escaped_json_parses_to_the_same_value() {
    for text in [HOSTILE, "\u{1d173}", "plain"] {
        let json = serde_json::to_string(text).unwrap();
        let shown = printable_json(json.as_bytes()).into_owned();
        assert_eq!(serde_json::from_slice::<String>(&shown).unwrap(), text);
    }
}
