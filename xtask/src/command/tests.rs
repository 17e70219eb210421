use std::fs;
use std::process::Command;

use super::{has_incremental_state, is_in_path, line};

#[test]
fn clone_with_state_of_xtask_alone_is_fresh() {
    let root = tempfile::tempdir().unwrap();
    assert!(!has_incremental_state(root.path()).unwrap());
    let folder = root.path().join("target/debug/incremental");
    fs::create_dir_all(folder.join("xtask-1b2c")).unwrap();
    assert!(!has_incremental_state(root.path()).unwrap());
    fs::create_dir(folder.join("xfs_format-3d4e")).unwrap();
    assert!(has_incremental_state(root.path()).unwrap());
}

#[test]
fn program_is_shown_as_it_can_be_typed() {
    assert!(is_in_path("sh") && !is_in_path("no-such-program"));
    assert_eq!(line(Command::new("/somewhere/bin/sh").arg("-c")), "sh -c");
    assert_eq!(line(&Command::new("/somewhere/no-such-program")), "/somewhere/no-such-program");
    assert_eq!(line(&Command::new("target/debug/sh")), "target/debug/sh");
}
