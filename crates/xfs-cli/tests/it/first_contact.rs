//! Tests of the messages after typical mistakes of a new user.

use std::fs;
use std::process::Stdio;

use crate::changing::VolumeDir;

#[test]
fn words_of_other_programs_suggest_a_command() {
    let place = VolumeDir::new();
    for (word, answer) in [
        ("format", "ferroxfs mkfs"),
        ("fsck", "ferroxfs check"),
        ("VERIFY", "ferroxfs check"),
        ("extract", "ferroxfs cp -a"),
        ("extract", "ferroxfs import ARCHIVE"),
        ("reduce", "ferroxfs shrink"),
        ("version", "ferroxfs --version"),
        ("dir", "ferroxfs ls"),
        ("unmount", "ferroxfs umount"),
        ("xfs_info", "ferroxfs info"),
        ("lss", "'ls'"),
    ] {
        place.check_failure(&[word], 2, &format!("unrecognized subcommand '{word}'"));
        place.check_failure(&[word], 2, answer);
    }
}

#[test]
fn destructive_command_is_never_suggested() {
    let place = VolumeDir::new();
    for word in ["delete", "remove", "rmm", "erase", "mkf", "truncat", "fallocat", "wipe"] {
        let output = place.command(&[word]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let tips: Vec<_> = said.lines().filter(|line| line.contains("tip:")).collect();
        for destructive in ["rm", "truncate", "mkfs", "fallocate"] {
            assert!(!tips.iter().any(|tip| tip.contains(&format!("'{destructive}'"))), "{said}");
        }
    }
    // Neither a similar name nor a command for programs is an answer.
    for word in ["delete", "remove", "del", "unlink", "rmdir", "destroy", "complet"] {
        let output = place.command(&[word]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        for answer in ["tree", "recover", "readlink", "mkdir", "help", "complete"] {
            assert!(!said.contains(&format!("'{answer}'")), "{word}: {said}");
        }
    }
    // Arguments of other programs.
    place.check_failure(&["put", "file", "image:/file"], 2, "'ferroxfs cp FILE IMAGE:/path'");
    place.check_failure(&["tar", "xf", "image"], 2, "'ferroxfs import ARCHIVE IMAGE:/'");
    // An image where a command should be.
    place.check_failure(&["image"], 2, "the command comes first");
    place.check_failure(&["image:/etc"], 2, "the command comes first");
}

#[test]
fn wrong_paths_suggest_an_address() {
    let place = VolumeDir::new();
    place.check_failure(&["cat", "image/etc/hosts"], 1, "IMAGE:/path: image:/etc/hosts");
    place.check_failure(&["ls", "image", "etc"], 1, "image:/etc");
    place.check_failure(&["ls", "image:"], 1, "image:/");
    place.check_failure(&["info", "*.img"], 1, "hint: no file of the host matches");
    let pattern =
        "hint: patterns are not expanded in an image: ferroxfs find image:/ -name '*.txt'";
    for command in ["cat", "ls", "rm", "stat", "get"] {
        place.check_failure(&[command, "image:/*.txt"], 1, pattern);
    }
    place.check(&["mkdir", "image:/etc"]);
    let below = "ferroxfs find image:/etc -name 'host?'";
    place.check_failure(&["cp", "image:/etc/host?", "."], 1, below);
    place.check_failure(&["mkdir", "image:/none/below"], 1, "hint: ferroxfs mkdir -p");
    place.check_failure(&["cp", "none", "there"], 1, "hint: a path in an image is written");
    // These words are no patterns.
    let output = place.command(&["cat", "image:/none"]).output().unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains("hint"));
}

#[test]
fn empty_file_is_reported_as_empty() {
    let place = VolumeDir::new();
    fs::write(place.path("empty"), "").unwrap();
    place.check_failure(&["info", "empty"], 3, "is not an XFS volume: it is empty\nhint: ");
    fs::write(place.path("short"), [0; 600]).unwrap();
    place.check_failure(&["info", "short"], 3, "it holds only zeros");
}

#[test]
fn other_formats_are_named_with_a_hint() {
    let place = VolumeDir::new();
    for (offset, magic, name, hint) in [
        (0, &b"LUKS\xba\xbe"[..], "LUKS", "cryptsetup open"),
        (1080, b"\x53\xef", "ext2/3/4", ""),
        (65600, b"_BHRfS_M", "Btrfs", ""),
        (0, b"hsqs", "SquashFS", ""),
        (32769, b"CD001", "ISO 9660", ""),
        (4086, b"SWAPSPACE2", "swap space", ""),
        (4096, b"\xfc\x4e\x2b\xa9", "software RAID", "mdadm --assemble"),
        (4120, b"\xc6\x85\x73\xf6", "bcache", "/dev/bcacheN"),
        (257, b"ustar", "a tar archive", "ferroxfs import"),
        (0, b"BZh9", "bzip2", "mkfs --from or import"),
        (0, b"xFSdump0", "xfsdump", "xfsrestore"),
        (0, b"PAR1", "a Parquet file", "ferroxfs diff"),
        (0, b"EVF\x09\x0d\x0a\xff\x00", "EnCase", "ewfexport"),
    ] {
        let mut bytes = vec![0; 128 << 10];
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        fs::write(place.path("other"), bytes).unwrap();
        place.check_failure(&["info", "other"], 3, name);
        place.check_failure(&["ls", "other:/etc"], 3, hint);
    }
}

/// Returns a qcow2 image that has only a header, changed by `change`.
fn qcow2(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; 4 * 65536];
    bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
    bytes[24..32].copy_from_slice(&(300_u64 << 20).to_be_bytes());
    bytes[36..40].copy_from_slice(&2_u32.to_be_bytes());
    bytes[40..48].copy_from_slice(&(3 * 65536_u64).to_be_bytes());
    bytes[48..56].copy_from_slice(&65536_u64.to_be_bytes());
    bytes[56..60].copy_from_slice(&1_u32.to_be_bytes());
    bytes[96..100].copy_from_slice(&4_u32.to_be_bytes());
    bytes[100..104].copy_from_slice(&112_u32.to_be_bytes());
    change(&mut bytes);
    bytes
}

#[test]
fn qcow2_features_are_refused_by_name() {
    let place = VolumeDir::new();
    let check = |change: &dyn Fn(&mut [u8]), code, words: &str| {
        fs::write(place.path("disk"), qcow2(change)).unwrap();
        place.check_failure(&["ls", "disk:/"], code, words);
        place.check_failure(&["cat", "disk:/f"], code, "qemu-img");
    };
    let backed = |bytes: &mut [u8]| {
        bytes[14] = 2;
        bytes[19] = 5;
        bytes[512..517].copy_from_slice(b"a.raw");
    };
    check(&backed, 1, "needs the backing file \"a.raw\", which cannot be opened");
    check(&|bytes| bytes[79] = 4, 3, "has an external data file");
    check(&|bytes| (bytes[79], bytes[104]) = (8, 2), 3, "compressed by an unknown method (2)");
    check(&|bytes| bytes[35] = 1, 3, "is encrypted");
    check(&|bytes| bytes[79] = 2, 3, "is marked as corrupt");
    check(&|bytes| bytes[72] = 1, 3, "has unknown features");
    check(&|bytes| bytes[23] = 60, 5, "damaged");
    // With extended entries, everything is zeros.
    fs::write(place.path("disk"), qcow2(|bytes| bytes[79] = 16)).unwrap();
    place.check_failure(&["ls", "disk:/"], 3, "it holds only zeros");
    place.check_failure(&["touch", "disk:/f"], 3, "which ferroxfs does not write");
}

#[test]
fn locked_image_names_the_process() {
    let place = VolumeDir::new();
    let lock = fs::File::open(place.path("image")).unwrap();
    // Another process holds the lock: it inherits this open file.
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .stdin(Stdio::from(lock.try_clone().unwrap()))
        .spawn()
        .unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let said = format!("process {} (", std::process::id());
    place.check_failure(&["ls", "image"], 1, &said);
    place.check_failure(&["ls", "image"], 1, "--live");
    place.check_failure(&["touch", "image:/g"], 1, "wait until it is done");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn lock_of_a_process_that_has_ended_names_the_one_that_holds_it() {
    let place = VolumeDir::new();
    // flock(1) takes the lock and ends; the shell has the file open.
    let script = "exec 9<image; flock -x 9 || exit 77; echo; read -r line";
    let mut shell = std::process::Command::new("bash")
        .args(["-c", script])
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    if line.is_empty() {
        eprintln!("skipped: no flock(1)");
    } else {
        place.check_failure(&["ls", "image"], 1, &format!("process {} (bash -c", shell.id()));
    }
    drop(shell.stdin.take());
    shell.wait().unwrap();
}

#[test]
fn full_volume_reports_needed_and_free_space() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/large"), vec![1; 40 << 20]).unwrap();
    let mut mkfs = place.command(&["mkfs", "-q", "--unsupported", "-d", "file,size=32m", "small"]);
    assert!(mkfs.output().unwrap().status.success());
    let free = "\nhint: remove files, or enlarge the volume: ferroxfs growfs";
    for words in [
        &["import", "tree", "small"][..],
        &["cp", "tree/large", "small:/"],
        &["fallocate", "-l", "40m", "small:/f"],
    ] {
        place.check_failure(words, 1, "(40.0 MiB needed, ");
        place.check_failure(words, 1, " free)");
        place.check_failure(words, 1, free);
    }
    place.check(&["touch", "small:/present"]);
    let empty = place.check(&["find", "small:/", "-name", "present", "-printf", "%s"]);
    for target in ["small:/new", "small:/present"] {
        let input = fs::File::open(place.path("tree/large")).unwrap();
        let output = place.command(&["put", target]).stdin(input).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("(40.0 MiB needed, ") && said.contains(free), "{said}");
        // The file that did not fit takes no space any more.
        assert!(!said.contains("KiB free"), "{said}");
    }
    assert_eq!(place.check(&["find", "small:/", "-name", "present", "-printf", "%s"]), empty);
}

#[test]
fn umount_of_an_image_that_is_not_mounted_says_so() {
    let place = VolumeDir::new();
    place.check_failure(&["umount", "image"], 1, "image: is not mounted\nhint: ferroxfs mounts");
    place.check_failure(&["stats", "image"], 1, "image: is not mounted");
    let list = place.check(&["mounts", "--json"]);
    assert!(list.starts_with("{\"schema_version\": 1, \"mounts\": ["), "{list}");
    let image = fs::canonicalize(place.path("image")).unwrap();
    assert!(!list.contains(&image.display().to_string()));
    place.check(&["mounts"]);
}

#[test]
fn invalid_numbers_are_explained() {
    let place = VolumeDir::new();
    place.check_failure(&["ls", "--partition", "99999999999", "image"], 2, "'99999999999'");
    place.check_failure(&["parents", "--ino", "x", "image"], 2, "not a number");
    for words in [["ls", "--partition", "", "image"], ["parents", "--ino", "", "image"]] {
        let output = place.command(&words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("found in string") && !said.contains("empty string"), "{said}");
    }
}
