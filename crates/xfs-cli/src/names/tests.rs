use super::{NameStyle, quote};

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
fn names_that_a_shell_would_split_are_quoted() {
    check_quote(b"", "''");
    check_quote(b"two words", "'two words'");
    check_quote(b"it's", "\"it's\"");
    check_quote(b"it's $HOME", "'it'\\''s $HOME'");
    check_quote(b"~", "'~'");
}

#[test]
fn bytes_that_a_terminal_would_obey_are_octal() {
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
fn a_shell_reads_quoted_names_back() {
    for name in [&b"a\x1b[2Jb"[..], b"it's $HOME", b"\xff'\n\"", b"two words", b"!x'y"] {
        let output = std::process::Command::new("bash")
            .arg("-c")
            .arg(format!("printf %s {}", quote(name)))
            .output()
            .expect("bash runs");
        assert_eq!(output.stdout, name);
    }
}
