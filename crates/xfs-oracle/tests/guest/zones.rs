//! Tests of zoned volumes that ferroxfs overwrites until their zones have been collected many
//! times. A guest must mount them, also with a dirty log, and read the same contents. ferroxfs and
//! the guest must also allow the same changes of file ranges (fallocate).

use std::path::{Path, PathBuf};

use ferroxfs::check::CheckOptions;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{CreateOptions, Error, File, NewKind, OpenOptions, PosixError, Volume};
use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, patiently};
use xfs_testkit::Prng;

const MIB: u64 = 1 << 20;
/// Number of files, and the length of each of them in bytes. They fill all zones that users may
/// fill.
const FILES: usize = 8;
const LENGTH: usize = 512 << 10;
/// The length of the range that each change of a range works on, in bytes.
const TRIED_LENGTH: usize = 64 << 10;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::new("zones_that_ferroxfs_has_collected_are_used_by_a_guest", check)]
}

fn text(error: impl std::fmt::Display) -> TrialError {
    error.to_string().into()
}

/// Makes an empty volume with mkfs.xfs: eight zones of 1 MiB on the data device.
fn make(folder: &Path, name: &str) -> Result<PathBuf, TrialError> {
    let path = folder.join(name);
    let file = std::fs::File::create(&path).map_err(text)?;
    file.set_len(72 * MIB).map_err(text)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.args(["-q", "-f", "--unsupported", "-d", "size=64m", "-r", "zoned=1,rgsize=1m"]);
    let output = mkfs.arg(&path).output().map_err(text)?;
    match output.status.success() {
        true => Ok(path),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

fn open(path: &Path, is_writer: bool) -> Result<Volume, TrialError> {
    patiently(|| OpenOptions::new().write(is_writer).open(path)).map_err(text)
}

fn create(volume: &Volume, name: &str) -> ferroxfs::Result<File> {
    let plain = CreateOptions::new(0o644);
    volume.root()?.create(name, &NewKind::Regular, &plain)?.open()
}

/// Fills a volume and overwrites it until its zones have been collected many times. Returns the
/// contents of the files.
fn overwrite(volume: &Volume) -> ferroxfs::Result<Vec<Vec<u8>>> {
    let mut random = Prng::new(1);
    let mut models = vec![vec![0xff; LENGTH]; FILES];
    let files: Vec<File> = (0..FILES)
        .map(|index| create(volume, &format!("f{index}")))
        .collect::<ferroxfs::Result<_>>()?;
    for (file, model) in files.iter().zip(&models) {
        file.write_at(model, 0)?;
    }
    for step in 0..1000 {
        let index = random.within(0..FILES);
        let start = random.within(0..LENGTH - 20_000);
        let bytes = vec![step as u8; random.within(1..20_000)];
        if let (Some(file), Some(model)) = (files.get(index), models.get_mut(index)) {
            file.write_at(&bytes, start as u64)?;
            if let Some(place) = model.get_mut(start..start + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
    }
    Ok(models)
}

/// The changes of ranges that are tried, with their names in xfs_io.
const TRIED: [(&str, RangeMode); 7] = [
    ("falloc 0 64k", RangeMode::Allocate(AllocateMode::Extend)),
    ("falloc -k 0 64k", RangeMode::Allocate(AllocateMode::KeepSize)),
    ("fpunch 0 64k", RangeMode::Punch),
    ("fzero 0 64k", RangeMode::Zero(AllocateMode::Extend)),
    ("fzero -k 0 64k", RangeMode::Zero(AllocateMode::KeepSize)),
    ("fcollapse 0 64k", RangeMode::Collapse),
    ("finsert 0 64k", RangeMode::Insert),
];

/// Returns for each change of a range its result, and the size and the blocks of the file after it.
fn results(volume: &Volume) -> ferroxfs::Result<Vec<String>> {
    let mut lines = Vec::new();
    for (index, (name, mode)) in TRIED.into_iter().enumerate() {
        let file = create(volume, &format!("t{index}"))?;
        file.write_at(&vec![1; 2 * TRIED_LENGTH], 0)?;
        let result = match file.change_range(0..TRIED_LENGTH as u64, mode) {
            Ok(()) => "done",
            Err(Error::Posix(PosixError::InvalidArgument)) => "Invalid argument",
            Err(Error::Unsupported(_)) => "Operation not supported",
            Err(error) => return Err(error),
        };
        let metadata = file.metadata();
        lines.push(format!("{name}: {result} {} {}", metadata.size, metadata.blocks));
    }
    Ok(lines)
}

fn script() -> String {
    let compare = |drive: &str| {
        format!(
            "mount -o noatime {drive} /mnt || {{ dmesg | tail; exit 1; }}\n\
             for i in $(seq 0 {}); do cmp /in/old$i /mnt/f$i || exit 1; done\n",
            FILES - 1
        )
    };
    let mut script = compare("/dev/vda");
    script.push_str(&format!(
        "for i in $(seq 0 {}); do rm /mnt/f$i; done; sync\n\
         for n in 1 2 3 4 5 6; do\n\
         for i in 1 2 3; do dd if=/in/new of=/mnt/f$i bs=64k conv=notrunc,fsync 2>&1 || exit 1; \
         done; done > /tmp/said || {{ cat /tmp/said; df /mnt; exit 1; }}\n\
         umount /mnt || exit 1\n",
        FILES - 1
    ));
    script.push_str(&compare("/dev/vdb"));
    script.push_str("umount /mnt || exit 1\nmount -o noatime /dev/vdc /mnt || exit 1\n");
    for (index, (name, _)) in TRIED.iter().enumerate() {
        script.push_str(&format!(
            "xfs_io -f -c 'pwrite -q -S 1 0 128k' -c fsync /mnt/t{index}\n\
             said=$(xfs_io -c '{name}' -c fsync /mnt/t{index} 2>&1)\n\
             echo \"result {name}: $(echo \"${{said:-done}}\" | sed 's/.*: //') \
             $(stat -c '%s %b' /mnt/t{index})\"\n"
        ));
    }
    script.push_str("umount /mnt\n");
    script
}

fn check() -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?.limit(std::time::Duration::from_secs(600));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, crashed) = (make(folder.path(), "image")?, folder.path().join("crashed"));
    let (theirs, ours) = (make(folder.path(), "theirs")?, make(folder.path(), "ours")?);
    let volume = open(&image, true)?;
    let old = overwrite(&volume).map_err(text)?;
    volume.sync().map_err(text)?;
    std::fs::copy(&image, &crashed).map_err(text)?;
    volume.close().map_err(text)?;
    let new: Vec<u8> = (0..LENGTH).map(|byte| (byte / 4096) as u8).collect();
    let mut guest = guest.image(&image).image(&crashed).image(&theirs).file("new", &new);
    for (index, bytes) in old.iter().enumerate() {
        guest = guest.file(&format!("old{index}"), bytes);
    }
    let said = guest.script(&script()).run()?.checked()?;
    let volume = open(&ours, true)?;
    let found = results(&volume).map_err(text)?;
    volume.close().map_err(text)?;
    let expected: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("result ")).collect();
    if found != expected {
        return Err(format!("the guest: {expected:#?}, ferroxfs: {found:#?}").into());
    }
    for path in [&image, &crashed, &theirs, &ours] {
        let volume = open(path, false)?;
        let report = volume.check(CheckOptions::default(), &()).map_err(text)?;
        if !report.is_clean() {
            return Err(format!("{}: {:?}", path.display(), report.findings).into());
        }
    }
    let volume = open(&image, false)?;
    for index in 1..4 {
        if volume.read(format!("/f{index}")).map_err(text)? != new {
            return Err(format!("f{index} has other bytes than the guest wrote").into());
        }
    }
    Ok(())
}
