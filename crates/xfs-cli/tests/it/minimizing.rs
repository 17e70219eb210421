//! Tests of `mkfs --minimize`: the smallest volume that holds a tree.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};

use crate::changing::VolumeDir;

const MIB: u64 = 1 << 20;
const STEP_BYTES: u64 = 64 << 10;

/// Returns `length` bytes that are no zeros.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 + 1).collect()
}

/// Makes directories with files of many sizes, names of all lengths, and links.
fn mixed(place: &VolumeDir) {
    for number in 0..1500_usize {
        let directory = place.path(&format!("tree/directory-{}", number % 37));
        fs::create_dir_all(&directory).unwrap();
        let name = format!("{number}-{}", "n".repeat(number % 150));
        fs::write(directory.join(&name), bytes(number % 17 * 3000)).unwrap();
        if number % 10 == 0 {
            symlink("t".repeat(number % 900 + 1), directory.join(format!("link-{number}")))
                .unwrap();
            fs::hard_link(directory.join(&name), directory.join(format!("second-{number}")))
                .unwrap();
        }
    }
}

/// Makes a few large files, one of them with many holes.
fn large(place: &VolumeDir) {
    fs::create_dir_all(place.path("tree")).unwrap();
    for number in 0..4 {
        fs::write(place.path(&format!("tree/{number}")), bytes(9_000_000 + number * 777)).unwrap();
    }
    let sparse = fs::File::create(place.path("tree/sparse")).unwrap();
    for island in 0..300_u64 {
        sparse.write_all_at(&bytes(5000), island * 100_000).unwrap();
    }
    sparse.set_len(1 << 33).unwrap();
}

/// Makes many empty files in one directory.
fn many(place: &VolumeDir) {
    fs::create_dir_all(place.path("tree/many")).unwrap();
    for number in 0..18_000 {
        fs::write(place.path(&format!("tree/many/a-name-of-some-length-{number}")), "").unwrap();
    }
}

/// The command line that makes the smallest volume, with a fixed time.
const SMALLEST: [&str; 7] = ["mkfs", "-f", "-q", "--minimize", "--time", "1700000000", "--from"];

fn size(place: &VolumeDir, image: &str) -> u64 {
    fs::metadata(place.path(image)).unwrap().len()
}

/// Returns whether the tree fits into a volume of `bytes` bytes with the overhead of `--minimize`.
fn fits(place: &VolumeDir, options: &[&str], bytes: u64) -> bool {
    let data = format!("size={bytes}");
    let arguments = [&SMALLEST[..], &["tree", "-d", &data], options, &["trial"]].concat();
    let output = place.command(&arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || text.contains("no space left"), "{bytes}: {text}");
    output.status.success()
}

/// Checks that the tree does not fit into a volume that is 3% smaller than the one that
/// `--minimize` makes. With `FERROXFS_LONG=1`, finds the smallest size by bisection.
#[track_caller]
fn check_smallest(make_tree: impl Fn(&VolumeDir), options: &[&str]) {
    let place = VolumeDir::new();
    make_tree(&place);
    place.check(&[&SMALLEST[..], &["tree"], options, &["made"]].concat());
    place.check(&["check", "made"]);
    let made = size(&place, "made");
    assert!(made > 33 * MIB, "{made} bytes: the smallest volume of all holds this tree");
    let (mut low, mut high) = (made * 100 / 103 / STEP_BYTES * STEP_BYTES, made);
    assert!(!fits(&place, options, low), "{made} bytes made, {low} are possible");
    if std::env::var_os("FERROXFS_LONG").is_none() {
        return;
    }
    while high - low > STEP_BYTES {
        let middle = (low + high) / 2 / STEP_BYTES * STEP_BYTES;
        match fits(&place, options, middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    println!("{made} bytes made, {high} bytes are possible: {} permille", made * 1000 / high);
}

#[test]
fn smallest_volume_of_files_of_many_sizes_is_within_3_percent_of_the_minimum() {
    check_smallest(mixed, &[]);
}

#[test]
fn smallest_volume_of_large_files_is_within_3_percent_of_the_minimum() {
    check_smallest(large, &[]);
}

#[test]
fn smallest_volume_of_many_empty_files_is_within_3_percent_of_the_minimum() {
    check_smallest(many, &["-i", "size=2048"]);
}

/// Checks I2 of `xfs_cli::volume::mkfs::minimize`.
#[test]
fn smallest_volume_depends_only_on_the_tree_and_the_options() {
    let place = VolumeDir::new();
    mixed(&place);
    let made = |from: &str, out: &str| {
        place.check(&[&SMALLEST[..], &[from, "--all-root", out]].concat());
        fs::read(place.path(out)).unwrap()
    };
    let first = made("tree", "one");
    assert!(first == made("tree", "one"), "a second run");
    // Files of zeros take blocks in the copy, and holes in another tree.
    let dense = bytes(MIB as usize).iter().map(|_| 0).collect::<Vec<u8>>();
    fs::write(place.path("tree/zeros"), dense).unwrap();
    let full = made("tree", "full");
    fs::File::create(place.path("tree/zeros")).unwrap().set_len(MIB).unwrap();
    assert!(full == made("tree", "full"), "holes in place of zeros");
}

#[test]
fn smallest_volume_leaves_the_free_space_that_was_asked_for() {
    let place = VolumeDir::new();
    mixed(&place);
    let smallest = |options: &[&str]| {
        place.check(&[&SMALLEST[..], &["tree"], options, &["out"]].concat());
        size(&place, "out")
    };
    let plain = smallest(&[]);
    let roomy = smallest(&["--free", "50m"]);
    assert!((plain + 50 * MIB..plain + 60 * MIB).contains(&roomy), "{plain}, {roomy}");
    let half = smallest(&["--free", "50%"]);
    assert!((plain * 2..plain * 5 / 2).contains(&half), "{plain}, {half}");
}

#[test]
fn most_of_a_volume_may_be_left_free() {
    let place = VolumeDir::new();
    mixed(&place);
    place.check(&[&SMALLEST[..], &["tree", "--free", "90%", "least"]].concat());
    let auto = ["mkfs", "-f", "-q", "-d", "size=auto", "--free"];
    place.check(&[&auto[..], &["90%", "--from", "tree", "auto"]].concat());
    let (least, auto_size) = (size(&place, "least"), size(&place, "auto"));
    assert!((300 * MIB..1000 * MIB).contains(&least), "{least}");
    assert!((least * 9 / 10..least * 3).contains(&auto_size), "{auto_size}, {least}");
    // Metadata takes more than the rest.
    let impossible = [&auto[..], &["99%", "--from", "tree", "none"]].concat();
    place.check_failure(&impossible, 2, "no size holds the files with these options");
    let impossible = [&SMALLEST[..], &["tree", "--free", "99%", "none"]].concat();
    place.check_failure(&impossible, 2, "no size holds the files with these options");
}

#[test]
fn automatic_size_does_not_count_the_image_that_it_replaces() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), bytes(90_000_000)).unwrap();
    let make = ["mkfs", "-f", "-q", "-d", "size=auto", "--from", "tree", "tree/image"];
    place.check(&make);
    let first = size(&place, "tree/image");
    place.run(&make);
    assert_eq!(size(&place, "tree/image"), first);
}

#[test]
fn automatic_size_is_one_that_the_options_allow() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    // Volumes on stripes have many groups. In a smaller one, no group has room for the log.
    place.check(&["mkfs", "-q", "-d", "size=auto,su=64k,sw=2", "--from", "tree", "out"]);
    assert!(size(&place, "out") > 300 * MIB);
    let impossible = ["mkfs", "-q", "-d", "size=auto", "-l", "size=3g", "--from", "tree", "none"];
    place.check_failure(&impossible, 2, "log");
    place.check(&["check", "out"]);
}

#[test]
fn smallest_volume_of_a_small_tree_has_32_mib() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "contents").unwrap();
    place.check(&[&SMALLEST[..], &["tree", "out"]].concat());
    assert_eq!(size(&place, "out"), 32 * MIB);
    assert_eq!(place.check(&["cat", "out:/file"]), "contents");
}

#[test]
fn minimize_refuses_a_size_and_sources_that_it_cannot_use() {
    let place = VolumeDir::new();
    large(&place);
    place.check_failure(&["mkfs", "--minimize", "out"], 2, "--minimize needs a source");
    let small = [&SMALLEST[..], &["tree", "-d", "size=40m", "out"]].concat();
    place.check_failure(&small, 1, ", which --minimize without -d size= makes");
    let both = [&SMALLEST[..], &["tree", "-d", "size=80m", "--free", "1m", "out"]].concat();
    place.check_failure(&both, 2, "-d size= and --free exclude each other");
    let one = [&SMALLEST[..], &["tree", "-d", "agcount=1", "out"]].concat();
    place.check_failure(&one, 2, "at least two allocation groups");
    assert!(!place.path("out").exists());
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let once = [&SMALLEST[..], &["pipe", "out"]].concat();
    place.check_failure(&once, 2, "pipe: a named pipe can be read only once");
}
