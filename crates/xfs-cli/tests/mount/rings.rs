//! Tests of mounts whose requests come through rings of io_uring.

use std::fs;

use xfs_oracle::FuseRings;
use xfs_oracle::harness::{Trial, TrialError};

use crate::mounted::{ThroughRings, ferroxfs, mounted, run, said, volume};
use crate::refusals::await_sandbox;
use crate::{agreement, crash, files, permissions, refusals, user, work, writeback};

/// Returns the trials of rings, and the most important other trials with mounts through rings.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("ordinary_user_mounts_through_rings", user::ordinary_user_mounts_through_rings),
        Trial::new("requests_come_through_rings", requests_come_through_rings),
        Trial::new(
            "rings_that_are_not_offered_are_refused",
            rings_that_are_not_offered_are_refused,
        ),
        again("mount_agrees_with_the_model", agreement::mount_agrees_with_the_model),
        again("tree_is_copied_there_and_back", work::tree_is_copied_there_and_back),
        again("files_without_names_are_kept", files::files_without_names_are_kept),
        again("ranges_and_copies", files::ranges_and_copies),
        again("flags_and_attributes", files::flags_and_attributes),
        again("server_checks_as_the_kernel_does", permissions::server_checks_as_the_kernel_does),
        again("killed_mount_is_recovered", crash::killed_mount_is_recovered),
        again("signals_unmount_cleanly", crash::signals_unmount_cleanly),
        again("dead_mount_is_cleared_away", refusals::dead_mount_is_cleared_away),
        again("signals_lose_nothing_acknowledged", writeback::signals_lose_nothing_acknowledged),
        again("writes_after_a_signal_are_kept", writeback::writes_after_a_signal_are_kept),
    ]
}

/// Returns a trial that runs `test` with all its mounts through rings.
fn again(name: &str, test: fn() -> Result<(), TrialError>) -> Trial {
    Trial::new(format!("{name}_through_rings"), move || {
        // Each mount enables it, but a machine without rings skips the test.
        drop(FuseRings::on()?);
        let _through = ThroughRings::rings();
        test()
    })
}

fn requests_come_through_rings() -> Result<(), TrialError> {
    const FILES: usize = 300;
    let mut volume = mounted("io_uring,threads=1")?;
    let server = volume.server();
    let before = reads(&server);
    for index in 0..FILES {
        fs::write(volume.at(&format!("file{index}")), "contents").unwrap();
    }
    // Without rings each would be several reads of the device.
    let read = reads(&server) - before;
    assert!(read < FILES, "{read} reads");
    let rings = fs::read_dir(format!("/proc/{server}/fd")).unwrap();
    let rings = rings.filter(|file| {
        let target = fs::read_link(file.as_ref().unwrap().path()).unwrap_or_default();
        target.to_string_lossy().contains("[io_uring]")
    });
    let processors = fs::read_to_string("/proc/stat").unwrap();
    let processors = processors.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    assert!(rings.count() >= processors);
    // Servers of read-only mounts are inside the sandbox.
    volume.unmount();
    volume.mount("ro,io_uring");
    await_sandbox(&volume.server());
    assert_eq!(fs::read_dir(volume.path()).unwrap().count(), FILES);
    assert_eq!(fs::read(volume.at("file7")).unwrap(), b"contents");
    volume.unmount();
    if xfs_testkit::has_landlock() && xfs_testkit::has_namespaces() {
        let on = FuseRings::on()?;
        run(volume.mount_command("ro,io_uring").arg("--sandbox=always"));
        drop(on);
        assert_eq!(fs::read(volume.at("file8")).unwrap(), b"contents");
        run(ferroxfs(&["umount"]).arg(volume.path()));
    }
    volume.check()
}

/// Returns the number of read calls that a process has made so far.
fn reads(process: &str) -> usize {
    let figures = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let reads = figures.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    reads.parse().unwrap()
}

fn rings_that_are_not_offered_are_refused() -> Result<(), TrialError> {
    let volume = volume("default")?;
    let off = FuseRings::off()?;
    let output = volume.mount_command("io_uring").output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("io_uring: this kernel's FUSE does not offer it"), "{text}");
    assert!(text.contains("enable it: echo Y >"), "{text}");
    drop(off);
    // Nothing is mounted there.
    assert_eq!(fs::read_dir(volume.path()).unwrap().count(), 0);
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(volume.path().to_str().unwrap()));
    volume.check()
}
