//! Tests of recipes as command lines.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;

use super::keys::{KEYS, KeyKind};
use super::quote;
use super::recipe::Recipe;
use crate::cli::Cli;

/// Options of mkfs without a key: those that print, write nothing or keep the blocks of a file, and
/// the devices that have keys as suboptions.
const WITHOUT_KEY: [&str; 11] = [
    "quiet",
    "dry_run",
    "keep",
    "json",
    "help",
    "version",
    "color",
    "sandbox",
    "log_device",
    "realtime_device",
    "device",
];
/// Shared options that mkfs refuses.
const REFUSED: [&str; 7] =
    ["offset", "logical_volume", "member", "live", "no_recovery", "image", "object_cache"];

/// Reads a recipe with this text in the directory `there`, and returns its words.
fn words(text: &str) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.toml");
    std::fs::write(&path, text).unwrap();
    let here = format!("{}/", folder.path().display());
    let shown = |word: &OsString| word.to_str().unwrap().replace(&here, "HERE/");
    match Recipe::read(&path) {
        Ok(Recipe { options, output, .. }) => {
            Ok(options.iter().chain(&output).map(shown).collect())
        }
        Err(failure) => Err(failure.to_string().replace(&here, "HERE/")),
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(words(text).unwrap(), expected, "{text}");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let refused = words(text).unwrap_err();
    assert!(refused.contains(expected), "{text}: {refused}");
}

#[test]
fn every_option_of_mkfs_has_a_key() {
    let command = Cli::command();
    let mkfs = command.find_subcommand("mkfs").unwrap();
    for option in mkfs.get_arguments().chain(command.get_arguments()) {
        let id = option.get_id().as_str();
        if WITHOUT_KEY.contains(&id) || REFUSED.contains(&id) || id == "log_requests" {
            continue;
        }
        let long = option.get_long().map(|long| format!("--{long}"));
        let short = option.get_short().map(|short| format!("-{short}"));
        let is_of = |key: &&super::keys::Key| match key.kind {
            KeyKind::Suboptions(letter, _) => short == Some(format!("-{letter}")),
            _ => Some(key.option) == long.as_deref() || Some(key.option) == short.as_deref(),
        };
        assert!(KEYS.iter().any(|key| is_of(&key)), "no key for {id}");
    }
}

#[test]
fn keys_become_options() {
    check("output = 'disk.img'", &["HERE/disk.img"]);
    check("output = '/disk.img'\nsize = 'auto'", &["-d", "size=auto", "/disk.img"]);
    check("size = 314_572_800", &["-d", "size=314572800"]);
    check("minimize = true\nall-root = false", &["--minimize"]);
    check(
        "from = ['tree', 'oci:app:1', '/abs', '-']\nadd = 'x:/etc'",
        &[
            "--from",
            "HERE/tree",
            "--from",
            "oci:HERE/app:1",
            "--from",
            "/abs",
            "--from=-",
            "--add",
            "HERE/x:/etc",
        ],
    );
    check("from = 'docker-archive:-'", &["--from", "docker-archive:-"]);
    check("time = -5\nseed = 0x10", &["--time=-5", "--seed", "0x10"]);
    check(
        "mode = '-x'\nexclude = ['*.o', '- a']",
        &["--exclude", "*.o", "--exclude=- a", "--mode=-x"],
    );
    check(
        "[metadata]\nrmapbt = false\nreflink = true\nbigtime = 1",
        &["-m", "bigtime=1", "-m", "reflink", "-m", "rmapbt=0"],
    );
    check(
        "log = { size = '64m', logdev = 'log.img' }",
        &["-l", "logdev=HERE/log.img", "-l", "size=64m"],
    );
    check("[prototype]\nfile = 'p'", &["-p", "file=HERE/p"]);
    check(
        "[disk]\nkind = 'gpt'\nesp = 'boot'\nesp-size = '64m'",
        &["--disk", "gpt", "--esp", "HERE/boot", "--esp-size", "64m"],
    );
}

#[test]
fn mistakes_are_refused_with_their_place() {
    check_refused("sizee = 1", "r.toml:1:1: unknown key \"sizee\"\nhint: did you mean \"size\"?");
    check_refused(
        "\n  esp = 'x'",
        "r.toml:2:3: unknown key \"esp\"\nhint: it stands in the table [disk]",
    );
    check_refused(
        "[disk]\nsize = 1",
        "2:1: unknown key \"size\"\nhint: it stands before all tables",
    );
    check_refused("[dsk]\nkind = 1", "1:2: unknown key \"dsk\"");
    check_refused("zzzzzz = 1", "1:1: unknown key \"zzzzzz\"\nhint: the keys are the long options");
    check_refused("size = 1\nsize = 2", "2:1: duplicate key");
    check_refused("size = ", "1:8: ");
    check_refused("size = 1.5", "1:8: size is a text or a number, not of the type float");
    check_refused("minimize = 1", "1:12: minimize is true or false");
    check_refused("disk = 'gpt'", "1:8: disk is a table");
    check_refused("metadata = 1", "1:12: metadata is a table");
    check_refused("[metadata]\nrmapbtt = 1", "2:1: ");
    check_refused("[data]\nagcount = 'x'", "2:1: ");
    check_refused("[log]\nsize = '64m,internal'", "2:8: a comma begins another suboption");
    check_refused("[prototype]\nfiel = 'x'", "2:1: unknown suboption -p fiel");
    check_refused("label = ''", "1:9: label is empty");
}

#[test]
fn recipe_that_is_no_text_or_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    for (bytes, expected) in [(vec![0xff], "is not UTF-8"), (vec![b' '; (1 << 20) + 1], "1 MiB")] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Recipe::read(&path).unwrap_err().to_string().contains(expected));
    }
    assert!(Recipe::read(Path::new("/no/recipe")).is_err());
}

#[test]
fn words_are_quoted_for_a_shell() {
    for (word, quoted) in [
        ("size=auto", "size=auto"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", r"'it'\''s'"),
        ("$x;*", "'$x;*'"),
        ("\u{e9}", "'\u{e9}'"),
    ] {
        assert_eq!(quote(OsStr::new(word)), quoted.as_bytes());
    }
}
