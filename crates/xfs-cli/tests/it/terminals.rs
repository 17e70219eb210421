//! Tests that nothing from an image or from the command line controls a terminal.
//!
//! Every command that prints runs on a pseudo-terminal, which script(1) makes, over a volume whose
//! names, link targets, attributes and label hold control and format characters.

use std::process::{Command, Stdio};

use crate::GoldenDir;
use crate::damaged::succeed;

/// A name with characters of all kinds that a terminal obeys or does not show: C0, DEL, C1,
/// separators, direction marks.
const HOSTILE: &str = "a\u{1b}]0;t\u{7}\u{8}\r\u{7f}\u{85}\u{9b}1m\u{200b}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\
    \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}z";

/// A control character of C1 as a single byte, which is invalid UTF-8.
const RAW_C1: u8 = 0x9b;

/// Command lines of a shell that print names; `$F` is the program, `$N` the hostile name.
const COMMANDS: [&str; 57] = [
    "$F ls image:/d",
    "$F ls -laiR image:/d",
    "$F ls --json image:/d",
    "$F ls --color=always -l image:/d",
    "$F ls \"image:/d/$N\"",
    "$F ls \"image:/missing$N\"",
    "$F ls \"missing$N\"",
    "$F find image:/d",
    "$F find image:/d -ls",
    "$F find image:/d -printf '%p %P %f %h %H %l\\n'",
    "$F find image:/d --json",
    "$F find image:/d \"-na$N\"",
    "$F tree image:/d",
    "$F tree --json image:/d",
    "$F du -a image:/d",
    "$F du -a --json image:/d",
    "$F stat \"image:/d/$N\" \"image:/d/link$N\"",
    "$F stat --json \"image:/d/link$N\"",
    "$F readlink \"image:/d/link$N\"",
    "$F readlink --json \"image:/d/link$N\"",
    "$F readlink \"image:/d/$N\"",
    "$F getfattr \"image:/d/$N\"",
    "$F getfattr -d \"image:/d/$N\"",
    "$F getfattr -d --json \"image:/d/$N\"",
    "$F getfattr -n \"user.absent$N\" \"image:/d/$N\"",
    "$F getfacl \"image:/d/$N\"",
    "$F getfacl -R image:/d",
    "$F getfacl --json \"image:/d/$N\"",
    "$F extents \"image:/d/$N\"",
    "$F parents \"image:/d/$N\"",
    "$F parents --json \"image:/d/$N\"",
    "$F info image",
    "$F info --json image",
    "$F label image",
    "$F scan --format table image",
    "$F scan --format table --fields paths,symlink,xattrs image",
    "$F scan --format ndjson --fields paths,symlink,xattrs image",
    "$F scan --format csv --fields paths,symlink,xattrs image",
    "$F scan --summary image",
    "$F log --dump image",
    "$F cat \"image:/d/absent$N\"",
    "$F get \"image:/d/absent$N\" out",
    "$F cp -v \"image:/d/$N\" out",
    "$F cp \"image:/d/absent$N\" out",
    "$F cp \"image:/d/$N\" \"absent$N/out\"",
    "$F tar -o \"absent$N/out\" image",
    "$F scan -o \"absent$N/out\" image",
    "$F import \"absent$N\" image",
    "$F rm \"image:/d/absent$N\"",
    "$F mv \"image:/d/absent$N\" image:/d/x",
    "$F rmdir \"image:/d/$N\"",
    "$F chown \"no$N\" image:/d",
    "$F chmod \"no$N\" image:/d",
    "$F setfattr -n \"no$N\" -v 1 image:/d",
    "$F mkfs \"--no$N\" new",
    "$F \"no$N\"",
    "$F umount \"absent$N\"",
];

fn hostile_place() -> GoldenDir {
    let place = GoldenDir::new();
    let (name, link) = (format!("image:/d/{HOSTILE}"), format!("image:/d/link{HOSTILE}"));
    succeed(&place, &["mkdir", "image:/d"]);
    succeed(&place, &["touch", &name]);
    succeed(&place, &["ln", "-s", HOSTILE, &link]);
    succeed(&place, &["setfattr", "-n", &format!("user.{HOSTILE}"), "-v", HOSTILE, &name]);
    succeed(&place, &["label", "image", "\u{202e}L\u{9b}\u{7}"]);
    place
}

/// Runs a command line on a pseudo-terminal, and returns everything that it shows.
fn shown(place: &GoldenDir, command: &str) -> Vec<u8> {
    let mut script = Command::new("script");
    script.args(["-qc", command, "/dev/null"]).current_dir(place.path());
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env("TZ", "UTC");
    script.env("F", env!("CARGO_BIN_EXE_ferroxfs")).env("N", HOSTILE);
    script.stdin(Stdio::null()).output().expect("script(1) runs").stdout
}

/// Returns the text without colours and carriage returns, which the program and the terminal add.
/// Fails for any other escape sequence.
fn without_own_control(shown: &[u8]) -> String {
    // A lossy conversion would hide a raw byte of C1.
    assert!(std::str::from_utf8(shown).is_ok(), "{}", String::from_utf8_lossy(shown));
    let mut text = String::from_utf8_lossy(shown).replace("\r\n", "\n");
    while let Some((before, after)) = text.split_once("\u{1b}[") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let rest = rest.strip_prefix('m').unwrap_or_else(|| panic!("{text:?}"));
        text = [before, rest].concat();
    }
    text
}

#[test]
fn no_command_lets_hostile_text_control_a_terminal() {
    let place = hostile_place();
    for command in COMMANDS {
        let text = without_own_control(&shown(&place, command));
        assert!(!text.trim().is_empty(), "{command} shows nothing");
        let is_hostile =
            |c: &char| *c != 'a' && *c != 'z' && !c.is_ascii_graphic() && HOSTILE.contains(*c);
        let found = text.chars().find(is_hostile);
        assert_eq!(found, None, "{command}: {text:?}");
    }
}

#[test]
fn raw_byte_of_c1_in_a_name_is_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let place = GoldenDir::new();
    let name = [b"image:/raw-".as_slice(), &[RAW_C1], b"31m"].concat();
    let mut touch = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    touch.arg("touch").arg(std::ffi::OsStr::from_bytes(&name)).current_dir(place.path());
    assert!(touch.status().unwrap().success());
    for command in
        ["$F ls image", "$F find image", "$F tree image", "$F du -a image", "$F scan image"]
    {
        let text = without_own_control(&shown(&place, command));
        assert!(text.contains("raw-"), "{command}: {text}");
    }
}

#[test]
fn lists_that_end_in_nul_and_pipes_get_every_byte() {
    let place = hostile_place();
    let name = HOSTILE.as_bytes();
    let holds = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    // The terminal itself puts no carriage return before the one in the name.
    assert!(holds(&shown(&place, "$F find image:/d -print0")));
    assert!(holds(&shown(&place, "$F ls -0 image:/d")));
    for command in [&["ls", "image:/d"][..], &["find", "image:/d"], &["tree", "image:/d"]] {
        assert!(holds(&place.run(command).stdout), "{command:?}");
    }
}

#[test]
fn json_on_a_terminal_parses_as_in_a_pipe() {
    let place = hostile_place();
    let on_terminal = without_own_control(&shown(&place, "$F ls --json image:/d"));
    let in_pipe = place.run(&["ls", "--json", "image:/d"]).stdout;
    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    assert_eq!(parse(on_terminal.as_bytes()), parse(&in_pipe));
}
