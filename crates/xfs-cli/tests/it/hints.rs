//! Tests of the hints after typical mistakes of a new user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{CWD, FileType, Mode};

use crate::changing::VolumeDir;

#[test]
fn image_and_a_path_in_it_belong_together() {
    let place = VolumeDir::new();
    fs::write(place.path("text"), "text").unwrap();
    let behind = "hint: write a path in an image after its name: image:/etc";
    place.check_failure(&["ls", "image", "/etc"], 3, behind);
    let slash = "hint: a path in an image starts with a slash: image:/etc";
    place.check_failure(&["ls", "image:etc"], 1, slash);
    place.check_failure(&["ls", "none:etc"], 1, "none:etc: cannot be opened");
    let alone = "hint: this command takes an image without a path: image";
    place.check_failure(&["info", "image:/"], 1, alone);
    let inside = "hint: a path in an image is written IMAGE:/path, such as image:/";
    place.check_failure(&["cp", "text", "image"], 3, inside);
    assert!(!place.path("text").metadata().unwrap().is_dir());
}

#[test]
fn meaningless_names_get_a_hint_and_failures_do_not() {
    let place = VolumeDir::new();
    place.check(&["touch", "image:/f"]);
    let names = "hint: a name is user.NAME";
    place.check_failure(&["setfattr", "-n", "text", "-v", "1", "image:/f"], 2, names);
    place.check_failure(&["setfattr", "-x", "text", "image:/f"], 2, names);
    let user = "\"no-such-name-here\" is not a user of this host";
    place.check_failure(&["setfacl", "-m", "u:no-such-name-here:r", "image:/f"], 2, user);
    let default = "hint: only a directory has a default list (d:, -d)";
    place.check_failure(&["setfacl", "-m", "d:u:3:rwx", "image:/f"], 1, default);
    let group = "\"no-such-name-here\" is not a group of this host";
    place.check_failure(&["setfacl", "-x", "g:no-such-name-here", "image:/f"], 2, group);
}

#[test]
fn lack_of_space_names_the_image() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    // The volumes have less space than this.
    fs::write(place.path("tree/large"), vec![1; 32 << 20]).unwrap();
    let mkfs = ["mkfs", "-q", "--unsupported", "-d", "size=32m"];
    let said = |image: &str| format!("ferroxfs: {image}: /large: no space left");
    assert!(place.command(&[&mkfs[..], &["small"]].concat()).output().unwrap().status.success());
    place.check_failure(&["import", "tree", "small"], 1, &said("small"));
    place.check_failure(&[&mkfs[..], &["--from", "tree", "made"]].concat(), 1, &said("made"));
}

#[test]
fn image_in_use_says_how_to_end_a_mount() {
    let place = VolumeDir::new();
    let volume = ferroxfs::OpenOptions::new().write(true).open(place.path("image")).unwrap();
    let hint = ")\nhint: wait until it is done";
    place.check_failure(&["ls", "image"], 1, hint);
    place.check_failure(&["touch", "image:/g"], 1, hint);
    volume.close().unwrap();
}

#[test]
fn copy_within_the_host_is_refused() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/a"), "text").unwrap();
    let neither = "cp: neither tree/a nor tree/b is in an image\nhint: a path in an image is";
    place.check_failure(&["cp", "tree/a", "tree/b"], 2, neither);
    place.check_failure(&["cp", "-a", "tree", "copy"], 2, "neither tree nor copy");
    // These name a path in an image, or nothing that exists.
    place.check_failure(&["cp", "tree/a:/x", "tree/b"], 3, "is not an XFS volume");
    place.check_failure(&["cp", "tree/none", "tree/b"], 1, "tree/none: ");
    fs::write(place.path("disk.qed"), b"QED\0\x01\0\0\0".repeat(1000)).unwrap();
    place.check_failure(&["cp", "disk.qed", "copy"], 3, "hint: convert it");
}

#[test]
fn invalid_expression_names_the_reason() {
    let place = VolumeDir::new();
    fs::write(place.path("text"), "text").unwrap();
    let newer = "hint: -newer takes a file in an image, IMAGE:/path";
    place.check_failure(&["find", "image", "-newer", "text"], 3, newer);
    let reason = "find: -regex does not take '(': a '(' has no ')'\n";
    place.check_failure(&["find", "image", "-regex", "("], 2, reason);
}

#[test]
fn unknown_option_is_not_read_as_a_name() {
    let place = VolumeDir::new();
    for words in [["ls", "--bogus"], ["ls", "-Q"], ["mkfs", "--bogus"], ["find", "--bogus"]] {
        let output = place.command(&words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains("as a value"), "{said}");
    }
    place.check_failure(&["ls", "--recursiv"], 2, "tip: a similar argument exists: '--recursive'");
    place.check_failure(&["lss"], 2, "tip: a similar subcommand exists: 'ls'");
}

#[test]
fn files_without_contents_are_named() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    let pipe = place.path("tree/fifo");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    place.check(&["import", "tree", "image:/"]);
    let said = "image: /fifo: is a fifo, and has no contents in the image\n";
    place.check_failure(&["cat", "image:/fifo"], 1, said);
    place.check_failure(&["get", "image:/fifo"], 1, said);
    place.check_failure(&["get", "-o", "out", "image:/fifo"], 1, said);
    place.check_failure(&["cp", "image:/fifo", "-"], 1, said);
    place.check_failure(&["cat", "image:/"], 1, "image: /: is a directory\n");
}

#[test]
fn directory_has_one_name() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/dir"]);
    let said = "image: /dir: is a directory, which can have only one name\nhint: -s makes";
    place.check_failure(&["ln", "image:/dir", "image:/dd"], 1, said);
    place.check(&["ln", "-s", "dir", "image:/dd"]);
}

#[test]
fn import_names_the_image_once() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    place.check(&["touch", "image:/file"]);
    let once = "ferroxfs: image: /file: ";
    place.check_failure(&["import", "tree", "image:/file"], 1, once);
}

#[test]
fn possible_use_is_not_reported_as_use() {
    let place = VolumeDir::new();
    let output = place.command(&["ls", "--live", "image"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the volume may be in use, and its log is not replayed"), "{said}");
}

#[test]
fn options_of_cp_and_ls_are_accepted() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "x").unwrap();
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(place.path("tree/file"), mode).unwrap();
    place.check(&["cp", "-R", "tree", "image:/"]);
    assert_eq!(place.check(&["ls", "-1", "image:/tree"]), "file\n");
    let old = filetime(1_000_000_000);
    let file = fs::File::options().write(true).open(place.path("tree/file")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
    place.check(&["cp", "-p", "tree/file", "image:/kept"]);
    let facts = place.check(&["find", "image:/kept", "-printf", "%m %T@"]);
    assert!(facts.starts_with("640 1000000000."), "{facts}");
    place.check(&["cp", "-p", "--ignore-owner", "image:/kept", "back"]);
    assert_eq!(fs::metadata(place.path("back")).unwrap().mtime(), 1_000_000_000);

    let long = place.check(&["ls", "-n", "image:/kept"]);
    assert!(long.starts_with("-rw-r----- 1 "), "{long}");
    place.check(&["ln", "-s", "tree", "image:/link"]);
    let long = place.check(&["ls", "-l", "image:/link"]);
    assert!(long.starts_with("lrwxrwxrwx 1 "), "{long}");
    assert_eq!(place.check(&["ls", "image:/link"]), "file\n");
    assert!(place.check(&["ls", "-l", "image:/link/"]).contains(" file\n"));
    place.check(&["rm", "image:/link"]);
    place.check(&["setfacl", "-m", "u:1000:rw", "image:/kept"]);
    place.check(&["mkdir", "image:/plain", "image:/with"]);
    place.check(&["setfacl", "-d", "-m", "u:1000:rwx", "image:/with"]);
    let long = place.check(&["ls", "-l", "image"]);
    assert!(long.contains("\n-rw-rw----+ "), "{long}");
    assert!(long.contains("\ndrwxr-xr-x  "), "what has no list keeps the column: {long}");
    assert!(long.contains("\ndrwxr-xr-x+ "), "{long}");
}

fn filetime(seconds: u64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
}

/// Checks that `--watch` is refused together with options that serve or print figures. Otherwise
/// the command would serve figures and show nothing.
#[test]
fn figures_are_served_or_watched() {
    let place = VolumeDir::new();
    let words = "cannot be used with";
    place.check_failure(&["stats", "--listen", "127.0.0.1:0", "--watch", "/proc"], 2, words);
    place.check_failure(&["stats", "--prometheus", "--watch", "/proc"], 2, words);
}

/// Checks the hint for a volume that is opened with the external log of another volume: it says
/// only to name the right log, because mounting and unmounting the volume, or repairing it, would
/// not help.
#[test]
fn log_of_another_volume_is_refused() {
    let place = VolumeDir::new();
    for (name, digit) in [("one", "1"), ("two", "2")] {
        let uuid = format!("uuid=11111111-1111-1111-1111-11111111111{digit}");
        let log = format!("{name}.log");
        for (file, length_bytes) in [(name, 300 << 20), (&*log, 64 << 20)] {
            fs::File::create(place.path(file)).unwrap().set_len(length_bytes).unwrap();
        }
        place.check(&["mkfs", "-q", "-m", &uuid, "-l", &format!("logdev={log}"), name]);
    }
    let right = "hint: if the log is on an external device, name the right one with --log-device";
    for command in [&["ls", "one"][..], &["mount", "-f", "one", "."]] {
        place.check_failure(&[&["--log-device", "two.log"], command].concat(), 5, right);
    }
}

#[test]
fn help_shows_only_options_of_the_command() {
    let place = VolumeDir::new();
    let help = |command: &str| place.check(&[command, "--help"]);
    assert!(help("help").contains("of the given subcommand"));
    for command in ["rm", "recover", "umount", "stats", "completions", "mount"] {
        assert!(!help(command).contains("--live"), "{command}");
    }
    for command in ["umount", "stats", "completions", "man"] {
        assert!(!help(command).contains("Image options"), "{command}");
    }
    assert!(help("rm").contains("--partition") && help("ls").contains("--live"));
    for (command, own) in [("mount", "\nMount options:"), ("find", "\nExpression (")] {
        let help = help(command);
        assert!(help.find(own).unwrap() < help.find("\nImage options:").unwrap(), "{help}");
    }
    let mount = help("mount");
    let (_, options) = mount.split_once("\nMount options:\n").unwrap();
    let (options, _) = options.split_once("\nArguments:\n").unwrap();
    assert!(options.lines().all(|line| line.len() < 80), "{options}");
    place.check_failure(
        &["rm", "--live", "image:/f"],
        2,
        "--live and --no-recovery are for reading",
    );
    place.check(&["man", "pages"]);
    let page = fs::read_to_string(place.path("pages/ferroxfs-rm.1")).unwrap();
    assert!(page.contains("partition") && !page.contains("live"), "{page}");
    let pages: Vec<_> = fs::read_dir(place.path("pages")).unwrap().map(Result::unwrap).collect();
    assert!(pages.iter().all(|page| !page.file_name().to_string_lossy().contains("help")));
    assert!(!place.check(&["completions", "bash"]).is_empty());
}
