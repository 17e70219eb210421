//! Tests of `scan --dataset`: the layout, scans that replace earlier ones, runs that are killed.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use xfs_testkit::{Folders, StoreAnswer, StoreServer};

use crate::changing::VolumeDir;
use crate::transcript;

const DATE: &str = "2026-11-30";

/// Makes two volumes, `one.img` and `two.img`.
fn two_volumes() -> VolumeDir {
    let place = VolumeDir::new();
    for (name, files) in [("one", 40_u8), ("two", 90)] {
        fs::create_dir_all(place.path(name)).unwrap();
        for number in 0..files {
            fs::write(place.path(name).join(format!("file-{number}")), name).unwrap();
        }
        let image = format!("{name}.img");
        let uuid = format!("uuid=0123abcd-0123-4567-89ab-0123456789{files}");
        place.check(&["mkfs", "-q", "--from", name, "-d", "size=300m", "-m", &uuid, &image]);
    }
    place
}

/// Returns the files of the dataset `data`, relative to it, in order.
fn files(place: &VolumeDir) -> Vec<String> {
    let mut find = Command::new("find");
    let output = find.args([".", "-type", "f"]).current_dir(place.path("data")).output().unwrap();
    let mut files: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    files.sort();
    files
}

/// Adds scans to the dataset, and returns the objects of the JSON document.
fn add(place: &VolumeDir, date: &str, images: &[&str]) -> Vec<Value> {
    let command = ["scan", "--json", "--dataset", "data", "--scan-date", date];
    let output = place.run(&[&command, images].concat());
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["scan_date"], date);
    document["volumes"].as_array().unwrap().clone()
}

#[test]
fn each_volume_and_date_has_one_file_in_each_table() {
    let place = two_volumes();
    let added = add(&place, DATE, &["one.img", "two.img"]);
    let counts: Vec<_> = added.iter().map(|volume| volume["inodes"].as_u64().unwrap()).collect();
    assert_eq!(counts, [41, 91]);
    let uuids: Vec<_> =
        added.iter().map(|volume| volume["volume_uuid"].as_str().unwrap()).collect();
    let mut expected = Vec::new();
    for table in ["inodes", "scans"] {
        for uuid in &uuids {
            let place = format!("./{table}/scan_date={DATE}/volume_uuid={uuid}");
            expected.push(format!("{place}/part-00000.parquet"));
        }
    }
    expected.sort();
    assert_eq!(files(&place), expected);
    // The rows are those of the image.
    for (volume, image) in added.iter().zip(["one.img", "two.img"]) {
        let path = volume["path"].as_str().unwrap();
        let output = place.run(&["diff", "--any-volume", path, image]);
        assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
    }
}

#[test]
fn second_scan_of_a_date_replaces_the_first() {
    let place = two_volumes();
    let first = add(&place, DATE, &["one.img"]);
    let before = files(&place);
    place.check(&["mkdir", "one.img:/new"]);
    let second = add(&place, DATE, &["one.img"]);
    assert_eq!(files(&place), before);
    assert_eq!(first[0]["path"], second[0]["path"]);
    assert_eq!((&first[0]["inodes"], &second[0]["inodes"]), (&41.into(), &42.into()));
    add(&place, "2026-12-01", &["one.img"]);
    assert_eq!(files(&place).len(), 2 * before.len());
}

#[test]
fn killed_run_leaves_whole_files_and_the_next_one_completes() {
    let place = two_volumes();
    for wait in [5, 15, 30, 60, 120, 250] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
            .args(["scan", "-q", "--dataset", "data", "--scan-date", DATE, "one.img", "two.img"])
            .current_dir(place.path("."))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        if !place.path("data").exists() {
            continue;
        }
        for file in files(&place) {
            if file.contains("part-") && !file.contains(".staging") {
                let bytes = fs::read(place.path("data").join(&file)).unwrap();
                assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{file}");
            }
        }
    }
    let added = add(&place, DATE, &["one.img", "two.img"]);
    assert_eq!(added.len(), 2);
    assert_eq!(files(&place).len(), 4, "{:?}", files(&place));
}

/// The image is on a server that does not answer, so that the scan waits for it.
#[test]
fn process_that_scans_ends_with_the_killed_one_that_started_it() {
    let place = VolumeDir::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("http://{}/one.img", server.local_addr().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().to_ascii_uppercase().ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    command.args(["scan", "-q", "--dataset", "data", &image]).current_dir(place.path("."));
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let (mut connection, _) = server.accept().unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut request = [0; 4096];
    assert!(connection.read(&mut request).unwrap() > 0, "no request");
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel closes the connection of a process that ends.
    let end = connection.read_to_end(&mut Vec::new());
    assert!(
        end.as_ref().is_ok()
            || end.as_ref().is_err_and(|it| it.kind() == ErrorKind::ConnectionReset),
        "{end:?}"
    );
}

/// A server that stores half of a file never shows it, and the next run completes the dataset.
#[test]
fn dataset_on_a_server_has_the_files_of_one_in_a_directory() {
    let place = two_volumes();
    add(&place, DATE, &["one.img", "two.img"]);
    let is_broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&is_broken);
    let server = StoreServer::start(Folders::Implied, move |request| {
        let is_row = request.target.contains("/scans/");
        match breaks.load(Ordering::Relaxed) && is_row {
            true => StoreAnswer::Refuse(403),
            false => StoreAnswer::Obey,
        }
    });
    let server = server.unwrap();
    let scan = |images: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().to_ascii_uppercase();
            if text.ends_with("_PROXY") || text.starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        let endpoint = format!("http://{}", server.address());
        command.env("AWS_ENDPOINT_URL", endpoint);
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.args(["scan", "--dataset", "s3://bucket/data", "--scan-date", DATE]).args(images);
        command.current_dir(place.path(".")).output().unwrap()
    };
    is_broken.store(true, Ordering::Relaxed);
    let output = scan(&["one.img"]);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    assert!(transcript(&output).contains("HTTP status 403"), "{}", transcript(&output));
    // The rows of the inodes are there, and no row says that the scan is complete.
    let names: Vec<_> = server.objects().into_keys().collect();
    assert!(names.len() == 1 && names[0].starts_with("/bucket/data/inodes/"), "{names:?}");
    is_broken.store(false, Ordering::Relaxed);
    let output = scan(&["one.img", "two.img"]);
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
    assert!(transcript(&output).contains("/bucket/data/inodes/"), "{}", transcript(&output));
    let stored = server.objects();
    let mut names = Vec::new();
    for name in stored.keys() {
        names.push(name.replace("/bucket/data", ".").replace("%3D", "="));
    }
    names.sort();
    assert_eq!(names, files(&place));
    for (name, bytes) in &stored {
        if name.contains("/inodes/") {
            fs::write(place.path("stored.parquet"), bytes).unwrap();
            let local = name.replace("/bucket/data", "data").replace("%3D", "=");
            place.check(&["diff", "stored.parquet", &local]);
        }
    }
}

#[test]
fn unsuitable_places_and_volumes_are_refused_by_name() {
    let place = two_volumes();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = place.run(&[&["scan", "--dataset"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", transcript(&output));
        assert!(transcript(&output).contains(words), "{}", transcript(&output));
    };
    refused(&["gs://bucket/data", "one.img"], 2, "cannot write to gs://");
    fs::copy(place.path("one.img"), place.path("copy.img")).unwrap();
    refused(&["data", "--scan-date", DATE, "one.img", "copy.img"], 3, "the same volume as one.img");
    refused(&["data", "absent.img"], 1, "absent.img");
    refused(&["data", "--scan-date", "yesterday", "one.img"], 2, "yesterday");
    let part = files(&place).into_iter().find(|file| file.starts_with("./inodes")).unwrap();
    let part: PathBuf = place.path("data").join(part);
    fs::rename(&part, place.path("kept")).unwrap();
    symlink(place.path("kept"), &part).unwrap();
    refused(&["data", "--scan-date", DATE, "one.img"], 3, "not a regular file");
    assert!(part.is_symlink());
}
