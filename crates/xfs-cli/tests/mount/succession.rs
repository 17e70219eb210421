//! Tests of a mount that starts while the image is in use, or while an earlier server closes it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xfs_oracle::harness::{Trial, TrialError};

use crate::mounted::{Mounted, Stopped, is_long, mounted, run, said, volume};

/// A mount that is refused without a wait ends within this time, even on a busy machine. A mount
/// that waits takes longer.
const AT_ONCE: Duration = Duration::from_secs(20);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("mount_comes_right_after_umount", mount_comes_right_after_umount),
        Trial::new("mount_waits_until_a_file_is_closed", mount_waits_until_a_file_is_closed),
        Trial::new("mount_waits_until_a_device_is_closed", mount_waits_until_a_device_is_closed),
        Trial::new("process_that_does_not_close_is_named", process_that_does_not_close_is_named),
        Trial::new(
            "image_in_use_by_another_program_is_not_waited_for",
            image_in_use_by_another_program_is_not_waited_for,
        ),
    ]
}

/// The path of a loop device, which is detached on drop.
struct LoopDevice(String);

impl LoopDevice {
    fn of(volume: &Mounted) -> Self {
        let mut attach = Command::new("losetup");
        let device = run(attach.args(["--find", "--show"]).arg(&volume.image.data));
        Self(device.trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn mount_comes_right_after_umount() -> Result<(), TrialError> {
    const ROUNDS: usize = 10;
    const FILES: usize = 200;
    let mut volume = mounted("rw")?;
    for round in 0..ROUNDS {
        // They have to be written when the image is closed.
        for file in 0..FILES {
            fs::write(volume.at(&format!("{round}-{file}")), "contents").unwrap();
        }
        volume.detach();
        volume.mount("rw");
        assert_eq!(fs::read_dir(volume.path()).unwrap().count(), (round + 1) * FILES);
    }
    volume.check()
}

fn mount_waits_until_a_file_is_closed() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    check_waiting(&mut volume);
    volume.check()
}

/// Checks that a mount waits until a block device is closed. Unlike with an image file, the open
/// itself fails, because a second process cannot open the device exclusively.
fn mount_waits_until_a_device_is_closed() -> Result<(), TrialError> {
    let mut volume = volume("parent-exchange")?;
    let device = LoopDevice::of(&volume);
    let file = std::mem::replace(&mut volume.image.data, PathBuf::from(&device.0));
    volume.mount("rw");
    check_waiting(&mut volume);
    volume.unmount();
    drop(device);
    volume.image.data = file;
    volume.check()
}

fn check_waiting(volume: &mut Mounted) {
    fs::write(volume.at("file"), "contents").unwrap();
    let server = volume.server();
    let stopped = Stopped::new(server.clone());
    volume.detach();
    let mut mount = volume.mount_command("rw");
    let mut mount = mount.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(mount.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let waits = format!(": waiting for process {server}, which served it before, to close it\n");
    assert!(said.ends_with(&waits), "{said}");
    assert_eq!(mount.try_wait().unwrap(), None);
    drop(stopped);
    assert!(mount.wait().unwrap().success());
    volume.is_mounted = true;
    assert_ne!(volume.server(), server);
    assert_eq!(fs::read(volume.at("file")).unwrap(), b"contents");
}

/// Checks that a mount names the process that has not closed the image in time. This takes half a
/// minute, so it runs only with `FERROXFS_LONG`.
fn process_that_does_not_close_is_named() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    if is_long() {
        let server = volume.server();
        let stopped = Stopped::new(server.clone());
        volume.detach();
        let output = volume.mount_command("rw").output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let named = format!("hint: process {server}, which served it before, has not closed it");
        assert!(text.contains("another program has it open") && text.contains(&named), "{text}");
        drop(stopped);
        volume.mount("rw");
    }
    volume.check()
}

fn image_in_use_by_another_program_is_not_waited_for() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    check_refusal(&volume, "rw");
    check_refusal(&volume, "ro");
    volume.unmount();
    volume.mount("ro");
    check_refusal(&volume, "rw");
    volume.unmount();

    let library = ferroxfs::OpenOptions::new().write(true).open(&volume.image.data).unwrap();
    check_refusal(&volume, "rw");
    library.close().unwrap();
    volume.check()
}

fn check_refusal(volume: &Mounted, options: &str) {
    let began = Instant::now();
    let output = volume.mount_command(options).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another program") && !text.contains("waits"), "{text}");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}
