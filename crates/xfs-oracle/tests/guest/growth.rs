//! Tests of realtime sections that ferroxfs grows: a guest mounts them, and its own xfs_growfs
//! gives the same sizes.

use std::path::{Path, PathBuf};

use ferroxfs::check::CheckOptions;
use ferroxfs::{CreateOptions, NewKind, OpenOptions};
use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, patiently};

const MIB: u64 = 1 << 20;
/// Length of the data section in bytes.
const DATA_BYTES: u64 = 64 * MIB;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::new("realtime_sections_that_ferroxfs_grows_are_mounted_by_a_guest", check)]
}

fn text(error: impl std::fmt::Display) -> TrialError {
    error.to_string().into()
}

/// A kind of volume to grow.
struct GrownKind {
    name: &'static str,
    /// Options of mkfs.xfs.
    options: &'static [&'static str],
    /// Length of the device, in bytes, to which the section grows. It starts with 10 MiB.
    grown_bytes: u64,
    /// Whether the section lies on the data device.
    is_internal: bool,
}

const KINDS: [GrownKind; 4] = [
    GrownKind {
        name: "groups",
        options: &["-m", "metadir=1,rmapbt=1,reflink=1", "-r", "size=10m,rgsize=4m"],
        grown_bytes: 18 * MIB - 4096,
        is_internal: false,
    },
    GrownKind {
        name: "large extents",
        options: &["-m", "metadir=1,rmapbt=1,reflink=0", "-r", "size=10m,rgsize=4032k,extsize=28k"],
        grown_bytes: 18 * MIB - 4096,
        is_internal: false,
    },
    GrownKind {
        name: "zones",
        options: &["-r", "zoned=1,rgsize=1m"],
        grown_bytes: 13 * MIB,
        is_internal: false,
    },
    GrownKind {
        name: "internal zones",
        options: &["-r", "zoned=1,rgsize=1m"],
        grown_bytes: 13 * MIB,
        is_internal: true,
    },
];

/// The images of a volume.
struct Images {
    data: PathBuf,
    realtime: Option<PathBuf>,
}

impl Images {
    /// Makes a volume with mkfs.xfs, whose section has 10 MiB of its longer device.
    fn make(folder: &Path, name: &str, kind: &GrownKind) -> Result<Self, TrialError> {
        let file = |end: &str, bytes: u64| {
            let path = folder.join(format!("{name}-{end}"));
            let file = std::fs::File::create(&path).map_err(text)?;
            file.set_len(bytes).map_err(text)?;
            Ok::<_, TrialError>(path)
        };
        let (data_bytes, section) = match kind.is_internal {
            true => (DATA_BYTES + 10 * MIB, None),
            false => (DATA_BYTES, Some(file("realtime", 10 * MIB)?)),
        };
        let images = Self { data: file("data", data_bytes)?, realtime: section };
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.args(["-q", "-f", "--unsupported", "-d", "size=64m,rtinherit=1"]).args(kind.options);
        if let Some(realtime) = &images.realtime {
            mkfs.arg("-r").arg(format!("rtdev={}", realtime.display()));
        }
        let output = mkfs.arg(&images.data).output().map_err(text)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let (path, bytes) = match &images.realtime {
            Some(realtime) => (realtime, kind.grown_bytes),
            None => (&images.data, DATA_BYTES + kind.grown_bytes),
        };
        let file = std::fs::File::options().write(true).open(path).map_err(text)?;
        file.set_len(bytes).map_err(text)?;
        Ok(images)
    }

    fn options(&self) -> OpenOptions {
        match &self.realtime {
            Some(realtime) => OpenOptions::new().realtime_device(realtime),
            None => OpenOptions::new(),
        }
    }

    /// Grows the section with ferroxfs: first by a part, then to the end of its device.
    fn grow(&self) -> Result<(), TrialError> {
        for blocks in [Some(2_816), None] {
            let options = self.options().write(true);
            let devices = patiently(|| options.open_devices(&self.data)).map_err(text)?;
            devices.grow_realtime(blocks).map_err(text)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TrialError> {
        let volume = patiently(|| self.options().open(&self.data)).map_err(text)?;
        let report = volume.check(CheckOptions::default(), &()).map_err(text)?;
        if !report.is_clean() {
            return Err(format!("{}: {:?}", self.data.display(), report.findings).into());
        }
        let mut repair = Xfsprogs::newer()?.command("xfs_repair");
        repair.arg("-n");
        if let Some(realtime) = &self.realtime {
            repair.arg("-r").arg(realtime);
        }
        let output = repair.arg(&self.data).output().map_err(text)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let is_silent = !said.contains("would ") && !said.contains("bad ");
        match output.status.success() && is_silent {
            true => Ok(()),
            false => Err(said.into()),
        }
    }
}

/// The fields of the superblock that both must give the same values.
const FIELDS: &str = "p rblocks rextents rextsize rbmblocks rextslog rgcount rgextents \
                      rgblklog rtstart rtreserved";

/// Returns the script for a volume that the guest grows, and one that ferroxfs has grown.
fn script(kind: &GrownKind, [theirs, ours]: [&[String]; 2]) -> String {
    let mount = |drives: &[String]| {
        let device = drives.get(1).map(|device| format!(",rtdev={device}")).unwrap_or_default();
        let data = drives.first().map(String::as_str).unwrap_or_default();
        format!("mount -o noatime{device} {data} /mnt || {{ dmesg | tail; exit 1; }}\n")
    };
    let fields = |who: &str, drives: &[String]| {
        let data = drives.first().map(String::as_str).unwrap_or_default();
        format!(
            "echo \"{who} {}: $(xfs_db -r -c 'sb 0' -c '{FIELDS}' {data} | tr '\\n' ' ')\"\n",
            kind.name
        )
    };
    let statfs = |who: &str| format!("echo \"{who} {}: $(stat -f -c %b /mnt)\"\n", kind.name);
    let mut script = mount(theirs);
    script.push_str("xfs_growfs -r /mnt > /dev/null || exit 1\n");
    script.push_str(&statfs("theirs"));
    script.push_str("umount /mnt || exit 1\n");
    script.push_str(&fields("theirs", theirs));
    script.push_str(&mount(ours));
    script.push_str(&statfs("ours"));
    let kinds = match kind.options.concat().contains("zoned") {
        true => "rtrmapbt",
        false if kind.options.concat().contains("reflink=1") => {
            "rtbitmap rtsummary rtrmapbt rtrefcountbt"
        }
        false => "rtbitmap rtsummary rtrmapbt",
    };
    script.push_str(&fields("ours", ours));
    script.push_str(&format!(
        "groups=$(xfs_db -r -c 'sb 0' -c 'p rgcount' {} | sed 's/.* //')\n\
         for group in $(seq 0 $((groups - 1))); do for kind in {kinds}; do\n\
         said=$(xfs_io -x -c \"scrub $kind $group\" /mnt 2>&1)\n\
         [ -z \"$said\" ] || {{ echo \"scrub $kind $group: $said\"; exit 1; }}\n\
         done; done\n\
         cmp /in/old /mnt/old || exit 1\n\
         cp /in/old /mnt/new || exit 1\n\
         umount /mnt || exit 1\n",
        ours.first().map(String::as_str).unwrap_or_default(),
    ));
    script
}

fn check() -> Result<(), TrialError> {
    let mut guest = Guest::new(GuestKernel::New)?.limit(std::time::Duration::from_secs(600));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let old: Vec<u8> = (0..700_000_u32).map(|byte| (byte / 4096) as u8).collect();
    let (mut ours, mut text_of_script, mut drives) = (Vec::new(), String::new(), ('a'..).take(26));
    for kind in &KINDS {
        let mut add = |images: &Images| {
            let paths = std::iter::once(&images.data).chain(&images.realtime);
            let mut names = Vec::new();
            for path in paths {
                guest = guest.clone().image(path);
                names.extend(drives.next().map(|letter| format!("/dev/vd{letter}")));
            }
            names
        };
        let theirs = Images::make(folder.path(), &format!("{}-theirs", kind.name), kind)?;
        let grown = Images::make(folder.path(), &format!("{}-ours", kind.name), kind)?;
        let volume = patiently(|| grown.options().write(true).open(&grown.data)).map_err(text)?;
        let root = volume.root().map_err(text)?;
        let file = root.create("old", &NewKind::Regular, &CreateOptions::new(0o644));
        let file = file.and_then(|node| node.open()).map_err(text)?;
        file.write_at(&old, 0).map_err(text)?;
        drop((file, root));
        volume.close().map_err(text)?;
        grown.grow()?;
        grown.check()?;
        let drives = [add(&theirs), add(&grown)];
        let [theirs, grown_drives] = &drives;
        text_of_script.push_str(&script(kind, [theirs, grown_drives]));
        ours.push(grown);
    }
    let said = guest.file("old", &old).script(&text_of_script).run()?.checked()?;
    let of = |who: &str| -> Vec<&str> {
        said.lines().filter_map(|line| line.strip_prefix(who)).collect()
    };
    let (theirs, found) = (of("theirs "), of("ours "));
    if theirs != found || found.len() != 2 * KINDS.len() {
        return Err(format!("the guest: {theirs:#?}, ferroxfs: {found:#?}").into());
    }
    for images in &ours {
        images.check()?;
        let volume = patiently(|| images.options().open(&images.data)).map_err(text)?;
        if volume.read("/new").map_err(text)? != old {
            return Err("a file that the guest wrote has other bytes".to_owned().into());
        }
    }
    Ok(())
}
