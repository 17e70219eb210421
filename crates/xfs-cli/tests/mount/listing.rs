//! Tests of `mounts`, and of commands that name a mount by its image.

use std::collections::BTreeSet;
use std::process::Command;

use xfs_fuse::is_mount_point;
use xfs_oracle::harness::{Trial, TrialError};

use crate::mounted::{ferroxfs, mounted, run, said};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("mounts_are_listed_with_image_and_process", mounts_are_listed),
        Trial::new("umount_and_stats_take_an_image", umount_and_stats_take_an_image),
        Trial::new("mounted_image_names_its_mount_point", mounted_image_is_named),
    ]
}

fn mounts_are_listed() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let image = volume.image.data.canonicalize().unwrap();
    let folder = volume.path().canonicalize().unwrap();
    let server = volume.server();
    let list = run(&mut ferroxfs(&["mounts"]));
    let start = format!("{} on {} (read-write, options ", image.display(), folder.display());
    let row = list.lines().find(|row| row.starts_with(&start)).expect("the mount is listed");
    assert!(row.ends_with(&format!(", process {server})")), "{list}");
    // The table of the system has the same options.
    let table = run(Command::new("findmnt").args(["-nro", "OPTIONS", "--target"]).arg(&folder));
    let options = row.strip_prefix(&start).unwrap().split(", ").next().unwrap();
    let sorted = |list: &str| BTreeSet::from_iter(list.trim().split(',').map(str::to_owned));
    let expected = &sorted(&table) - &BTreeSet::from(["rw".to_owned()]);
    assert_eq!(sorted(options), expected, "{table}");
    let list = run(&mut ferroxfs(&["mounts", "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let mounts = list["mounts"].as_array().unwrap();
    let own = mounts.iter().find(|mount| mount["image"] == image.to_str().unwrap()).unwrap();
    assert_eq!(own["mount_point"], folder.to_str().unwrap());
    assert_eq!(own["read_only"], false);
    assert_eq!(own["options"].as_array().unwrap().len(), expected.len());
    assert_eq!(own["process"].to_string(), server);
    volume.unmount();
    assert!(!run(&mut ferroxfs(&["mounts"])).contains(image.to_str().unwrap()));
    volume.mount("ro");
    let list = run(&mut ferroxfs(&["mounts"]));
    assert!(list.contains(&format!("{} (read-only, options ", folder.display())), "{list}");
    volume.check()
}

fn umount_and_stats_take_an_image() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    assert!(run(ferroxfs(&["stats"]).arg(&volume.image.data)).starts_with("request"));
    run(ferroxfs(&["umount"]).arg(&volume.image.data));
    volume.is_mounted = false;
    assert!(!is_mount_point(&volume.path()));
    // Of two mounts of an image, one has to be named.
    volume.mount("ro");
    let second = volume.outside("second");
    std::fs::create_dir(&second).unwrap();
    run(ferroxfs(&["mount", "-o", "ro"]).arg(&volume.image.data).arg(&second));
    let output = ferroxfs(&["umount"]).arg(&volume.image.data).output().unwrap();
    let text = said(&output);
    run(ferroxfs(&["umount"]).arg(&second));
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("is mounted at several places: ") && text.contains("second"), "{text}");
    volume.check()
}

fn mounted_image_is_named() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let place = format!("it is mounted at {}", volume.path().canonicalize().unwrap().display());
    let remedy = format!("hint: unmount it (ferroxfs umount {}", volume.path().display());
    let file = format!("{}:/file", volume.image.data.display());
    for words in [["cat", &file], ["touch", &file], ["ls", &file]] {
        let output = ferroxfs(&words).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&place) && text.contains(&remedy), "{text}");
        assert!(text.contains(&format!("process {}", volume.server())), "{text}");
    }
    // Paths of a mounted image are completed too.
    std::fs::write(volume.at("file"), "text").unwrap();
    run(std::process::Command::new("sync").arg(volume.path()));
    let begun = format!("{}:/fi", volume.image.data.display());
    let words = run(ferroxfs(&["complete", "--", "ls"]).arg(begun));
    assert_eq!(words, format!("{file}\n"));
    volume.unmount();
    volume.check()
}

pub(crate) fn mount_stats_and_umount_print_json() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let document = |command: &mut std::process::Command| -> serde_json::Value {
        let document: serde_json::Value = serde_json::from_str(&run(command)).unwrap();
        assert_eq!(document["schema_version"], 1);
        document
    };
    std::fs::write(volume.at("file"), "text").unwrap();
    let stats = document(ferroxfs(&["stats", "--json"]).arg(volume.path()));
    let requests = stats["requests"].as_array().unwrap();
    let write = requests.iter().find(|request| request["request"] == "write").unwrap();
    assert_eq!((&write["count"], &write["failures"]), (&1.into(), &0.into()));
    assert!(write["duration_ns"].as_u64() > Some(0), "{write}");
    assert!(stats["volume"]["commits"].as_u64() > Some(0), "{stats}");
    let folder = volume.path();
    let ended = document(ferroxfs(&["umount", "--json"]).arg(&folder));
    volume.is_mounted = false;
    assert_eq!(ended["mount_point"], folder.to_str().unwrap());
    assert_eq!(ended["is_closed"], true);
    let mut mount = ferroxfs(&["mount", "--json", "-o", "ro"]);
    let begun = document(mount.arg(&volume.image.data).arg(&folder));
    assert_eq!(begun["image"], volume.image.data.to_str().unwrap());
    assert_eq!(begun["mount_point"], folder.to_str().unwrap());
    assert_eq!(begun["read_only"], true);
    run(ferroxfs(&["umount"]).arg(&folder));
    volume.check()
}
