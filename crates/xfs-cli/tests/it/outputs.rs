//! Tests of outputs on the host. A command never overwrites the image that it reads, and replaces a
//! file only after success.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{CWD, Mode, XattrFlags};

use crate::changing::VolumeDir;

#[test]
fn output_over_the_read_image_is_refused() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    let before = fs::read(place.path("image")).unwrap();
    for words in [&["cp", "image:/f", "image"][..], &["cp", "-a", "image:/f", "image"]] {
        place.check_failure(words, 1, "such as image:/");
    }
    let written: [&[&str]; 3] = [
        &["get", "-o", "image", "image:/f"],
        &["tar", "-o", "image", "image"],
        &["scan", "-o", "image", "image"],
    ];
    for words in written {
        place.check_failure(words, 1, "hint: choose another file");
    }
    fs::copy(place.path("image"), place.path("log")).unwrap();
    place.check_failure(
        &["get", "-o", "log", "--log-device", "log", "image:/f"],
        1,
        "is the image that is read",
    );
    place.check_failure(
        &["scan", "-o", "log", "--log-device", "log", "image"],
        1,
        "is the image that is read",
    );
    place.check(&["mkfs", "-q", "-d", "size=300m", "other"]);
    place.check_failure(&["cp", "image:/f", "other"], 1, "holds an XFS volume");
    assert!(fs::read(place.path("image")).unwrap() == before);
}

/// Checks I4 of `xfs_cli::output`: an image that another program uses is refused as an output.
#[test]
fn output_that_another_program_uses_is_refused() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    place.check(&["mkfs", "-q", "-d", "size=300m", "other"]);
    let before = fs::read(place.path("other")).unwrap();
    let lock = fs::File::open(place.path("other")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for words in [
        &["get", "-o", "other", "image:/f"][..],
        &["tar", "-o", "other", "image"],
        &["scan", "-o", "other", "image"],
        &["scan", "--format", "csv", "-o", "rows", "--facts", "other", "image"],
    ] {
        place.check_failure(words, 1, "another program has it open");
    }
    assert!(fs::read(place.path("other")).unwrap() == before);
    drop(lock);
    place.check(&["get", "-o", "other", "image:/f"]);
    assert_eq!(fs::read(place.path("other")).unwrap(), b"contents");
}

#[test]
fn standard_output_that_is_the_image_is_refused() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    let before = fs::read(place.path("image")).unwrap();
    for words in [&["cat", "image:/f"][..], &["tar", "image"], &["scan", "image"], &["ls", "image"]]
    {
        let image = fs::File::options().write(true).open(place.path("image")).unwrap();
        let output = place.command(words).stdout(image).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("image: standard output leads to it"), "{said}");
    }
    assert!(fs::read(place.path("image")).unwrap() == before);
}

#[test]
fn set_id_bits_of_an_output_stay_where_root_writes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: for others the bits go, as with write(2)");
        return;
    }
    let place = place_with_file();
    for writer in WRITERS.into_iter().filter(|writer| !carries_over(writer)) {
        fs::write(place.path("program"), "old").unwrap();
        fs::set_permissions(place.path("program"), PermissionsExt::from_mode(0o6755)).unwrap();
        place.check(&[writer, &["program"]].concat());
        let mode = fs::metadata(place.path("program")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o6755, "{writer:?}");
    }
}

#[test]
fn two_outputs_of_a_run_are_two_files() {
    let place = VolumeDir::new();
    fs::write(place.path("there"), "kept").unwrap();
    symlink("there", place.path("link")).unwrap();
    for (rows, facts) in [("new", "new"), ("new", "./new"), ("there", "link")] {
        let words = ["scan", "image", "--format", "csv", "-o", rows, "--facts", facts];
        place.check_failure(&words, 2, "-o and --facts name one file");
    }
    assert_eq!(fs::read_to_string(place.path("there")).unwrap(), "kept");
    place.check_failure(&["bench", "create", "--json", "new", "--html", "new"], 2, "name one file");
    let words = ["scan", "image", "--format", "csv", "--facts", "-"];
    place.check_failure(&words, 2, "cannot both be standard output");
    let words = [&words[..], &["-o", "rows"]].concat();
    let facts = place.check(&words);
    assert!(facts.lines().last().unwrap().starts_with("{\"row\":\"end\""), "{facts}");
    assert!(!place.path("-").exists() && !place.path("new").exists());
}

/// Runs commands that fail, with an existing file as their output.
/// Checks I2 of `xfs_cli::output`: a regular file gets its new contents in one step.
/// Checks I1 of `xfs_cli::output::staging`: nothing changes before the file is published.
#[test]
fn failed_run_keeps_the_old_output() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("kept"), "kept").unwrap();
    place.check_failure(&["get", "-o", "kept", "image:/none"], 1, "no such file");
    place.check_failure(&["get", "-o", "kept", "image:/d"], 1, "is a directory");
    place.check_failure(&["tar", "-o", "kept", "image:/none"], 1, "no such file");
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "kept");
    for sandbox in ["--sandbox=auto", "--sandbox=never"] {
        place.check_failure(&["get", sandbox, "-o", "new", "image:/none"], 1, "no such file");
        place.check_failure(&["get", sandbox, "-o", "./new", "image:/d"], 1, "is a directory");
        place.check_failure(&["tar", sandbox, "-o", "d/new", "image:/none"], 1, "no such file");
        assert!(!place.path("new").exists() && !place.path("d/new").exists(), "{sandbox}");
    }
    place.put("image:/f", b"x");
    place.check(&["get", "-o", "new", "image:/f"]);
    assert_eq!(fs::read_to_string(place.path("new")).unwrap(), "x");
    place.check(&["get", "-o", "kept", "image:/f"]);
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "x");
}

/// Checks I1 of `xfs_cli::output`: only a regular file is replaced.
#[test]
fn pipe_is_written_to_and_not_replaced() {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    let pipe = place.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    place.check(&["cp", "-a", "image:/f", "pipe"]);
    assert_eq!(reader.join().unwrap(), "contents");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn nothing_is_copied_into_itself() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/d/e"]);
    place.put("image:/d/f", b"x");
    place.check(&["ln", "image:/d/f", "image:/d/g"]);
    let into = "cannot be copied into itself";
    place.check_failure(&["cp", "-a", "image:/d", "image:/d/e"], 1, into);
    place.check_failure(&["cp", "-a", "image:/d", "image:/d/new"], 1, into);
    place.check_failure(&["cp", "-a", "image:/", "image:/copy"], 1, into);
    place.check_failure(&["cp", "-a", "image:/d/f", "image:/d/g"], 1, "is the destination itself");
    place.check_failure(&["cp", "image:/d/f", "image:/d"], 1, "is the destination itself");
    assert_eq!(place.check(&["find", "image", "-type", "f", "-links", "2"]), "/d/f\n/d/g\n");
    assert_eq!(place.check(&["ls", "image:/d"]), "e\nf\ng\n");
    place.check(&["cp", "-a", "image:/d", "image:/new"]);
    assert_eq!(place.check(&["ls", "image:/new"]), "e\nf\ng\n");
}

#[test]
fn missing_device_is_named() {
    let place = VolumeDir::new();
    place.check_failure(&["ls", "none"], 1, "none: cannot be opened");
    place.check_failure(&["ls", "--log-device", "none", "image"], 1, ": none: cannot be opened");
}

#[test]
fn get_keeps_holes() {
    let place = VolumeDir::new();
    place.put("image:/f", b"begin");
    place.check(&["truncate", "-s", "40g", "image:/f"]);
    place.check(&["truncate", "-s", "2m", "image:/small"]);
    place.check(&["fallocate", "-o", "1m", "-l", "4k", "image:/small"]);
    let out = place.path("out");
    // The old contents are gone, also where there is a hole now.
    fs::write(&out, vec![1; 1 << 20]).unwrap();
    place.check(&["get", "-o", "out", "image:/f"]);
    let found = fs::metadata(&out).unwrap();
    assert_eq!(found.len(), 40 << 30);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    let mut bytes = vec![1; 1 << 20];
    fs::File::open(&out).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.strip_prefix(b"begin").unwrap().iter().all(|&byte| byte == 0));
    place.check(&["get", "-o", "out", "image:/small"]);
    assert!(fs::read(&out).unwrap() == vec![0; 2 << 20]);
    // In other outputs holes are zeros.
    assert_eq!(place.check(&["get", "-o", "/dev/stdout", "image:/small"]).len(), 2 << 20);
    place.check(&["touch", "image:/empty"]);
    place.check(&["get", "-o", "out", "image:/empty"]);
    assert_eq!(fs::read(&out).unwrap(), b"");
}

#[test]
fn name_with_trailing_slash_is_a_directory() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/d/f", b"new");
    fs::write(place.path("exist"), "old").unwrap();
    for destination in ["exist/", "exist/.", "none/", "none/."] {
        for option in ["-p", "-r"] {
            let arguments = ["cp", option, "image:/d/f", destination];
            place.check_failure(&arguments, 1, "is not a directory");
        }
    }
    place.check_failure(&["cp", "-r", "image:/d", "exist/"], 1, "is not a directory");
    assert_eq!(fs::read(place.path("exist")).unwrap(), b"old");
    assert!(!place.path("none").exists());
    place.check(&["cp", "-r", "image:/d", "none/"]);
    assert_eq!(fs::read(place.path("none/f")).unwrap(), b"new");
}

/// Runs a line of shell commands in the directory of the image; `$0` is the program.
fn shell(place: &VolumeDir, line: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_ferroxfs")]);
    shell.current_dir(place.path("")).stdin(Stdio::null()).output().expect("a shell")
}

#[track_caller]
fn check_shell(place: &VolumeDir, line: &str) -> String {
    let output = shell(place, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The arguments of commands that write a file that the user names. The name of the file is
/// appended to the arguments.
const WRITERS: [&[&str]; 8] = [
    &["get", "image:/f", "-o"],
    &["tar", "image", "-o"],
    &["scan", "image", "--format", "ndjson", "-o"],
    &["scan", "image", "--format", "csv", "-o"],
    &["scan", "image", "--format", "parquet", "-o"],
    &["scan", "image", "--format", "table", "-o"],
    &["cp", "image:/f"],
    &["cp", "-p", "image:/f"],
];
/// Another command that writes a file that the user names. It is slower than those in `WRITERS`.
const BENCH: [&str; 8] =
    ["bench", "create", "--files", "10", "--threads", "1", "--no-before", "--json"];

fn place_with_file() -> VolumeDir {
    let place = VolumeDir::new();
    place.put("image:/f", b"contents");
    place
}

/// Returns whether the command `writer` has the option `-p`, with which a new output gets the owner
/// and mode of the copied file.
fn carries_over(writer: &[&str]) -> bool {
    writer.contains(&"-p")
}

#[test]
fn device_is_written_through() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may make devices");
        return;
    }
    let place = place_with_file();
    let (null, full) = (place.path("null"), place.path("full"));
    for (path, minor) in [(&null, 3), (&full, 7)] {
        let device = rustix::fs::makedev(1, minor);
        let kind = rustix::fs::FileType::CharacterDevice;
        rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o666), device).unwrap();
    }
    let bench = cfg!(feature = "bench").then_some(&BENCH[..]);
    for writer in WRITERS.into_iter().chain(bench) {
        place.command(&[writer, &["null"]].concat()).output().unwrap();
        let output = place.command(&[writer, &["full"]].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{writer:?}: {said}");
        assert!(said.contains("full: No space left on device"), "{writer:?}: {said}");
        for path in [&null, &full] {
            let kept = fs::symlink_metadata(path).unwrap();
            assert!(kept.file_type().is_char_device(), "{writer:?}");
            assert_eq!(kept.mode() & 0o777, 0o666 & !umask(), "{writer:?}");
        }
    }
}

fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

#[test]
fn pipe_is_written_through_by_each_command() {
    let place = place_with_file();
    for writer in WRITERS {
        let line = format!(
            "rm -f pipe && mkfifo pipe && (cat pipe > got & \"$0\" {} pipe && wait) && test -p pipe && wc -c < got",
            writer.join(" ")
        );
        assert_ne!(check_shell(&place, &line), "0\n", "{writer:?}");
    }
}

#[test]
fn descriptors_are_written_at_their_position() {
    let place = place_with_file();
    for writer in WRITERS {
        let words = writer.join(" ");
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/fd/7"] {
            let line = format!("(echo first && \"$0\" {words} {name} 7>&1 && echo last) > file");
            check_shell(&place, &line);
            let bytes = fs::read(place.path("file")).unwrap();
            let between =
                bytes.strip_prefix(b"first\n").and_then(|rest| rest.strip_suffix(b"last\n"));
            assert!(between.is_some_and(|between| !between.is_empty()), "{words} {name}");
            let line = format!("\"$0\" {words} {name} 7>&1 | cat > piped && test -s piped");
            check_shell(&place, &line);
        }
        let closed = shell(&place, &format!("\"$0\" {words} /dev/stdout >&-"));
        assert_eq!(closed.status.code(), Some(1), "{words}");
        let closed = shell(&place, &format!("\"$0\" {words} /dev/fd/7 7>&-"));
        assert_eq!(closed.status.code(), Some(1), "{words}");
    }
}

#[test]
fn dash_is_standard_output() {
    let place = place_with_file();
    for writer in WRITERS {
        let words = writer.join(" ");
        check_shell(&place, &format!("\"$0\" {words} - > file && test -s file && ! test -e ./-"));
    }
    if !cfg!(feature = "bench") {
        return;
    }
    let bench = BENCH.join(" ");
    let json = check_shell(&place, &format!("\"$0\" {bench} -"));
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["schema_version"], 1);
    let both = shell(&place, &format!("\"$0\" {bench} - --html -"));
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn links_are_followed() {
    let place = place_with_file();
    fs::create_dir(place.path("d")).unwrap();
    for writer in WRITERS {
        for target in ["d/there", "d/new"] {
            fs::write(place.path("d/there"), "before").unwrap();
            _ = fs::remove_file(place.path("d/new"));
            _ = fs::remove_file(place.path("link"));
            _ = fs::remove_file(place.path("link2"));
            symlink(target, place.path("link")).unwrap();
            symlink("link", place.path("link2")).unwrap();
            place.check(&[writer, &["link2"]].concat());
            assert_eq!(fs::read_link(place.path("link2")).unwrap(), Path::new("link"));
            assert_eq!(fs::read_link(place.path("link")).unwrap(), Path::new(target));
            let written = fs::read(place.path(target)).unwrap();
            assert!(!written.is_empty() && written != b"before", "{writer:?} {target}");
        }
    }
    symlink("loop", place.path("loop")).unwrap();
    place.check_failure(&["get", "-o", "loop", "image:/f"], 1, "symbolic links");
}

#[test]
fn existing_file_keeps_its_identity() {
    let place = place_with_file();
    let out = place.path("out");
    for writer in WRITERS {
        fs::write(&out, "before, and much longer than what comes").unwrap();
        fs::set_permissions(&out, PermissionsExt::from_mode(0o641)).unwrap();
        let has_attributes =
            rustix::fs::setxattr(&out, "user.key", b"value", XattrFlags::empty()).is_ok();
        if rustix::process::geteuid().is_root() {
            chown(&out, Some(5), Some(7)).unwrap();
        }
        let before = fs::metadata(&out).unwrap();
        place.check(&[writer, &["out"]].concat());
        if carries_over(writer) {
            fs::remove_file(&out).unwrap();
            continue;
        }
        let after = fs::metadata(&out).unwrap();
        let facts = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid());
        assert_eq!(facts(&after), facts(&before), "{writer:?}");
        let mut value = [0; 16];
        let kept = rustix::fs::getxattr(&out, "user.key", &mut value);
        assert!(!has_attributes || kept == Ok(5), "{writer:?}");
        // A file with several names stays the same inode.
        fs::write(&out, "before, and much longer than what comes").unwrap();
        fs::hard_link(&out, place.path("other")).unwrap();
        place.check(&[writer, &["out"]].concat());
        let (one, two) = (fs::read(&out).unwrap(), fs::read(place.path("other")).unwrap());
        assert!(one == two && !one.starts_with(b"before"), "{writer:?}");
        fs::remove_file(place.path("other")).unwrap();
        fs::remove_file(&out).unwrap();
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1, "nothing is left");
}

#[test]
fn copies_into_a_directory_keep_owner_and_mode_of_existing_files() {
    let place = place_with_file();
    place.check(&["chmod", "604", "image:/f"]);
    fs::create_dir(place.path("d")).unwrap();
    let there = place.path("d/f");
    for (option, kept) in [("--force", 0o641), ("-r", 0o641), ("-p", 0o604), ("-a", 0o604)] {
        fs::write(&there, "before").unwrap();
        fs::set_permissions(&there, PermissionsExt::from_mode(0o641)).unwrap();
        place.check(&["cp", option, "--ignore-owner", "image:/f", "d"]);
        assert_eq!(fs::metadata(&there).unwrap().mode() & 0o777, kept, "{option}");
        assert_eq!(fs::read(&there).unwrap(), b"contents");
    }
}

/// Checks that an existing file is overwritten in place if its directory takes no new files.
#[test]
fn file_is_written_where_its_directory_takes_no_others() {
    let place = place_with_file();
    let (locked, out) = (place.path("locked"), place.path("locked/out"));
    fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(&locked).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    for writer in WRITERS {
        fs::write(&out, "before").unwrap();
        if is_root {
            chown(&out, Some(65534), Some(65534)).unwrap();
        }
        fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
        let as_other = |name: &str| {
            let words = writer.join(" ");
            let prefix = match is_root {
                true => "setpriv --reuid 65534 --regid 65534 --clear-groups --",
                false => "",
            };
            shell(&place, &format!("{prefix} \"$0\" {words} locked/{name}"))
        };
        let refused = as_other("new");
        assert_eq!(refused.status.code(), Some(1), "{writer:?}");
        let written = as_other("out");
        fs::set_permissions(&locked, PermissionsExt::from_mode(0o755)).unwrap();
        if carries_over(writer) {
            // It would be another file.
            assert_eq!(written.status.code(), Some(1), "{writer:?}");
            assert_eq!(fs::read(&out).unwrap(), b"before");
            continue;
        }
        let said = String::from_utf8_lossy(&written.stderr);
        assert!(written.status.success(), "{writer:?}: {said}");
        assert_ne!(fs::read(&out).unwrap(), b"before", "{writer:?}");
        assert_eq!(fs::read_dir(&locked).unwrap().count(), 1, "{writer:?}");
    }
}

/// Runs commands that write to a full disk. Checks that no new file appears, and that an old file
/// keeps its contents.
/// Checks I3 of `xfs_cli::output::staging`: all space is reserved before the copy.
#[test]
fn full_disk_keeps_the_old_file() {
    let place = place_with_file();
    place.put("image:/f", &vec![1; 3 << 20]);
    fs::create_dir(place.path("small")).unwrap();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/f"), vec![2; 3 << 20]).unwrap();
    let mounted = "unshare --map-root-user --mount bash -c \
        'mount -t tmpfs -o size=2m none small || exit 99; exec 2>&1;";
    if shell(&place, &format!("{mounted} true' 2>&1")).status.code() != Some(0) {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let writers: [&str; 6] = [
        "get -o small/out image:/f",
        "tar -o small/out image",
        "cp image:/f small/out",
        "cp -r image:/f small/out",
        "cp -p --ignore-owner image:/f small/out",
        "mkfs -q -f -d file,size=320m --from tree small/out",
    ];
    for writer in writers {
        // A new file, a file with one name, and a file with two.
        for (before, after) in [
            ("true", "! test -e small/out && test -z \"$(ls -A small)\""),
            ("echo before >small/out", "test \"$(ls -A small)\" = out"),
            (
                "echo before >small/out; ln small/out small/other",
                "test $(stat -c %h small/out) = 2",
            ),
        ] {
            // mkfs writes a file with several names in place.
            if writer.starts_with("mkfs") && before.contains("ln ") {
                continue;
            }
            let line = format!(
                "{mounted} {before}; \"$0\" {writer}; r=$?; {after} || exit 98; \
                test -e small/out && {{ test \"$(head -c 6 small/out)\" = before || exit 97; }}; \
                exit $r' \"$0\""
            );
            let output = shell(&place, &line);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{writer}, {before}: {said}");
            let says_why = said.contains("No space left") || said.contains("no space left");
            assert!(says_why, "{writer}: {said}");
        }
    }
}

#[test]
fn man_pages_keep_existing_files() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("man")).unwrap();
    let page = place.path("man/ferroxfs-ls.1");
    fs::write(place.path("elsewhere"), "").unwrap();
    fs::set_permissions(place.path("elsewhere"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("../elsewhere", &page).unwrap();
    place.check(&["man", "man"]);
    assert!(fs::symlink_metadata(&page).unwrap().is_symlink());
    assert_eq!(fs::metadata(&page).unwrap().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&page).unwrap().contains("ferroxfs"));
    assert!(place.path("man/ferroxfs.1").exists() && place.path("man/ferroxfs-edit.1").exists());
}

#[test]
fn volume_is_made_in_an_existing_file() {
    let place = VolumeDir::new();
    let out = place.path("out");
    let facts = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid(), of.len(), of.nlink());
    for names in [1, 2] {
        fs::File::create(&out).unwrap().set_len(320 << 20).unwrap();
        fs::set_permissions(&out, PermissionsExt::from_mode(0o640)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&out, Some(5), Some(7)).unwrap();
        }
        if names == 2 {
            fs::hard_link(&out, place.path("other")).unwrap();
        }
        let before = fs::metadata(&out).unwrap();
        symlink("out", place.path("link")).unwrap();
        place.check(&["mkfs", "-q", "link"]);
        assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
        assert_eq!(facts(&fs::metadata(&out).unwrap()), facts(&before), "{names}");
        place.check(&["ls", "out"]);
        // A refused volume changes nothing, not even the length.
        place.check_failure(&["mkfs", "-d", "file,size=400m", "out"], 1, "use -f");
        assert_eq!(facts(&fs::metadata(&out).unwrap()), facts(&before), "{names}");
        place.check(&["mkfs", "-q", "-f", "-d", "file,size=400m", "out"]);
        assert_eq!(fs::metadata(&out).unwrap().len(), 400 << 20);
        fs::remove_file(&out).unwrap();
        fs::remove_file(place.path("link")).unwrap();
    }
    // At the end of a dangling symbolic link.
    symlink("new", place.path("link")).unwrap();
    place.check(&["mkfs", "-q", "-d", "size=320m", "link"]);
    place.check(&["ls", "new"]);
}
