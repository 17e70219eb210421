//! Tests of changes of labels and UUIDs. The kernel and xfs_repair must accept the volume after
//! every change, also after one that failing writes have interrupted.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::admin::{Label, Uuid, UuidChange};
use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenError, OpenOptions, Volume};
use xfs_device::{FileOptions as DeviceOptions, open_device};
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{Geometry, Image, Xfsprogs, ready};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};

use crate::failed;

const NEW: Uuid = Uuid::from_bytes([0x5a; 16]);

pub(crate) fn options(image: &Image) -> OpenOptions {
    let options = OpenOptions::new().write(true);
    match &image.log {
        Some(log) => options.log_device(log),
        None => options,
    }
}

fn make(geometry: &Geometry, folder: &Path) -> Result<Image, TrialError> {
    let image = geometry.make(folder)?;
    let volume = patiently(|| options(&image).open(&image.data)).map_err(failed)?;
    volume.write("/file", b"contents").map_err(failed)?;
    volume.close().map_err(failed)?;
    Ok(image)
}

/// Checks a volume with the kernel and xfs_repair. Returns what xfs_db shows for `command`: the
/// UUID or the label.
fn judge(image: &Image, mount_options: &[&str], command: &str) -> Result<String, TrialError> {
    if let Some(findings) = image.findings()? {
        return Err(failed(findings));
    }
    let mount = image.mount(mount_options)?;
    let contents = fs::read(mount.path().join("file")).map_err(failed)?;
    fs::write(mount.path().join("of the kernel"), "x").map_err(failed)?;
    mount.unmount()?;
    if contents != b"contents" {
        return Err(failed("other contents"));
    }
    if let Some(findings) = image.findings()? {
        return Err(failed(findings));
    }
    let output = Xfsprogs::newer()?
        .command("xfs_db")
        .args(["-r", "-p", "xfs_admin", "-c", command])
        .arg(&image.data)
        .output()
        .map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn check(said: &str, expected: &str) -> Result<(), TrialError> {
    if said.contains(expected) { Ok(()) } else { Err(failed(format!("{said}, not {expected}"))) }
}

pub(crate) fn check_uuid(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = make(geometry, folder.path())?;
    let set = |change| {
        let devices = patiently(|| options(&image).open_devices(&image.data)).map_err(failed)?;
        devices.set_uuid(change).map_err(failed)
    };
    set(UuidChange::To(NEW))?;
    check(&judge(&image, &[], "uuid")?, &NEW.to_string())?;
    set(UuidChange::To(Uuid::nil()))?;
    check(&judge(&image, &["nouuid"], "uuid")?, &Uuid::nil().to_string())?;
    let first = set(UuidChange::Restore)?;
    check(&judge(&image, &[], "uuid")?, &first.to_string())?;
    cut(&image)
}

/// Changes the UUID repeatedly. In round n, the n-th write to the device that holds the log, and
/// all later writes, fail. Checks each time that the volume has the old or the new UUID, and that
/// the kernel mounts it.
fn cut(image: &Image) -> Result<(), TrialError> {
    let uuid = || -> Result<Uuid, TrialError> {
        let options = options(image).write(false);
        let volume = patiently(|| options.open(&image.data)).map_err(failed)?;
        Ok(volume.superblock().uuid)
    };
    let first = uuid()?;
    for nth in 1.. {
        let done = set_failing(image, nth)?.is_ok();
        let found = uuid()?;
        if found != NEW && (found != first || done) {
            return Err(failed(format!("write {nth} fails and leaves {found}")));
        }
        image.mount(&[])?.unmount()?;
        let devices = patiently(|| options(image).open_devices(&image.data)).map_err(failed)?;
        devices.set_uuid(UuidChange::To(first)).map_err(failed)?;
        if done {
            break;
        }
    }
    judge(image, &[], "uuid").map(drop)
}

/// Changes the UUID while write `nth` to the device with the log, and all later writes to it, fail.
/// The inner result is that of the change; the outer one is an error of the test itself.
fn set_failing(image: &Image, nth: u64) -> Result<Result<Uuid, OpenError>, TrialError> {
    let open = |path: &Path| -> Result<Arc<FailingDevice>, TrialError> {
        let opened =
            patiently(|| open_device(path, DeviceOptions::read_write())).map_err(failed)?;
        Ok(Arc::new(FailingDevice::new(opened.device, 1)))
    };
    let data = open(&image.data)?;
    let log = image.log.as_deref().map(open).transpose()?;
    let fault = Fault { kind: RequestKind::Write, nth, persistence: Persistence::Forever };
    log.as_ref().unwrap_or(&data).set_fault(Some(fault));
    let log = log.map(|log| log as SharedDevice);
    Ok(OpenOptions::new().with_devices(data, log).set_uuid(UuidChange::To(NEW)))
}

/// Checks changes of the UUID of a volume in use, also with failing writes.
pub(crate) fn check_uuid_in_use(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = make(geometry, folder.path())?;
    let open = || patiently(|| options(&image).open(&image.data)).map_err(failed);
    let volume = open()?;
    let set = |change| -> Result<Uuid, TrialError> {
        let uuid = volume.set_uuid(change).map_err(failed)?;
        match volume.uuid().map_err(failed)? == uuid {
            true => Ok(uuid),
            false => Err(failed("another UUID at once")),
        }
    };
    volume.write("/before", b"before").map_err(failed)?;
    let copy = |name: &str| -> Result<Image, TrialError> {
        let to = folder.path().join(name);
        fs::create_dir(&to).map_err(failed)?;
        Ok(image.copy(&to)?)
    };
    set(UuidChange::To(NEW))?;
    // As after a power cut, right after the change and with later records.
    check(&judge(&copy("at once")?, &[], "uuid")?, &NEW.to_string())?;
    for round in 0..50 {
        volume.write(format!("/after-{round}"), b"after").map_err(failed)?;
    }
    volume.sync().map_err(failed)?;
    let left = copy("with records")?;
    let mount = left.mount(&[])?;
    let after = fs::read(mount.path().join("after-49")).map_err(failed)?;
    mount.unmount()?;
    if after != b"after" {
        return Err(failed("changes after the new UUID are lost"));
    }
    check(&judge(&left, &[], "uuid")?, &NEW.to_string())?;
    // The copies of the superblock have it too. We recover the log.
    let ours = copy("for us")?;
    let again = patiently(|| options(&ours).open(&ours.data)).map_err(failed)?;
    again.write("/file", b"contents").map_err(failed)?;
    again.close().map_err(failed)?;
    check(&judge(&ours, &[], "uuid")?, &NEW.to_string())?;

    volume.freeze().map_err(failed)?;
    if volume.set_uuid(UuidChange::Restore).is_ok() {
        return Err(failed("a frozen volume gets another UUID"));
    }
    volume.thaw().map_err(failed)?;
    let first = set(UuidChange::Restore)?;
    volume.close().map_err(failed)?;
    check(&judge(&image, &[], "uuid")?, &first.to_string())?;
    cut_in_use(&image, first)
}

/// Changes the UUID of a volume in use repeatedly. In round n, the n-th write to the device, and
/// all later writes, fail. Checks each time that the volume has the old or the new UUID.
fn cut_in_use(image: &Image, first: Uuid) -> Result<(), TrialError> {
    for nth in 1.. {
        let (volume, fail) = open_failing(image)?;
        volume.write("/more", nth.to_string()).map_err(failed)?;
        fail(nth);
        let done = volume.set_uuid(UuidChange::To(NEW)).is_ok();
        drop((volume, fail));
        let options = options(image).write(false);
        let found = patiently(|| options.open(&image.data)).map_err(failed)?.superblock().uuid;
        if found != NEW && (found != first || done) {
            return Err(failed(format!("write {nth} fails and leaves {found}")));
        }
        image.mount(&[])?.unmount()?;
        let devices = patiently(|| self::options(image).open_devices(&image.data));
        devices.map_err(failed)?.set_uuid(UuidChange::To(first)).map_err(failed)?;
        if done {
            break;
        }
    }
    judge(image, &[], "uuid").map(drop)
}

/// Opens a volume. Returns with it a function `fail(n)`: after this call, the n-th write to the
/// device with the log and all later writes fail.
fn open_failing(image: &Image) -> Result<(Volume, impl Fn(u64)), TrialError> {
    let open = |path: &Path| -> Result<Arc<FailingDevice>, TrialError> {
        let opened =
            patiently(|| open_device(path, DeviceOptions::read_write())).map_err(failed)?;
        Ok(Arc::new(FailingDevice::new(opened.device, 1)))
    };
    let data = open(&image.data)?;
    let log = image.log.as_deref().map(open).transpose()?;
    let failing = Arc::clone(log.as_ref().unwrap_or(&data));
    let devices = OpenOptions::new().write(true);
    let devices = devices.with_devices(data, log.map(|log| log as SharedDevice));
    let volume = devices.open().map_err(failed)?;
    let fail = move |nth| {
        let (kind, persistence) = (RequestKind::Write, Persistence::Forever);
        failing.set_fault(Some(Fault { kind, nth, persistence }));
    };
    Ok((volume, fail))
}

pub(crate) fn check_label(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = make(geometry, folder.path())?;
    for label in ["twelve bytes", "", "short"] {
        let volume: Volume = patiently(|| options(&image).open(&image.data)).map_err(failed)?;
        let label_bytes = Label::new(label.as_bytes()).ok_or_else(|| failed("no label"))?;
        volume.set_label(&label_bytes).map_err(failed)?;
        if volume.label().map_err(failed)? != label_bytes {
            return Err(failed("another label at once"));
        }
        volume.close().map_err(failed)?;
        check(&judge(&image, &[], "label")?, &format!("label = \"{label}\""))?;
        let said = Xfsprogs::newer()?
            .command("xfs_db")
            .args(["-r", "-c", "sb 1", "-c", "p fname"])
            .arg(&image.data)
            .output()
            .map_err(failed)?;
        check(&String::from_utf8_lossy(&said.stdout), label)?;
    }
    Ok(())
}
