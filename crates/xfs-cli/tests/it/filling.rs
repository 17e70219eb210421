//! Tests of `mkfs --from`, `import` and `cp`: their outputs, the names of owners, and messages
//! about files that do not fit.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::archives::writer::Writer;
use crate::changing::VolumeDir;

const MIB: u64 = 1 << 20;
const MAKE: [&str; 4] = ["mkfs", "-q", "-d", "size=320m"];

/// Returns a directory with a small tree, which has tables of users and groups.
fn place() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/etc")).unwrap();
    fs::write(place.path("tree/etc/passwd"), "root:x:0:0::/:\nweb:x:1234:5::/:\n").unwrap();
    fs::write(place.path("tree/etc/group"), "root:x:0:\nstaff:x:4321:\n").unwrap();
    fs::write(place.path("tree/file"), "contents\n").unwrap();
    place
}

fn tar(place: &VolumeDir, archive: &str, tree: &str) {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "-cf", archive, "-C", tree, "."]).current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
}

/// Makes a file of `mib` MiB without a zero.
fn large(path: &Path, mib: u64) {
    let file = File::create(path).unwrap();
    for at in 0..mib {
        file.write_all_at(&vec![1; 1 << 20], at << 20).unwrap();
    }
}

fn owner(place: &VolumeDir, image: &str) -> String {
    place.check(&["find", &format!("{image}:/file"), "-printf", "%U:%G"])
}

#[test]
fn owner_is_found_in_the_tables_of_the_user_and_of_the_image() {
    let place = place();
    tar(&place, "tree.tar", "tree");
    fs::write(place.path("passwd"), "web:x:77:5::/:\n").unwrap();
    fs::write(place.path("group"), "staff:x:88:\n").unwrap();
    let tables = ["--owner", "web:staff", "--passwd", "passwd", "--group", "group"];
    place.check(&[&MAKE[..], &["--from", "tree"], &tables, &["a"]].concat());
    assert_eq!(owner(&place, "a"), "77:88");
    let inside = ["--owner", "web:staff", "--passwd-from-image"];
    for (source, out) in [("tree", "b"), ("tree.tar", "c")] {
        place.check(&[&MAKE[..], &["--from", source], &inside, &[out]].concat());
        assert_eq!(owner(&place, out), "1234:4321", "{source}");
        let sized = ["mkfs", "-q", "-f", "--minimize", "--from", source];
        place.check(&[&sized[..], &inside, &[out]].concat());
        assert_eq!(owner(&place, out), "1234:4321", "{source}");
    }
    // A later source replaces the table.
    fs::create_dir_all(place.path("over/etc")).unwrap();
    fs::write(place.path("over/etc/passwd"), "web:x:99:5::/:\n").unwrap();
    let both = ["--from", "tree.tar", "--from", "over"];
    place.check(&[&MAKE[..], &both, &inside, &["d"]].concat());
    assert_eq!(owner(&place, "d"), "99:4321");
    let added = ["--from", "tree.tar", "--add", "passwd:/etc/passwd"];
    place.check(&[&MAKE[..], &added, &inside, &["e"]].concat());
    assert_eq!(owner(&place, "e"), "77:4321");
    place.check(&["import", "--owner", "web", "--passwd-from-image", "tree.tar", "image:/"]);
    assert_eq!(owner(&place, "image"), "1234:0");
}

#[test]
fn unknown_owner_and_missing_tables_are_refused() {
    let place = place();
    let from =
        |options: &[&'static str]| [&MAKE[..], &["--from", "tree"], options, &["out"]].concat();
    let inside = ["--owner", "nobody-here", "--passwd-from-image"];
    place.check_failure(&from(&inside), 2, "nobody-here is neither a user of the table nor");
    fs::remove_file(place.path("tree/etc/group")).unwrap();
    let inside = ["--owner", "web:staff", "--passwd-from-image"];
    place.check_failure(&from(&inside), 1, "/etc/group of the image: no such file");
    // A table that no name needs may be missing.
    place.check(&from(&["--owner", "web:7", "--passwd-from-image"]));
    assert_eq!(owner(&place, "out"), "1234:7");
    fs::remove_file(place.path("out")).unwrap();
    let hidden = ["--owner", "web", "--passwd-from-image", "--exclude", "etc/passwd"];
    place.check_failure(&from(&hidden), 1, "/etc/passwd of the image: no such file");
    place.check_failure(&from(&["--owner", "web", "--passwd", "absent"]), 1, "absent: No such");
    place.check_failure(&from(&["--passwd-from-image"]), 2, "--owner");
    let piped = [&MAKE[..], &["--from", "-"], &inside, &["out"]].concat();
    let mut command = place.command(&piped);
    let output = command.stdin(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("reads the sources twice, and a pipe only once"), "{said}");
    assert!(!place.path("out").exists());
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let import = ["import", "--owner", "web", "--passwd-from-image", "pipe", "image:/"];
    place.check_failure(&import, 2, "reads the source twice, and a pipe only once");
}

#[test]
fn tables_of_the_image_follow_the_rules_of_its_layers() {
    let place = place();
    let layer = |make: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::new(3);
        make(&mut writer);
        writer.end();
        writer.bytes().to_vec()
    };
    let base = layer(&|to| {
        to.directory("etc");
        to.file("etc/passwd", b"web:x:1:1::/:\n");
        to.file("etc/other", b"web:x:3:1::/:\n");
        to.file("file", b"");
    });
    let inside = ["--owner", "web:0", "--passwd-from-image"];
    let make = |top: Vec<u8>, out: &str| {
        crate::layers::docker_archive(&place, "saved.tar", &[base.clone(), top]);
        let source = ["--from", "docker-archive:saved.tar"];
        let made = place.run(&[&MAKE[..], &source, &inside, &[out]].concat());
        String::from_utf8(made.stderr).unwrap()
    };
    for hidden in ["etc/.wh.passwd", ".wh.etc", ".wh..wh..opq", "etc/.wh..wh..opq"] {
        let said = make(layer(&|to| to.file(hidden, b"")), "none");
        assert!(said.contains("/etc/passwd of the image: no such file"), "{hidden}: {said}");
        assert!(!place.path("none").exists());
    }
    let said = make(layer(&|to| to.file("etc/passwd", b"web:x:2:1::/:\n")), "newer");
    assert!(said.is_empty(), "{said}");
    assert_eq!(owner(&place, "newer"), "2:0");
    fs::create_dir_all(place.path("linked/etc")).unwrap();
    std::os::unix::fs::symlink("other", place.path("linked/etc/passwd")).unwrap();
    fs::write(place.path("base.tar"), &base).unwrap();
    let both = ["--from", "base.tar", "--from", "linked"];
    place.check(&[&MAKE[..], &both, &inside, &["link"]].concat());
    assert_eq!(owner(&place, "link"), "3:0");
    // In an archive that is no layer, a whiteout is a file.
    fs::write(place.path("plain.tar"), layer(&|to| to.file("etc/.wh.passwd", b""))).unwrap();
    let both = ["--from", "base.tar", "--from", "plain.tar"];
    place.check(&[&MAKE[..], &both, &inside, &["plain"]].concat());
    assert_eq!(owner(&place, "plain"), "1:0");
}

#[test]
fn pattern_that_no_file_matches_is_named() {
    let place = place();
    fs::write(place.path("some"), "file\nabsent\n").unwrap();
    let options = ["--exclude", "*.o", "--mode", "600:fil", "--include-from", "some"];
    let output = place.run(&[&MAKE[..], &["--from", "tree"], &options, &["out"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    for message in ["--exclude: no file matches '*.o'", "some: no file matches absent"] {
        assert_eq!(said.matches(message).count(), 1, "{said}");
    }
    assert!(said.contains("--mode: no file matches fil") && said.lines().count() == 3, "{said}");
    let used = ["--exclude", "etc", "--mode", "600:file"];
    place.check(&[&MAKE[..], &["--from", "tree"], &used, &["used"]].concat());
}

#[test]
fn image_that_is_written_is_left_out_of_additions() {
    let place = place();
    place.check(&[&MAKE[..], &["self"]].concat());
    fs::hard_link(place.path("self"), place.path("other")).unwrap();
    let again = ["mkfs", "-f", "-q", "--from", "tree", "--add", "self:/self", "other"];
    let output = place.run(&again);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("self: is the image that is written to, and is left out"), "{said}");
    assert!(!place.check(&["ls", "other:/"]).contains("self"));
    place.check(&["check", "other"]);
}

#[test]
fn digest_is_that_of_the_finished_file() {
    let place = place();
    let options: [(&str, &[&str]); 3] =
        [("raw", &[]), ("qcow2", &["--format", "qcow2"]), ("disk", &["--disk", "gpt"])];
    for (out, options) in options {
        let make = ["mkfs", "--digest", "--json", "--minimize", "--from", "tree"];
        let text = place.check(&[&make[..], options, &[out]].concat());
        let facts: Value = serde_json::from_str(&text).unwrap();
        let mut sum = Command::new("sha256sum");
        let sum = sum.arg(out).current_dir(place.path("")).output().unwrap().stdout;
        let sum = String::from_utf8(sum).unwrap();
        assert!(sum.starts_with(facts["sha256"].as_str().unwrap()), "{out}: {sum}");
        assert_eq!(facts["image_bytes"], fs::metadata(place.path(out)).unwrap().len());
    }
    let text = place.check(&["mkfs", "-q", "--digest", "-d", "size=320m", "text"]);
    assert!(text.starts_with("sha256:") && text.lines().count() == 1, "{text}");
    place.check(&["mkfs", "-q", "-L", "before", "-d", "size=320m,file", "kept"]);
    for option in ["-K", "-N"] {
        let again = ["mkfs", "-f", option, "-L", "after", "--digest", "kept"];
        place.check_failure(&again, 2, "kept: --digest is for a new file");
        assert!(place.check(&["label", "kept"]).contains("before"), "{option}");
    }
}

#[test]
fn image_is_written_to_a_named_pipe() {
    let place = place();
    place.check(&["mkfs", "-q", "-d", "size=300m", "--from", "tree", "whole"]);
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    });
    place.check(&["mkfs", "-q", "-d", "size=300m", "--from", "tree", "pipe"]);
    assert!(reader.join().unwrap() == fs::read(place.path("whole")).unwrap());
    assert!(fs::metadata(place.path("pipe")).is_ok_and(|pipe| !pipe.is_file()));
    place.check_failure(&["mkfs", "pipe"], 2, "pipe: a named pipe needs the size of the volume");
    let with_log = ["mkfs", "-d", "size=300m", "-l", "logdev=log,size=64m,file", "pipe"];
    place.check_failure(&with_log, 2, "a named pipe cannot hold a volume with a log");
    assert!(!place.path("log").exists());
    // Without a reader, one signal ends the wait.
    let mut waiting = place.command(&["mkfs", "-q", "-d", "size=300m", "pipe"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let process = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(!waiting.wait().unwrap().success());
}

#[test]
fn file_of_unknown_contents_is_not_overwritten_without_force() {
    let place = place();
    fs::write(place.path("thesis"), "text ".repeat(100)).unwrap();
    let make = ["mkfs", "-q", "-d", "size=320m,file", "thesis"];
    place.check_failure(&make, 1, "thesis: holds data of no known kind\nhint: use -f");
    assert_eq!(fs::read_to_string(place.path("thesis")).unwrap(), "text ".repeat(100));
    place.check(&["mkfs", "-f", "-q", "-d", "size=320m,file", "thesis"]);
    File::create(place.path("empty")).unwrap().set_len(320 * MIB).unwrap();
    place.check(&["mkfs", "-q", "empty"]);
}

#[test]
fn geometry_is_printed_once_though_a_chosen_size_is_too_small() {
    let place = place();
    for number in 0..3000 {
        fs::write(place.path(&format!("tree/{number}")), vec![1; 5000 + number]).unwrap();
    }
    let text = place.check(&["mkfs", "--minimize", "--from", "tree", "out"]);
    assert_eq!(text.matches("meta-data=").count(), 1, "{text}");
    let blocks = fs::metadata(place.path("out")).unwrap().len() / 4096;
    assert!(text.contains(&format!("blocks={blocks},")), "{text}");
}

#[test]
fn container_archive_on_standard_input_gets_a_fitting_size() {
    let place = place();
    tar(&place, "layer.tar", "tree");
    crate::layers::docker_archive(
        &place,
        "saved.tar",
        &[fs::read(place.path("layer.tar")).unwrap()],
    );
    for (options, out) in [(["--minimize"].as_slice(), "a"), (&["-d", "size=auto"], "b")] {
        let arguments = [&["mkfs", "-q", "--from", "docker-archive:-"], options, &[out]].concat();
        let mut command = place.command(&arguments);
        command.stdin(File::open(place.path("saved.tar")).unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.check(&["cat", &format!("{out}:/file")]), "contents\n");
    }
}

#[test]
fn files_that_do_not_fit_say_how_much_they_need() {
    let place = place();
    large(&place.path("tree/large"), 400);
    large(&place.path("tree/more"), 100);
    tar(&place, "tree.tar", "tree");
    for arguments in [["import", "tree", "image:/in"], ["import", "tree.tar", "image:/in"]] {
        place.check_failure(&arguments, 1, "; all files need about 50");
    }
    place.check_failure(&["cp", "-r", "tree", "image:/"], 1, "; all files need about 50");
    place.check(&["mkfs", "-q", "-d", "size=auto", "--from", "tree", "other"]);
    let between = place.run(&["cp", "-r", "other:/", "image:/x"]);
    let said = String::from_utf8(between.stderr).unwrap();
    assert!(said.contains("no space") && !said.contains("all files"), "{said}");
    for (excluded, expected) in [("none", "needs about 500"), ("more", "needs about 400")] {
        let options = ["--from", "-", "--exclude", excluded, "out"];
        let mut command = place.command(&[&MAKE[..], &options].concat());
        command.stdin(File::open(place.path("tree.tar")).unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains("; the rest of the archive ") && said.contains(expected), "{said}");
        assert!(!place.path("out").exists());
    }
}
