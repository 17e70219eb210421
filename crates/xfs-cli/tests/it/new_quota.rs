//! Tests of projects and quota of a new volume: `mkfs --project`, `--quota` and `--limit`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::changing::VolumeDir;

/// Returns a directory with the tree `tree`, and the same tree as `tree.tar` and `tree.cpio`. The
/// archives do not list the directories.
fn place() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/srv/web/logs")).unwrap();
    fs::create_dir(place.path("tree/etc")).unwrap();
    fs::write(place.path("tree/srv/web/index"), vec![b'x'; 300_000]).unwrap();
    fs::hard_link(place.path("tree/srv/web/index"), place.path("tree/srv/web/name")).unwrap();
    std::os::unix::fs::symlink("index", place.path("tree/srv/web/link")).unwrap();
    fs::write(place.path("tree/srv/web/logs/today"), vec![b'y'; 5000]).unwrap();
    fs::write(place.path("tree/etc/other"), "other\n").unwrap();
    let files = "srv/web/index\nsrv/web/name\nsrv/web/link\nsrv/web/logs/today\netc/other\n";
    fs::write(place.path("list"), files).unwrap();
    for archiver in
        ["tar -cf ../tree.tar -T ../list", "cpio --quiet -o -H newc -F ../tree.cpio <../list"]
    {
        let mut shell = Command::new("sh");
        shell.args(["-c", archiver]).current_dir(place.path("tree"));
        assert!(shell.status().unwrap().success(), "{archiver}");
    }
    place
}

/// Makes the volume `made` and checks that its counts are right and marked as right. Returns the
/// report of its quota.
#[track_caller]
fn report(place: &VolumeDir, options: &[&str]) -> Value {
    // A longer or shorter file would decide about the size.
    let _ = fs::remove_file(place.path("made"));
    let mkfs = [&["mkfs", "-q"], options, &["made"]].concat();
    place.check(&mkfs);
    place.check(&["check", "-q", "made"]);
    let checked = place.run(&["quota", "check", "made"]);
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.ends_with(" 0 differences\n"), "{options:?}: {said}");
    serde_json::from_str(&place.check(&["quota", "--json", "made"])).unwrap()
}

/// Returns the blocks and the inodes of an owner, and the hard limits.
#[track_caller]
fn usage(report: &Value, kind: &str, id: u64) -> [u64; 4] {
    let quotas = report["quotas"].as_array().unwrap();
    let found = quotas.iter().find(|quota| quota["type"] == kind && quota["id"] == id);
    let found = found.unwrap_or_else(|| panic!("{kind} {id} in {report}"));
    let number = |resource: &str, of: &str| found[resource][of].as_u64().unwrap();
    [
        number("blocks", "used"),
        number("inodes", "used"),
        number("blocks", "hard"),
        number("inodes", "hard"),
    ]
}

const QUOTA: [&str; 8] = [
    "--project",
    "/srv/web=42",
    "--project",
    "srv/web/logs/=43",
    "--quota",
    "uquota,pqnoenforce",
    "--limit",
    "project=42:bhard=10m,ihard=100",
];

#[test]
fn trees_of_all_kinds_of_sources_get_projects_and_are_counted() {
    let place = place();
    for from in [
        &["--from", "tree"] as &[&str],
        &["--from", "tree.tar"],
        &["--from", "tree.cpio"],
        &["--from", "tree/etc", "--from", "tree.tar", "--add", "tree/etc:/srv/web/logs"],
        &["-p", "tree"],
    ] {
        let report = report(&place, &[&["-d", "size=320m"], from, &QUOTA].concat());
        // The directory, the file and the symbolic link; 300,000 bytes are 74 blocks.
        assert_eq!(usage(&report, "project", 42), [74, 3, 2560, 100], "{from:?}");
        let [blocks, inodes, ..] = usage(&report, "project", 43);
        let added = u64::from(from.len() > 2);
        assert_eq!((blocks, inodes), (2 + added, 2 + added), "{from:?}");
        assert_eq!(report["types"][0]["enforced"], true);
        assert_eq!(report["types"][2]["enforced"], false);
        let shown = place.check(&["quota", "project", "made:/srv/web/logs"]);
        assert_eq!(shown, "        43 inherit /srv/web/logs\n", "{from:?}");
    }
}

#[test]
fn chosen_sizes_and_metadata_directories_hold_quota() {
    let place = place();
    for size in
        [&["-d", "size=auto"] as &[&str], &["--minimize"], &["-d", "size=320m", "-m", "uquota"]]
    {
        let report = report(&place, &[size, &["--from", "tree"], &QUOTA].concat());
        assert_eq!(usage(&report, "project", 42), [74, 3, 2560, 100], "{size:?}");
    }
    let on = ["-d", "size=320m", "-m", "uquota,gqnoenforce", "--from", "tree", "--project", "/=7"];
    let counted = report(&place, &on);
    assert_eq!(counted["types"][1]["accounted"], true);
    assert_eq!(counted["types"][1]["enforced"], false);
    assert_eq!(counted["types"][2]["accounted"], false);
    let empty = ["-d", "size=320m", "--limit", "group=5:ihard=9"];
    assert_eq!(usage(&report(&place, &empty), "group", 5), [0, 0, 0, 9]);
}

#[test]
fn bytes_are_the_same_in_each_run() {
    let place = place();
    let mkfs = [&["mkfs", "-q", "-d", "size=320m", "--from", "tree"], &QUOTA[..]].concat();
    place.check(&[&mkfs[..], &["one"]].concat());
    place.check(&[&mkfs[..], &["two"]].concat());
    assert!(fs::read(place.path("one")).unwrap() == fs::read(place.path("two")).unwrap());
}

#[test]
fn recipe_has_projects_and_limits() {
    let place = place();
    let recipe = "output = 'made'\nfrom = 'tree'\nsize = '320m'\nproject = ['/srv/web=42']\n\
                  quota = 'pquota'\nlimit = 'project=42:bhard=10m,ihard=100'\n";
    fs::write(place.path("r.toml"), recipe).unwrap();
    place.check(&["build", "-q", "r.toml"]);
    let report = serde_json::from_str(&place.check(&["quota", "--json", "made"])).unwrap();
    // With the directory of logs, and the file in it.
    assert_eq!(usage(&report, "project", 42), [76, 5, 2560, 100]);
}

#[test]
fn import_gives_trees_projects() {
    let place = place();
    let import = ["import", "--project", "/new/srv/web=42", "tree.tar", "image:/new"];
    place.check(&import);
    let shown = place.check(&["quota", "project", "image:/new/srv/web"]);
    assert_eq!(shown, "        42 inherit /new/srv/web\n");
}

#[test]
fn mistakes_and_exceeded_limits_are_reported() {
    let place = place();
    let mkfs = ["mkfs", "-q", "-d", "size=320m", "--from", "tree"];
    for (more, code, message) in [
        (&["--quota", "quota"] as &[&str], 2, "quota is not a type of quota"),
        (&["--quota", "uquota,uqnoenforce"], 2, "quota of the type user is given twice"),
        (&["--limit", "42:bhard=1m"], 2, "is not OWNER:LIMITS"),
        (&["--project", "/srv=0"], 2, "the numbers of projects are 1 to 4294967294"),
        (&["--project", "/srv=1", "--project", "srv=2"], 2, "is given twice"),
        (&["--project", "/no=1"], 1, "the sources have no file /no"),
    ] {
        place.check_failure(&[&mkfs[..], more, &["new"]].concat(), code, message);
    }
    let source = ["mkfs", "-d", "size=320m", "--project", "/=1", "new"];
    place.check_failure(&source, 2, "--project needs a source of files");
    let exceeded = place.run(
        &[
            &["mkfs", "-q", "-f", "-d", "size=320m", "--from", "tree", "--project", "/=1"],
            &["--limit", "project=1:bhard=8k", "new"][..],
        ]
        .concat(),
    );
    let said = String::from_utf8(exceeded.stderr).unwrap();
    assert!(exceeded.status.success(), "{said}");
    assert!(said.contains("warning: the files of project 1 exceed its limit: 308.0 KiB"), "{said}");
}
