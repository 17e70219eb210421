//! Tests of `build`: a recipe makes the bytes of the command line that it prints.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::changing::VolumeDir;

/// A recipe with most kinds of keys.
const RECIPE: &str = r#"
# The system, and the files of this host on top.
output = "out/it's a disk.qcow2"
from = ["base", "overlay"]
add = ["hosts:/etc/hosts"]
exclude = ["*.o"]
size = "auto"
free = "10%"
label = "root"
owner = "0:0"
mode = ["u=rwX,go=rX", "600:etc/secret"]
mtime = "clamp"
time = 1_700_000_000
for = "debian-12"
format = "qcow2"

[disk]
kind = "gpt"
esp = "boot"
partition-type = "linux-root-x86-64"
partition-name = "the root"

[metadata]
uuid = "0123abcd-0123-4567-89ab-0123456789ab"
rmapbt = false

[log]
size = "65m"
"#;

/// Returns a directory with the recipe `recipes/image.toml` and its sources.
fn place() -> VolumeDir {
    let place = VolumeDir::new();
    for folder in ["base/etc", "overlay", "boot/EFI/BOOT", "out"] {
        fs::create_dir_all(place.path("recipes").join(folder)).unwrap();
    }
    for (file, text) in [
        ("base/etc/secret", "secret\n"),
        ("base/etc/left.o", "left out\n"),
        ("base/name", "base\n"),
        ("overlay/name", "overlay\n"),
        ("hosts", "127.0.0.1 localhost\n"),
        ("boot/EFI/BOOT/BOOTX64.EFI", "a loader"),
        ("image.toml", RECIPE),
    ] {
        fs::write(place.path("recipes").join(file), text).unwrap();
    }
    place
}

#[test]
fn recipe_makes_the_bytes_of_the_command_that_it_prints() {
    let place = place();
    let printed = place.check(&["build", "--print-command", "recipes/image.toml"]);
    assert!(printed.starts_with("ferroxfs mkfs --from recipes/base --from recipes/overlay "));
    assert!(printed.ends_with(" 'recipes/out/it'\\''s a disk.qcow2'\n"), "{printed}");
    place.check(&["build", "-q", "recipes/image.toml"]);
    let made = place.path("recipes/out/it's a disk.qcow2");
    let by_recipe = fs::read(&made).unwrap();
    fs::remove_file(&made).unwrap();
    // A shell runs the printed command.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ferroxfs"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &printed]).current_dir(place.path("")).env("PATH", path);
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&made).unwrap() == by_recipe);
    let at = |path: &str| format!("recipes/out/it's a disk.qcow2:/{path}");
    assert_eq!(place.check(&["cat", &at("name")]), "overlay\n");
    assert_eq!(place.check(&["cat", &at("etc/hosts")]), "127.0.0.1 localhost\n");
    assert!(!place.check(&["ls", &at("etc")]).contains("left.o"));
}

#[test]
fn paths_are_relative_to_the_recipe() {
    let place = place();
    let here = place.check(&["build", "--print-command", "recipes/image.toml"]);
    let mut inside = place.command(&["build", "--print-command", "image.toml"]);
    let output = inside.current_dir(place.path("recipes")).output().unwrap();
    let there = String::from_utf8(output.stdout).unwrap();
    assert_eq!(there, here.replace("recipes/", ""));
    let absolute = place.path("recipes/image.toml");
    let full = place.check(&["build", "--print-command", absolute.to_str().unwrap()]);
    assert_eq!(full, here.replace("recipes/", &format!("{}/", place.path("recipes").display())));
}

#[test]
fn options_of_build_change_the_output_only() {
    let place = place();
    fs::write(place.path("r.toml"), "size = '300m'\n[metadata]\ncrc = 1\n").unwrap();
    place.check_failure(&["build", "r.toml"], 2, "r.toml: names no output\nhint: add output");
    place.check(&["build", "-q", "-o", "made.img", "r.toml"]);
    place.check_failure(&["build", "-o", "made.img", "r.toml"], 1, "use -f to overwrite it");
    place.check(&["build", "-q", "-f", "-o", "made.img", "r.toml"]);
    place.check(&["check", "made.img"]);
    let odd = place.check(&["build", "--print-command", "-f", "--output=-x", "r.toml"]);
    assert_eq!(odd, "ferroxfs mkfs -d size=300m -m crc=1 -f ./-x\n");
    let text = place.check(&["build", "--json", "--print-command", "-o", "x", "r.toml"]);
    let facts: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["command"][1], "mkfs");
    let text = place.check(&["build", "--json", "-o", "x", "r.toml"]);
    let facts: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["data_blocks"], (300 << 20) / 4096);
}

#[test]
fn mistakes_in_a_recipe_are_refused() {
    let place = place();
    for (text, code, message) in [
        ("output = 'x'\nsizee = 1", 2, "r.toml:2:1: unknown key \"sizee\"\nhint: did you mean"),
        ("output = 'x'\nsize = '300m'\ndisk.kind = 'apm'", 2, "r.toml:3:13: invalid value 'apm'"),
        ("output = 'x'\nfrom = 'tree'\nprototype.file = 'p'", 2, "r.toml:2:8: the argument"),
        (
            "output = 'x'\npasswd = 'p'",
            2,
            "r.toml: the following required arguments were not provided: --owner",
        ),
        ("output = 'x'\nfree = '10%'", 2, "r.toml:2:8: --free is for -d size=auto"),
        (
            "output = 'x'\nowner = 'no-such-user'\nfrom = '.'\nsize = '300m'",
            2,
            "r.toml:2:9: --owner: no-such-user",
        ),
        (
            "output = 'x'\n[disk]\nkind = 'gpt'\nesp = 'e'\nesp-size = 'x'",
            2,
            "r.toml:5:12: invalid",
        ),
        (
            "output = 'x'\n[disk]\nkind = 'gpt'\npartition-type = 'odd'",
            2,
            "r.toml:4:18: --partition-type odd:",
        ),
        ("output = 'x'\nsize = '300m'\nfrom = 'absent'", 1, "absent: No such file"),
    ] {
        fs::write(place.path("r.toml"), text).unwrap();
        place.check_failure(&["build", "r.toml"], code, message);
        // A line that mkfs would refuse is not printed either, if its sources do not matter.
        if code == 2 && !text.contains("owner") {
            place.check_failure(&["build", "--print-command", "r.toml"], code, message);
        }
        assert!(!place.path("x").exists(), "{text}");
    }
    place.check_failure(&["build", "absent.toml"], 1, "absent.toml: No such file");
}
