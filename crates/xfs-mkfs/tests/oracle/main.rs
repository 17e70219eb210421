//! Compares volumes of ferroxfs with those of mkfs.xfs, byte for byte, for all geometries.
//!
//! mkfs.xfs takes its time from SOURCE_DATE_EPOCH and its inode generations from
//! DETERMINISTIC_SEED. With a given UUID, both programs then must write the same bytes. ferroxfs's
//! volumes must also pass xfs_repair, and the kernel must be able to mount them and create files in
//! them.

mod bytes;
mod cases;
mod readers;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use uuid::Uuid;
use xfs_device::{FileDevice, FileOptions};
use xfs_format::timestamp::Timestamp;
use xfs_mkfs::{
    Devices, Discard, Generations, Identity, Options, Plan, Reader, ReaderError, TargetDevice,
};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Mount, OracleError, Xfsprogs, ready};

use crate::cases::{CONFIGURED, Case, REALTIME, REFUSED, SAME};

const UUID: &str = "7b8c2f0e-5a4d-4c3b-9a1f-0123456789ab";
/// The time in seconds since 1970 that mkfs.xfs gets: 2023-11-14.
const EPOCH: i64 = 1_700_000_000;
/// The generation that mkfs.xfs gives to every inode if DETERMINISTIC_SEED is set: the bytes of
/// "SEED".
const GENERATION: u32 = 0x5345_4544;

fn main() -> ExitCode {
    let same = SAME.iter().map(|case| {
        let name = format!("same_as_mkfs_xfs::{}", case.name());
        Trial::new(name, move || check_same(case))
    });
    let configured = CONFIGURED.iter().map(|case| {
        let name = format!("same_as_mkfs_xfs::{}", case.name());
        Trial::new(name, move || check_equal(case))
    });
    let realtime = REALTIME.iter().map(|case| {
        let name = format!("same_as_mkfs_xfs::{}", case.name());
        Trial::new(name, move || check_repaired(case))
    });
    let random = (0..cases::RANDOM_BATCHES).map(|batch| {
        Trial::new(format!("same_as_mkfs_xfs::random_{batch}"), move || {
            cases::random(batch).iter().try_for_each(check_either)
        })
    });
    let refused = REFUSED.iter().map(|case| {
        let name = format!("refused_as_by_mkfs_xfs::{}", case.name());
        Trial::new(name, move || check_refused(case))
    });
    let short = std::iter::once(Trial::new("ours_only::log_as_long_as_its_group", || {
        let case = &cases::SHORT_LOG;
        let folder = folder()?;
        let ours = Image::new(folder.path(), "ours", case)?;
        make_ours(case, &ours)?.map_err(failed)?;
        check_repair(&ours)?;
        check_mount(case, &ours)
    }));
    let guest = std::iter::once(readers::trial());
    run(same
        .chain(configured)
        .chain(realtime)
        .chain(random)
        .chain(refused)
        .chain(short)
        .chain(guest)
        .collect())
}

/// The image files of a volume: the data, and an external log and a realtime device if there are
/// any.
struct Image {
    data: PathBuf,
    log: Option<PathBuf>,
    realtime: Option<PathBuf>,
}

impl Image {
    fn new(folder: &Path, name: &str, case: &Case) -> Result<Self, TrialError> {
        let sparse = |suffix: &str, bytes: u64| {
            let path = folder.join(format!("{name}.{suffix}"));
            let file = File::create(&path).map_err(failed)?;
            file.set_len(bytes).map_err(failed)?;
            Ok::<_, TrialError>(path)
        };
        let data = sparse("xfs", case.size_bytes)?;
        let log = case.log_bytes.map(|bytes| sparse("log", bytes)).transpose()?;
        let realtime = case.realtime_bytes.map(|bytes| sparse("rt", bytes)).transpose()?;
        Ok(Self { data, log, realtime })
    }
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

/// Creates a folder for sparse files on a disk, since /tmp may be in memory.
fn folder() -> Result<tempfile::TempDir, TrialError> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)
}

fn check_same(case: &Case) -> Result<(), TrialError> {
    let folder = folder()?;
    let ours = make_equal(case, folder.path())?;
    check_repair(&ours)?;
    check_mount(case, &ours)
}

/// Checks that mkfs.xfs and ferroxfs make the same volume, without further checks.
fn check_equal(case: &Case) -> Result<(), TrialError> {
    let folder = folder()?;
    make_equal(case, folder.path()).map(|_| ())
}

/// Checks that mkfs.xfs and ferroxfs make the same volume, and that xfs_repair accepts it.
fn check_repaired(case: &Case) -> Result<(), TrialError> {
    let folder = folder()?;
    check_repair(&make_equal(case, folder.path())?)
}

/// Makes the volume with mkfs.xfs and with ferroxfs, compares them, and returns that of ferroxfs.
fn make_equal(case: &Case, folder: &Path) -> Result<Image, TrialError> {
    let theirs = Image::new(folder, "theirs", case)?;
    make_theirs(case, &theirs)?
        .map_err(|said| failed(format!("{}: mkfs.xfs refuses: {said}", case.options)))?;
    let ours = Image::new(folder, "ours", case)?;
    make_ours(case, &ours)?
        .map_err(|said| failed(format!("{}: we refuse: {said}", case.options)))?;
    compare(case, &ours, &theirs)?;
    Ok(ours)
}

/// Runs mkfs.xfs and ferroxfs with random options. Checks that both make the same volume or that
/// both refuse the options. One difference is allowed: ferroxfs makes a volume that mkfs.xfs
/// refuses because it has no room for a log of 64 MiB.
fn check_either(case: &Case) -> Result<(), TrialError> {
    let folder = folder()?;
    let theirs = Image::new(folder.path(), "theirs", case)?;
    let ours = Image::new(folder.path(), "ours", case)?;
    match (make_ours(case, &ours)?, make_theirs(case, &theirs)?) {
        (Ok(()), Ok(())) => compare(case, &ours, &theirs),
        (Err(_), Err(_)) => Ok(()),
        (Err(said), Ok(())) => {
            Err(failed(format!("{} at {}: we refuse: {said}", case.options, case.size_bytes)))
        }
        // Requested groups that cannot hold a log of 64 MiB: our volume has a shorter log.
        (Ok(()), Err(said))
            if said.contains("minimum 64MiB log") || said.contains("at least 64MB") =>
        {
            check_repair(&ours)
        }
        (Ok(()), Err(said)) => Err(failed(format!(
            "{} at {}: mkfs.xfs refuses: {said}",
            case.options, case.size_bytes
        ))),
    }
}

fn check_refused(case: &Case) -> Result<(), TrialError> {
    let folder = folder()?;
    let image = Image::new(folder.path(), "refused", case)?;
    if make_ours(case, &image)?.is_ok() {
        return Err(failed(format!("{}: we make it", case.options)));
    }
    if make_theirs(case, &image)?.is_ok() {
        return Err(failed(format!("{}: mkfs.xfs makes it", case.options)));
    }
    Ok(())
}

fn compare(case: &Case, ours: &Image, theirs: &Image) -> Result<(), TrialError> {
    let about = |message| failed(format!("{} at {}: {message}", case.options, case.size_bytes));
    bytes::compare(&ours.data, &theirs.data).map_err(about)?;
    let others = [(&ours.log, &theirs.log), (&ours.realtime, &theirs.realtime)];
    for (ours, theirs) in others {
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            bytes::compare(ours, theirs).map_err(about)?;
        }
    }
    Ok(())
}

/// Makes the volume with mkfs.xfs. The outer error is a failure of the test, the inner one the
/// message with which mkfs.xfs refused the options.
fn make_theirs(case: &Case, image: &Image) -> Result<Result<(), String>, TrialError> {
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.env("SOURCE_DATE_EPOCH", EPOCH.to_string()).env("DETERMINISTIC_SEED", "1");
    mkfs.args(["-q", "-f", "-m", &format!("uuid={UUID}")]).args(their_options(case)?);
    if let Some(log) = &image.log {
        mkfs.arg("-l").arg(format!("logdev={}", log.display()));
    }
    if let Some(realtime) = &image.realtime {
        mkfs.arg("-r").arg(format!("rtdev={}", realtime.display()));
    }
    let output = mkfs.arg(&image.data).output().map_err(failed)?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Err(said.lines().next().unwrap_or_default().to_owned()))
}

/// Returns the options for mkfs.xfs. The option `--for linux-VERSION` becomes the configuration
/// file of xfsprogs for that kernel. Paths of configuration files are those of xfsprogs.
fn their_options(case: &Case) -> Result<Vec<String>, TrialError> {
    let mut options: Vec<_> = case.options.split_whitespace().map(str::to_owned).collect();
    let mut previous = String::new();
    for option in &mut options {
        let kernel = option.strip_prefix("linux-").filter(|_| previous == "--for");
        let changed = match kernel {
            Some(version) => format!("options={}", configuration(&format!("lts_{version}"))?),
            None if previous == "-c" => {
                let (kind, name) = option.split_once('=').unwrap_or_default();
                format!("{kind}={}", configuration(name)?)
            }
            None if option == "--for" => "-c".to_owned(),
            None => option.clone(),
        };
        previous = std::mem::replace(option, changed);
    }
    Ok(options)
}

/// Returns the path of a configuration file of the newer xfsprogs.
fn configuration(name: &str) -> Result<String, TrialError> {
    Xfsprogs::newer()?;
    let folder = std::env::var("FERROXFS_ORACLES").map_err(failed)?;
    Ok(format!("{folder}/xfsprogs-sid/usr/share/xfsprogs/mkfs/{name}.conf"))
}

fn read_configuration(options: &mut Options, argument: &str) -> Result<(), String> {
    let (kind, name) = argument.split_once('=').unwrap_or_default();
    let path = configuration(name).map_err(|error| format!("{error:?}"))?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let outcome = match kind {
        "defaults" => options.parse_default_configuration(&text),
        _ => options.parse_configuration(&text),
    };
    outcome.map_err(|error| error.to_string())
}

fn make_ours(case: &Case, image: &Image) -> Result<Result<(), String>, TrialError> {
    let options = match read_options(&case.options, image) {
        Ok(options) => options,
        Err(said) => return Ok(Err(said)),
    };
    let open = |path: &Path| FileDevice::open(path, FileOptions::read_write()).map_err(failed);
    let data = open(&image.data)?;
    let log = image.log.as_deref().map(open).transpose()?;
    let realtime = image.realtime.as_deref().map(open).transpose()?;
    let target = TargetDevice {
        data_bytes: case.size_bytes,
        sector_size: 512,
        log_bytes: case.log_bytes,
        realtime_bytes: case.realtime_bytes,
    };
    let identity = Identity {
        uuid: Uuid::nil(),
        time: Timestamp::new(EPOCH, 0).unwrap_or_default(),
        generations: Generations::Fixed(GENERATION),
    };
    let plan = match Plan::new(&options, &target, &identity) {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let devices = Devices {
        data: &data,
        log: log.as_ref().map(|log| log as _),
        realtime: realtime.as_ref().map(|realtime| realtime as _),
    };
    xfs_mkfs::write(&plan, devices, Discard::Yes).map_err(failed)?;
    Ok(Ok(()))
}

fn read_options(text: &str, image: &Image) -> Result<Options, String> {
    let mut options = Options::default();
    options.parse('m', &format!("uuid={UUID}")).map_err(|error| error.to_string())?;
    options.log.device.clone_from(&image.log);
    options.realtime.device.clone_from(&image.realtime);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "--unsupported" {
            options.allow_small = true;
            continue;
        }
        let argument = words.next().unwrap_or_default();
        if word == "--for" {
            let reader: Reader =
                argument.parse().map_err(|error: ReaderError| error.to_string())?;
            options.restrict_to(&[reader]).map_err(|error| error.to_string())?;
            continue;
        }
        if word == "-c" {
            read_configuration(&mut options, argument)?;
            continue;
        }
        let outcome = match word.trim_start_matches('-') {
            "L" => options.parse_label(argument.as_bytes()),
            letter => options.parse(letter.chars().next().unwrap_or(' '), argument),
        };
        outcome.map_err(|error| error.to_string())?;
    }
    Ok(options)
}

fn check_repair(image: &Image) -> Result<(), TrialError> {
    let mut repair = Xfsprogs::newer()?.command("xfs_repair");
    repair.args(["-n", "-f", "-o", "force_geometry"]);
    if let Some(log) = &image.log {
        repair.arg("-l").arg(log);
    }
    if let Some(realtime) = &image.realtime {
        repair.arg("-r").arg(realtime);
    }
    let output = repair.arg(&image.data).output().map_err(failed)?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let is_silent = said.lines().all(|line| {
        let progress = [
            "Phase",
            "        - ",
            "No modify flag set",
            "Cannot get host filesystem geometry",
            "Repair may fail if there is a sector size mismatch",
            "the image and the host filesystem",
        ];
        progress.iter().any(|start| line.starts_with(start)) || line.trim().is_empty()
    });
    match output.status.success() && is_silent {
        true => Ok(()),
        false => Err(failed(format!("xfs_repair: {said}"))),
    }
}

/// Checks that the kernel mounts the volume and creates a file, and that the file still exists
/// after another mount.
fn check_mount(case: &Case, image: &Image) -> Result<(), TrialError> {
    ready()?;
    let mount = || {
        Mount::new(&image.data, image.log.as_deref(), &[]).map_err(|error| match error {
            OracleError::Command { stderr, .. } if case.kernel_may_refuse() => {
                OracleError::Unavailable(format!("the kernel does not mount it: {}", stderr.trim()))
            }
            other => other,
        })
    };
    let mounted = mount()?;
    std::fs::create_dir(mounted.path().join("folder")).map_err(failed)?;
    std::fs::write(mounted.path().join("folder/file"), b"text").map_err(failed)?;
    mounted.unmount()?;
    let mounted = mount()?;
    let text = std::fs::read(mounted.path().join("folder/file")).map_err(failed)?;
    mounted.unmount()?;
    if text == b"text" { check_repair(image) } else { Err(failed("the file is not there")) }
}
