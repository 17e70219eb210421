//! Tests of `edit`, which edits a file of an image with an editor of the host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::changing::VolumeDir;

/// Runs `edit` with these arguments. Its temporary files go into a directory of the test.
fn edit(place: &VolumeDir, words: &[&str]) -> Output {
    fs::create_dir_all(place.path("tmp")).unwrap();
    let mut command = place.command(&[&["edit"], words].concat());
    command.env("TMPDIR", place.path("tmp")).env("FX", env!("CARGO_BIN_EXE_ferroxfs"));
    command.env_remove("VISUAL").env_remove("EDITOR").output().unwrap()
}

/// Returns the text of each copy that `edit` has left in the directory for temporary files.
fn kept(place: &VolumeDir) -> Vec<String> {
    let directories = fs::read_dir(place.path("tmp")).unwrap();
    let files = directories.flat_map(|entry| fs::read_dir(entry.unwrap().path()).unwrap());
    files.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[track_caller]
fn check_edited(place: &VolumeDir, words: &[&str]) {
    let output = edit(place, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    assert!(kept(place).is_empty(), "{words:?}");
}

#[track_caller]
fn check_failed(place: &VolumeDir, words: &[&str], message: &str) {
    let output = edit(place, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    assert!(said.contains(message), "{words:?}: {said}");
}

#[test]
fn edited_file_keeps_its_properties() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one two");
    place.check(&["chown", "5:7", "image:/f"]);
    place.check(&["chmod", "640", "image:/f"]);
    place.check(&["setfattr", "-n", "user.key", "-v", "value", "image:/f"]);
    place.check(&["setfacl", "-m", "u:9:rw", "image:/f"]);
    place.check(&["ln", "image:/f", "image:/g"]);
    let facts = |place: &VolumeDir| {
        let list = place.check(&["getfacl", "image:/f"]);
        let attributes = place.check(&["getfattr", "-d", "image:/f"]);
        let inode = place.check(&["find", "image:/f", "-printf", "%i %n %U %G %m"]);
        (list, attributes, inode)
    };
    let before = facts(&place);
    check_edited(&place, &["--with", "sed -i s/two/2/", "image:/f"]);
    assert_eq!(place.check(&["cat", "image:/g"]), "one 2");
    assert_eq!(facts(&place), before);
    place.check(&["log", "image"]);
}

/// Checks I1 of `xfs_cli::edit::edit`: the image is not open while the editor runs.
#[test]
fn image_is_not_locked_while_an_editor_runs() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    let other = "\"$FX\" mkdir image:/meanwhile && echo two >>";
    check_edited(&place, &["--with", other, "image:/f"]);
    assert_eq!(place.check(&["ls", "image"]), "f\nmeanwhile\n");
    assert_eq!(place.check(&["cat", "image:/f"]), "onetwo\n");
}

#[test]
fn file_changed_meanwhile_is_not_replaced() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    let both = "echo theirs | \"$FX\" put image:/f && echo ours >";
    check_failed(&place, &["--with", both, "image:/f"], "was changed in the image meanwhile");
    assert_eq!(place.check(&["cat", "image:/f"]), "theirs\n");
    assert_eq!(kept(&place), ["ours\n"]);
    let said = edit(&place, &["--with", both, "image:/f"]);
    // The contents are the same as when they were read.
    assert!(said.status.success(), "{said:?}");
    assert_eq!(place.check(&["cat", "image:/f"]), "ours\n");
    fs::remove_dir_all(place.path("tmp")).unwrap();
    let remove = "\"$FX\" rm image:/f && echo more >";
    check_failed(&place, &["--with", remove, "image:/f"], "was removed in the image meanwhile");
    assert_eq!(kept(&place), ["more\n"]);
    fs::remove_dir_all(place.path("tmp")).unwrap();
    place.put("image:/f", b"one");
    check_edited(&place, &["--force", "--with", both, "image:/f"]);
    assert_eq!(place.check(&["cat", "image:/f"]), "ours\n");
}

#[test]
fn nothing_is_written_without_a_change() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    let before = fs::read(place.path("image")).unwrap();
    let output = edit(&place, &["--with", "touch", "image:/f"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("image:/f: not changed"), "{said}");
    let output = edit(&place, &["--with", "true", "image:/new"]);
    assert!(output.status.success());
    assert!(fs::read(place.path("image")).unwrap() == before);
    assert!(kept(&place).is_empty());
}

#[test]
fn editor_that_fails_changes_nothing() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    check_failed(&place, &["--with", "false", "image:/f"], "false: ended with exit code 1");
    assert!(kept(&place).is_empty());
    let names_one = "hint: name an editor in VISUAL or EDITOR";
    check_failed(&place, &["--with", "no-such-editor", "image:/f"], names_one);
    assert!(kept(&place).is_empty());
    check_failed(&place, &["--with", "kill -9 $$;", "image:/f"], "was ended by signal 9");
    // Changed text is not discarded.
    check_failed(
        &place,
        &["--with", "f() { echo two > $1; exit 3; }; f", "image:/f"],
        "the text is kept in",
    );
    assert_eq!(kept(&place), ["two\n"]);
    assert_eq!(place.check(&["cat", "image:/f"]), "one");
}

#[test]
fn copy_that_an_editor_has_replaced_is_not_waited_for_or_promised() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    let by_directory = "sh -c 'rm $0; mkdir $0'";
    for (editor, said) in [
        ("sh -c 'rm $0; mkfifo $0'", "is no longer a regular file"),
        (by_directory, "is no longer a regular file"),
        ("rm", "No such file"),
    ] {
        let output = edit(&place, &["--with", editor, "image:/f"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said) && !text.contains("is kept"), "{editor}: {text}");
        assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0, "{editor}");
    }
    assert_eq!(place.check(&["cat", "image:/f"]), "one");
}

#[test]
fn new_file_is_made() {
    let place = VolumeDir::new();
    check_edited(&place, &["--with", "echo one >", "image:/new"]);
    assert_eq!(place.check(&["cat", "image:/new"]), "one\n");
    assert!(place.fact("image:/new", "Access:").contains("0644"));
    check_edited(&place, &["--with", "truncate -s 0", "image:/new"]);
    assert_eq!(place.check(&["cat", "image:/new"]), "");
}

#[test]
fn editor_is_chosen_and_its_copy_is_private() {
    let place = VolumeDir::new();
    place.put("image:/f.txt", b"one");
    let script = place.path("editor");
    fs::write(&script, "#!/bin/sh\nstat -c '%a %n' \"$1\" \"${1%/*}\" > seen\necho $0 > \"$1\"\n")
        .unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for (variables, chosen) in [
        (&[("VISUAL", "./editor"), ("EDITOR", "false")][..], "./editor\n"),
        (&[("VISUAL", ""), ("EDITOR", "$PWD/editor")], "/editor\n"),
    ] {
        let mut command = place.command(&["edit", "image:/f.txt"]);
        command.env_remove("VISUAL").env_remove("EDITOR");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(place.check(&["cat", "image:/f.txt"]).ends_with(chosen));
        let seen = fs::read_to_string(place.path("seen")).unwrap();
        let lines: Vec<_> = seen.lines().collect();
        assert!(lines[0].starts_with("600 ") && lines[0].ends_with("/f.txt"), "{seen}");
        assert!(lines[1].starts_with("700 "), "{seen}");
    }
}

#[test]
fn only_regular_files_are_edited() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    check_failed(&place, &["--with", "true", "image:/d"], "is a directory");
    check_failed(&place, &["--with", "true", "image:/no/file"], "no such file");
    check_failed(&place, &["--with", "true", "none:/f"], "none: cannot be opened");
    // The target of a symbolic link.
    place.put("image:/f", b"one");
    place.check(&["ln", "-s", "f", "image:/link"]);
    check_edited(&place, &["--with", "echo two >", "image:/link"]);
    assert_eq!(place.check(&["cat", "image:/f"]), "two\n");
    assert_eq!(place.check(&["readlink", "image:/link"]), "f\n");
}
