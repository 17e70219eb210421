//! Tests of the options of mkfs.xfs: accepted options, inherited values, and messages for refused
//! options.

use std::fs;

use crate::changing::VolumeDir;

/// Returns options with which mkfs makes a volume of the geometry that a report of xfs_info(8)
/// shows.
fn options_of(report: &str) -> Vec<String> {
    let mut section = "";
    let mut options = Vec::new();
    let mut block = "";
    let starts = ["meta-data", "data", "naming", "log", "realtime"];
    let words = report.lines().flat_map(|line| {
        let start = starts.into_iter().find(|start| line.starts_with(start));
        line.split([' ', ',']).map(move |word| (start, word))
    });
    for (start, word) in words {
        section = start.unwrap_or(section);
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            continue;
        };
        if starts.contains(&name) {
            continue;
        }
        let option = match (section, name) {
            ("meta-data", "isize") => format!("-i size={value}"),
            ("meta-data", "agsize") => format!("-d agsize={value}b"),
            ("meta-data", "sectsz") => format!("-s size={value}"),
            ("meta-data", "attr" | "projid32bit" | "sparse" | "nrext64" | "exchange") => {
                format!("-i {name}={value}")
            }
            ("meta-data", "agcount") => continue,
            ("meta-data", _) => format!("-m {name}={value}"),
            ("data", "bsize") => {
                block = value;
                format!("-b size={value}")
            }
            ("data", "blocks") => format!("-d size={value}b"),
            ("data", "imaxpct") => format!("-i maxpct={value}"),
            ("data", _) => {
                let blocks: u64 = value.parse().unwrap();
                format!("-d {name}={}", blocks * block.parse::<u64>().unwrap() / 512)
            }
            ("naming", "bsize") => format!("-n size={value}"),
            ("naming", _) => format!("-n {name}={value}"),
            ("log", "bsize") => continue,
            ("log", "blocks") => format!("-l size={value}b"),
            ("log", "sectsz") => format!("-l sectsize={value}"),
            ("log", "sunit") => {
                let blocks: u64 = value.parse().unwrap();
                format!("-l sunit={}", blocks * block.parse::<u64>().unwrap() / 512)
            }
            ("log", _) => format!("-l {name}={value}"),
            ("realtime", "extsz") => format!("-r extsize={value}"),
            ("realtime", "blocks") => format!("-r size={value}b"),
            ("realtime", "rtextents") => continue,
            ("realtime", _) => format!("-r {name}={value}"),
            _ => panic!("{section}: {word}"),
        };
        options.push(option);
    }
    options
}

#[test]
fn report_of_xfs_info_makes_the_same_volume_again() {
    let place = VolumeDir::new();
    for own in [
        "",
        "-b size=1k -n size=8k",
        "-m rmapbt=0,reflink=0 -n parent=0",
        "-d su=64k,sw=3,agcount=4",
    ] {
        let own: Vec<_> = own.split_whitespace().collect();
        let first = [&["mkfs", "-f", "-d", "file,size=320m"], &own[..], &["one"]].concat();
        let report = place.check(&first);
        let options = options_of(&report);
        assert!(options.len() > 30, "{options:?}");
        let options: Vec<_> = options.iter().flat_map(|option| option.split(' ')).collect();
        let again = [&["mkfs", "-q", "-f", "-d", "file"], &options[..], &["two"]].concat();
        place.check(&again);
        let (one, two) = (fs::read(place.path("one")), fs::read(place.path("two")));
        assert!(one.unwrap() == two.unwrap(), "{options:?}");
    }
}

#[test]
fn command_line_of_rear_is_accepted() {
    let place = VolumeDir::new();
    let line = "mkfs -q -f -m uuid=dd0e1c7d-e0ff-46f3-bd58-76abfc46b284 -i size=512 -d agcount=16 \
                -s size=512 -i attr=2 -i projid32bit=1 -m crc=1 -m finobt=1 -b size=4096 -i maxpct=25 \
                -d sunit=0 -d swidth=0 -l version=2 -l lazy-count=1 -n size=4096 -n version=2 \
                -r extsize=4096 -d file,size=1g made";
    let made = place.command(&line.split_whitespace().collect::<Vec<_>>()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    // Groups of 64 MiB cannot hold a log of 64 MiB, which mkfs.xfs requires.
    assert!(
        String::from_utf8_lossy(&made.stderr).contains("as many as its allocation group holds")
    );
    assert!(place.check(&["info", "--xfs-info", "made"]).contains("agcount=16,"));
}

#[test]
fn letters_may_be_repeated_and_c_means_f() {
    let place = VolumeDir::new();
    let line = "mkfs -q -q -f -f -C -K -K -L one -L two -d file,size=320m made";
    place.check(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(place.check(&["label", "made"]).trim(), "two");
    place.check(&["mkfs", "-q", "-C", "-N", "-N", "made"]);
    let json = place.check(&["mkfs", "-q", "--json", "-f", "-N", "made"]);
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["uuid"].is_string());
    assert_eq!(place.check(&["label", "made"]).trim(), "two");
}

#[test]
fn log_and_data_are_two_files() {
    let place = VolumeDir::new();
    for log in ["image", "./image"] {
        let log = format!("logdev={log},size=64m");
        let words = ["mkfs", "-q", "-f", "-l", &log, "image"];
        place.check_failure(&words, 2, "-l logdev names the device of the data");
    }
    let words = ["mkfs", "-q", "-d", "size=320m", "-l", "logdev=new,size=64m,file", "./new"];
    place.check_failure(&words, 2, "-l logdev names the device of the data");
    assert!(!place.path("new").exists());
    place.check(&["ls", "image"]);
}

#[test]
fn files_inherit_root_properties_of_mkfs() {
    let place = VolumeDir::new();
    let inherited = "projinherit=5,extszinherit=16,cowextsize=24,daxinherit=1";
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "text").unwrap();
    let size = ["-d", "file,size=320m"];
    place.check(&[&["mkfs", "-q", "-f", "-d", inherited], &size[..], &["made"]].concat());
    place.check(&["mkdir", "-p", "made:/a/b"]);
    place.check(&["touch", "made:/a/b/f"]);
    // On a file the hints are other flags, and direct access exists on both.
    let (directory, file) = (0x0001_9200, 0x0001_8800);
    for (path, xflags) in [("made:/", directory), ("made:/a/b", directory), ("made:/a/b/f", file)] {
        let facts = place.check(&["stat", "--json", path]);
        let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
        let found = &facts["files"][0];
        assert_eq!(found["project_id"], 5, "{path}: {found}");
        assert_eq!(found["xflags"].as_u64().unwrap() & 0x0001_ffff, xflags, "{path}: {found}");
        let inode = found["ino"].to_string();
        let core = place.check(&["dump", "made", "inode", &inode]);
        for (field, hint) in [("extent_size_hint", "16"), ("cow_extent_size_hint", "24")] {
            let line = core.lines().find(|line| line.starts_with(field)).unwrap_or(&core);
            assert!(line.ends_with(hint), "{path}: {field}: {line}");
        }
    }
    place.check(
        &[&["mkfs", "-q", "-f", "-d", inherited, "--from", "tree"], &size[..], &["from"]].concat(),
    );
    assert_eq!(place.check(&["cat", "from:/file"]), "text");
}

#[test]
fn invalid_options_exit_with_2() {
    let place = VolumeDir::new();
    let check = |options: &str, words: &str| {
        let line = format!("mkfs -q -f {options} -d file,size=320m made");
        place.check_failure(&line.split(' ').collect::<Vec<_>>(), 2, words);
        assert!(!place.path("made").exists(), "{options}");
    };
    check("-d extszinherit=16k", "not a plain number; suffixes are not allowed here");
    check("-d extszinherit=10241", "10241 is outside 0 to 10240");
    check("-d cowextsize=16 -m reflink=0", "-d cowextsize needs -m reflink=1");
    check("-d projinherit=4294967296", "larger than 4294967295");
    check("-d daxinherit=2", "must be 0 or 1");
    check("-r extsize=6k", "not a multiple of 4096");
    check("-r extsize=1k", "outside 4096 to 1073741824");
    check("-r foo=1", "-r foo: there is no such option\nhint: ferroxfs mkfs --help");
    check("-d concurrency=4,agcount=4", "cannot be combined");
    check("-c foo=1", "-c foo=1: there is no such option\nhint: a configuration file");
    let small = ["mkfs", "-q", "-d", "file,size=100m", "made"];
    place.check_failure(&small, 2, "a volume needs at least 300 MiB, and this one has 100 MiB\n");
    let short = ["mkfs", "-q", "-f", "-d", "size=400m", "image"];
    place.check_failure(
        &short,
        2,
        "the data device has 320 MiB, but 400 MiB were requested\nhint: -d file,size=BYTES",
    );
}

#[test]
fn unsupported_options_exit_with_3() {
    let place = VolumeDir::new();
    for option in [
        "-m crc=0",
        "-n version=ci",
        "-n ftype=0",
        "-i attr=1",
        "-i projid32bit=0",
        "-i align=0",
        "-i max_atomic_write=4k",
        "-l version=1",
        "-l lazy-count=0",
        "-l concurrency=4",
        "-d concurrency=nr_cpus",
        "-m quota",
        "-r concurrency=4",
        "-c makecfg=file",
    ] {
        let line = format!("mkfs -q -f {option} -d file,size=320m made");
        let words: Vec<_> = line.split(' ').collect();
        place.check_failure(&words, 3, "is not supported: ");
        place.check_failure(&words, 3, option);
        assert!(!place.path("made").exists(), "{option}");
    }
}

#[test]
fn configuration_files_are_read() {
    let place = VolumeDir::new();
    let make = |words: &[&str]| {
        let words = [&["mkfs", "-f", "-d", "file,size=320m"], words, &["made"]].concat();
        place.check(&words)
    };
    let text =
        "# older kernels\n[metadata]\nrmapbt=0 ; a comment\nreflink = 0\n\n[inode]\nsize=1024\n";
    fs::write(place.path("old.conf"), text).unwrap();
    let read = make(&["-c", "options=old.conf"]);
    assert_eq!(read, make(&["-m", "rmapbt=0,reflink=0", "-i", "size=1024"]));
    let line = ["mkfs", "-f", "-d", "file,size=320m", "-c", "options=old.conf", "made"];
    place.check_failure(
        &[&line[..], &["-m", "rmapbt=1"]].concat(),
        2,
        "old.conf: -m rmapbt is given twice",
    );
    fs::write(place.path("old.conf"), "[metadata\n").unwrap();
    place.check_failure(&line, 2, "old.conf: -c: line 1: \"[metadata\" is neither");
    fs::write(place.path("old.conf"), [0xff, 0xfe]).unwrap();
    place.check_failure(&line, 2, "old.conf: is not a configuration file");
    fs::remove_file(place.path("old.conf")).unwrap();
    place.check_failure(&line, 1, "old.conf: No such file or directory");
}

#[test]
fn volume_for_a_reader_is_mountable_by_that_reader() {
    let place = VolumeDir::new();
    let made = ["mkfs", "-q", "-f", "-d", "file,size=320m"];
    for reader in ["linux-5.10", "rhel8", "debian-12", "grub-2.06"] {
        place.check(&[&made[..], &["--for", reader, "made"]].concat());
        let report = place.check(&["info", "--mountable-by", "made"]);
        let line = report.lines().find(|line| line.starts_with(reader)).unwrap();
        let access = if reader.starts_with("grub") { "read-only" } else { "read-write" };
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), [reader, access]);
    }
    let refused = [&made[..], &["--for", "rhel8", "-i", "nrext64=1", "made"]].concat();
    place.check_failure(&refused, 2, "rhel8 cannot mount a volume with nrext64");
    let unknown = [&made[..], &["--for", "linux", "made"]].concat();
    place.check_failure(&unknown, 2, "there is no such reader");
}

#[test]
fn mountable_by_names_the_features_that_prevent_a_mount() {
    let place = VolumeDir::new();
    let report = place.check(&["info", "--mountable-by", "image"]);
    let line = report.lines().find(|line| line.starts_with("linux-6.1 ")).unwrap();
    assert_eq!(line, "linux-6.1     none        exchange (6.10), parent (6.10)");
    assert!(report.ends_with("first Linux that reads the volume: 6.10, that writes it: 6.10\n"));
    let report = place.check(&["info", "--mountable-by", "--json", "image"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let readers = report["mountable_by"].as_array().unwrap();
    let grub = readers.iter().find(|reader| reader["reader"] == "grub-2.12").unwrap();
    assert_eq!(grub["access"], "none");
    assert_eq!(grub["missing"][0], serde_json::json!({"feature": "exchange", "since": "2.14"}));
    assert_eq!(report["linux_writes_since"], "6.10");
}

#[test]
fn configuration_with_defaults_yields_to_options() {
    let place = VolumeDir::new();
    fs::write(place.path("old"), "[metadata]\nbigtime=0\nrmapbt=0\n").unwrap();
    let made = ["mkfs", "-q", "-f", "-d", "file,size=320m"];
    let features = |more: &[&str]| {
        place.check(&[&made[..], more, &["made"]].concat());
        place.check(&["info", "--xfs-info", "made"])
    };
    let report = features(&["-c", "defaults=old", "-m", "rmapbt=1"]);
    assert!(report.contains("bigtime=0") && report.contains("rmapbt=1"), "{report}");
    let report = features(&["-c", "old"]);
    assert!(report.contains("bigtime=0") && report.contains("rmapbt=0"), "{report}");
    let twice = [&made[..], &["-c", "old", "-m", "rmapbt=1", "made"]].concat();
    place.check_failure(&twice, 2, "-m rmapbt is given twice");
}

#[test]
fn realtime_section_is_made_and_not_filled() {
    let place = VolumeDir::new();
    let made = ["mkfs", "-f", "-d", "file,size=320m", "-r", "rtdev=section,file,size=100m"];
    let report = place.check(&[&made[..], &["-m", "metadir=1,pquota", "made"]].concat());
    assert!(report.contains("rgcount=2    rgsize=16384 extents"), "{report}");
    let info = place.check(&["info", "made"]);
    assert!(info.contains("metadir") && info.contains("25600 blocks"), "{info}");
    place.check(&["ls", "--rt-device", "section", "made"]);
    let shared = ["mkfs", "-f", "-d", "file,size=320m", "-r", "rtdev=other", "other"];
    place.check_failure(&shared, 2, "-r rtdev names the device of the data");
    fs::create_dir(place.path("tree")).unwrap();
    let new = ["mkfs", "-d", "file,size=320m", "-r", "rtdev=part,file,size=100m", "--from", "tree"];
    let message = "files of a volume with a realtime section";
    place.check_failure(&[&new[..], &["new"]].concat(), 3, message);
    assert!(!place.path("new").exists());
}
