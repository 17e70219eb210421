//! Tests of media that change under a mount: data that was synced is gone, and ferroxfs must report
//! this.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use xfs_oracle::harness::{Trial, TrialError};

use crate::mounted::{await_mount, ferroxfs, run, said, umount};
use crate::writers::{ImageDir, Loop, MountPoint};

const KEPT_BYTES: u64 = 4 << 20;

/// Returns the trials of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new(
            "image_that_shrinks_fails_fsync_and_umount",
            image_that_shrinks_fails_fsync_and_umount,
        ),
        Trial::new(
            "shrunk_image_fails_fsync_of_a_clean_file",
            shrunk_image_fails_fsync_of_a_clean_file,
        ),
        Trial::new(
            "image_that_shrank_unnoticed_fails_umount",
            image_that_shrank_unnoticed_fails_umount,
        ),
        Trial::new(
            "file_below_a_loop_device_that_shrinks_fails_fsync",
            file_below_a_loop_device_that_shrinks_fails_fsync,
        ),
        Trial::new("device_that_shrinks_fails_fsync", device_that_shrinks_fails_fsync),
        Trial::new("unlinked_image_is_still_served", unlinked_image_is_still_served),
        Trial::new("full_host_fails_fsync", full_host_fails_fsync),
    ]
}

/// Writes a file and syncs it. Returns false if either fails.
fn write_and_sync(path: &Path) -> bool {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(&[7; 100_000])?;
        file.sync_all()
    };
    write().is_ok()
}

fn shrink(path: &Path) {
    File::options().write(true).open(path).unwrap().set_len(KEPT_BYTES).unwrap();
}

/// Unmounts with `umount`. If that fails, tries `umount --force`, which must fail too. Returns the
/// exit code and the message of the first attempt.
fn unmount(held: &MountPoint) -> (Option<i32>, String) {
    let output = ferroxfs(&["umount"]).arg(&held.0).output().unwrap();
    if !output.status.success() {
        let forced = ferroxfs(&["umount", "--force"]).arg(&held.0).output().unwrap();
        assert!(!forced.status.success(), "by force it succeeds: {}", said(&forced));
    }
    (output.status.code(), said(&output))
}

/// Checks that fsync and umount fail after an image has shrunk, and that the server reports the
/// loss and ends with an error.
fn image_that_shrinks_fails_fsync_and_umount() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let folder = ground.folder("mnt");
    let mut serve = ferroxfs(&["mount", "--foreground"]);
    let serve = serve.arg(&image).arg(&folder).stderr(Stdio::piped());
    let server = serve.spawn().unwrap();
    await_mount(&folder);
    let held = MountPoint(folder);
    assert!(write_and_sync(&held.0.join("before")));
    shrink(&image);
    assert!(!write_and_sync(&held.0.join("after")), "fsync promised what cannot be kept");
    assert!(!write_and_sync(&held.0.join("later")), "the volume goes on");
    let (code, text) = unmount(&held);
    assert!(code != Some(0), "{text}");
    let ended = server.wait_with_output().unwrap();
    let text = said(&ended);
    assert!(!ended.status.success() && text.contains("became shorter"), "{text}");
    Ok(())
}

/// Checks that fsync fails on a shrunk image even for a clean file, although nothing of such a file
/// has to be flushed.
fn shrunk_image_fails_fsync_of_a_clean_file() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    assert!(write_and_sync(&held.0.join("file")));
    let file = File::open(held.0.join("file")).unwrap();
    let folder = File::open(&held.0).unwrap();
    file.sync_all().unwrap();
    shrink(&image);
    assert!(file.sync_all().is_err() && file.sync_data().is_err(), "of a file");
    assert!(folder.sync_all().is_err(), "of a folder");
    drop((file, folder));
    let (code, text) = unmount(&held);
    assert!(code != Some(0), "{text}");
    Ok(())
}

/// Checks that umount fails if an image has shrunk and nothing has been written since.
fn image_that_shrank_unnoticed_fails_umount() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    assert!(write_and_sync(&held.0.join("before")));
    shrink(&image);
    let (code, text) = unmount(&held);
    assert!(code != Some(0), "{text}");
    Ok(())
}

fn check_below_a_loop_device(shrink: impl FnOnce(&Path, &Loop)) -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let device = Loop::over(&image, &[]);
    let held = MountPoint::by_us(&[], &device.0, ground.folder("mnt"));
    assert!(write_and_sync(&held.0.join("before")));
    shrink(&image, &device);
    assert!(!write_and_sync(&held.0.join("after")), "fsync promised what cannot be kept");
    let (code, text) = unmount(&held);
    assert!(code != Some(0), "{text}");
    Ok(())
}

/// Checks that fsync fails if the file below a loop device shrinks. The loop device keeps its size,
/// and writes to it would extend the file again.
fn file_below_a_loop_device_that_shrinks_fails_fsync() -> Result<(), TrialError> {
    check_below_a_loop_device(|image, _| shrink(image))
}

/// Checks that fsync fails if a block device becomes smaller.
fn device_that_shrinks_fails_fsync() -> Result<(), TrialError> {
    check_below_a_loop_device(|image, device| {
        shrink(image);
        run(Command::new("losetup").arg("--set-capacity").arg(&device.0));
    })
}

/// Checks that an image whose name was removed is still served: the server's descriptor refers to
/// the file.
fn unlinked_image_is_still_served() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    let kept = ground.at("kept");
    fs::hard_link(&image, &kept).unwrap();
    fs::remove_file(&image).unwrap();
    fs::write(&image, "another file").unwrap();
    assert!(write_and_sync(&held.0.join("after")));
    umount(&held.0);
    assert_eq!(fs::read(&image).unwrap(), b"another file");
    let listed = run(ferroxfs(&["ls"]).arg(&kept));
    assert!(listed.contains("after"), "{listed}");
    Ok(())
}

/// Checks that fsync fails if the host has no space for the blocks of a sparse image.
fn full_host_fails_fsync() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let options = ["-t", "tmpfs", "-o", "size=24m"];
    let host = MountPoint::by_mount(&options, Path::new("tmpfs"), ground.folder("host"));
    let image = host.0.join("image");
    File::create(&image).unwrap().set_len(512 << 20).unwrap();
    run(ferroxfs(&["mkfs", "-q"]).arg(&image));
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    let fails = |number: u32| !write_and_sync(&held.0.join(format!("file{number}")));
    assert!((0..400).any(fails), "fsync promised what the host has no room for");
    let (code, text) = unmount(&held);
    assert!(code != Some(0), "{text}");
    Ok(())
}
