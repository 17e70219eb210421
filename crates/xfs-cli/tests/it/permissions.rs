//! Tests of modes, access control lists and attribute values, compared with chmod(1), setfacl(1),
//! chown(1) and similar programs.

use crate::changing::VolumeDir;

/// Runs commands on a new directory and compares its access control lists, in one line, with
/// `expected`.
#[track_caller]
fn check_lists(commands: &[&[&str]], expected: &str) {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    for command in commands {
        place.check(&[command, &["image:/d"][..]].concat());
    }
    let shown = place.check(&["getfacl", "-c", "image:/d"]);
    let entries = shown.lines().map(|line| line.split('\t').next().unwrap_or_default());
    let entries: Vec<_> = entries.filter(|line| !line.is_empty()).collect();
    assert_eq!(entries.join(" "), expected, "{commands:?}");
}

/// Checks that a change of an access control list gives the mask that setfacl(1) 2.3.1 gives.
#[test]
fn mask_is_recomputed_for_the_changed_list() {
    let masked: [&[&str]; 2] = [&["setfacl", "-m", "u:1:rwx"], &["chmod", "700"]];
    let with = |last: &'static [&'static str]| -> Vec<&[&str]> { [&masked[..], &[last]].concat() };
    let closed = "user::rwx user:1:rwx group::r-x mask::--- other::---";
    let open = "user::rwx user:1:rwx group::r-x mask::rwx other::---";
    let default = "default:user::rwx default:user:2:r-x default:group::r-x default:mask::r-x \
                   default:other::---";
    check_lists(&with(&["setfacl", "-m", "d:u:2:rx"]), &format!("{closed} {default}"));
    check_lists(&with(&["setfacl", "-k"]), closed);
    check_lists(&with(&["setfacl", "-m", "u::rwx"]), open);
    check_lists(&with(&["setfacl", "-x", "u:7"]), open);
    check_lists(&with(&["setfacl", "-n", "-m", "u::rwx"]), closed);
    check_lists(&with(&["setfacl", "-m", "o::-,m::-"]), closed);
    let lists = "user::rwx user:1:rwx group::r-x mask::r-x other::r-- default:user::rwx \
                 default:user:1:rwx default:group::r-x default:mask::r-- default:other::r-x";
    check_lists(
        &[
            &["setfacl", "-m", "u:1:rwx,d:u:1:rwx,d:m::r"],
            &["setfacl", "-m", "o::r"],
            &["setfacl", "-m", "m::rx"],
        ],
        lists,
    );
}

#[test]
fn kept_or_removed_mask_is_not_recomputed() {
    let by_number = "user::rwx user:1:rwx group::r-x mask::r-x other::r-x";
    check_lists(&[&["setfacl", "-n", "-m", "u:1:rwx"]], by_number);
    let bits = "user::rwx group::r-x other::r-x";
    check_lists(&[&["setfacl", "-m", "u:1:rwx,m::r"], &["setfacl", "-x", "u:1,m"]], bits);
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.check(&["setfacl", "-m", "u:1:rwx,d:u:1:r", "image:/d"]);
    let before = place.check(&["getfacl", "image:/d"]);
    place.check_failure(&["setfacl", "-x", "m", "image:/d"], 1, "no mask");
    // If one list is invalid, the other one stays unchanged as well.
    place.check_failure(&["setfacl", "-m", "u:1:r", "-x", "d:m", "image:/d"], 1, "no mask");
    assert_eq!(place.check(&["getfacl", "image:/d"]), before);
}

#[test]
fn execute_if_any_depends_on_earlier_entries() {
    let place = VolumeDir::new();
    place.put("image:/f", b"x");
    place.check(&["setfacl", "-m", "g::rX,u:1:rwx,u:2:rX", "image:/f"]);
    let shown = place.check(&["getfacl", "-c", "image:/f"]);
    assert_eq!(shown.replace('\n', " ").trim(), {
        "user::rw- user:1:rwx user:2:r-x group::r-- mask::rwx other::r--"
    });
}

#[test]
fn modes_are_those_of_chmod() {
    let place = VolumeDir::new();
    let mode = |place: &VolumeDir, path: &str| place.check(&["find", path, "-printf", "%m"]);
    place.check(&["mkdir", "-m", "2750", "image:/d"]);
    for (text, expected) in [
        ("755", "2755"),
        ("g=", "2705"),
        ("g=u", "2775"),
        ("o-rx,u+o", "2770"),
        ("u=r+w-x,a+X", "2771"),
        ("u=rwx,+t", "3771"),
        ("g-s,u+t", "1771"),
        ("02700", "2700"),
        ("00700", "700"),
    ] {
        place.check(&["chmod", text, "image:/d"]);
        assert_eq!(mode(&place, "image:/d"), expected, "{text}");
    }
    place.put("image:/f", b"x");
    place.check(&["chmod", "4755", "image:/f"]);
    place.check(&["chmod", "755", "image:/f"]);
    assert_eq!(mode(&place, "image:/f"), "755");
}

/// Checks that clauses of a mode without a class depend on the umask of the caller.
#[test]
fn umask_applies_without_a_class() {
    let place = VolumeDir::new();
    place.put("image:/f", b"x");
    let program = env!("CARGO_BIN_EXE_ferroxfs");
    let script = format!("umask 027; '{program}' chmod =rwx,a+r \"$1\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(format!("{}:/f", place.path("image").display()));
    assert!(shell.status().unwrap().success());
    assert_eq!(place.check(&["find", "image:/f", "-printf", "%m"]), "754");
}

#[test]
fn directories_made_by_mkdir_p_inherit_set_group_id() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-m", "2775", "image:/d"]);
    place.check(&["mkdir", "-p", "-m", "750", "image:/d/a/b"]);
    place.check(&["mkdir", "-m", "u=rwx,go=", "image:/d/c"]);
    let found = place.check(&["find", "image:/d", "-mindepth", "1", "-printf", "%f %m "]);
    assert_eq!(found, "a 2755 b 2750 c 2700 ");
}

#[test]
fn shown_values_can_be_set_again() {
    let place = VolumeDir::new();
    place.put("image:/f", b"x");
    place.check(&["setfattr", "-n", "user.a", "-v", "0x610a22625c00ff", "image:/f"]);
    let shown = place.check(&["getfattr", "-n", "user.a", "-e", "text", "image:/f"]);
    let value = shown.lines().nth(1).unwrap().strip_prefix("user.a=").unwrap();
    assert_eq!(value, r#""a\012\"b\\\000\377""#);
    place.check(&["setfattr", "-n", "user.b", "-v", value, "image:/f"]);
    let shown = place.check(&["getfattr", "-n", "user.b", "-e", "hex", "image:/f"]);
    assert!(shown.contains("0x610a22625c00ff"), "{shown}");
}

/// Checks that -h changes a symbolic link itself, as in the programs of the same names. In these
/// commands -h does not mean help.
#[test]
fn no_dereference_changes_the_named_link() {
    let place = VolumeDir::new();
    place.put("image:/f", b"x");
    place.check(&["ln", "-s", "f", "image:/link"]);
    place.check(&["ln", "-s", "none", "image:/dangling"]);
    let owned = |uid: &str| place.check(&["find", "image", "-uid", uid, "-printf", "%p "]);
    place.check(&["chown", "-h", "7", "image:/link"]);
    assert_eq!(owned("7"), "/link ");
    place.check(&["chown", "7", "image:/link"]);
    assert_eq!(owned("7"), "/f /link ");
    let old = || place.check(&["find", "image", "!", "-newermt", "2001-01-02", "-printf", "%p "]);
    place.check(&["touch", "-h", "-d", "2001-01-01", "image:/link", "image:/dangling"]);
    assert_eq!(old(), "/link /dangling ");
    place.check_failure(&["touch", "-h", "image:/new"], 1, "no such file");
    place.check(&["touch", "-h", "-c", "image:/new"]);
    assert_eq!(place.check(&["ls", "image"]), "dangling\nf\nlink\n");
    place.check(&["setfattr", "-h", "-n", "trusted.of", "-v", "link", "image:/link"]);
    place.check(&["setfattr", "-n", "trusted.of", "-v", "file", "image:/link"]);
    let shown = |options: &[&str]| {
        let words = [&["getfattr", "-n", "trusted.of"], options, &["image:/link"]].concat();
        place.check(&words).contains("trusted.of=\"file\"")
    };
    assert!(shown(&[]) && shown(&["-L"]) && !shown(&["-h"]));
    place.check_failure(&["getfattr", "image:/dangling"], 1, "no such file");
    place.check(&["getfattr", "-h", "image:/dangling"]);
    for command in ["chown", "touch", "setfattr", "getfattr"] {
        assert!(place.check(&[command, "--help"]).contains("Usage"), "{command}");
    }
}
