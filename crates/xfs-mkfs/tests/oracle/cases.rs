//! Test cases: options of mkfs.xfs, and sizes of devices.

use std::borrow::Cow;

use xfs_oracle::Random;

/// Options of mkfs.xfs, and the size of the device.
pub(crate) struct Case {
    pub(crate) options: Cow<'static, str>,
    pub(crate) size_bytes: u64,
    /// The size of an external log in bytes. `None` for an internal log.
    pub(crate) log_bytes: Option<u64>,
    /// The size of a realtime device in bytes. `None` without one.
    pub(crate) realtime_bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn case(size_bytes: u64, options: &'static str) -> Case {
    let options = Cow::Borrowed(options);
    Case { options, size_bytes, log_bytes: None, realtime_bytes: None }
}

const fn with_log(log_bytes: u64, options: &'static str) -> Case {
    let options = Cow::Borrowed(options);
    Case { options, size_bytes: GIB, log_bytes: Some(log_bytes), realtime_bytes: None }
}

const fn with_realtime(realtime_bytes: u64, options: &'static str) -> Case {
    let options = Cow::Borrowed(options);
    Case { options, size_bytes: GIB, log_bytes: None, realtime_bytes: Some(realtime_bytes) }
}

/// A small volume with a realtime device of 100 MiB, whose log is the shortest possible one.
const fn small_with_realtime(size_bytes: u64, options: &'static str) -> Case {
    let options = Cow::Borrowed(options);
    Case { options, size_bytes, log_bytes: None, realtime_bytes: Some(100 * MIB) }
}

impl Case {
    /// Returns the name of the case for reports.
    pub(crate) fn name(&self) -> String {
        let log = if self.log_bytes.is_some() { " external log" } else { "" };
        let realtime = self.realtime_bytes.map(|bytes| format!(" realtime {} MiB", bytes / MIB));
        let devices = format!("{log}{}", realtime.unwrap_or_default());
        format!("{} MiB{devices} {}", self.size_bytes / MIB, self.options).trim().replace(' ', "_")
    }

    /// Returns whether some kernels are unable to mount the volume. Large blocks and sectors need a
    /// new kernel, or large memory pages.
    pub(crate) fn kernel_may_refuse(&self) -> bool {
        let large = ["size=8", "size=16", "size=32", "size=64"];
        let block = self.options.contains("-b ") || self.options.contains("-s ");
        // The sector size of the log must be that of its device.
        self.options.contains("sectsize")
            || block && large.iter().any(|size| self.options.contains(size))
    }
}

/// Cases in which mkfs.xfs and ferroxfs make the same volume.
pub(crate) static SAME: [Case; 85] = [
    case(300 * MIB, ""),
    case(GIB, ""),
    case(2 * GIB, ""),
    case(GIB + 12345 * 512, ""),
    case(150 * GIB, ""),
    case(1 << 40, "-l size=64m"),
    case(5 << 40, "-l size=64m"),
    case(15 << 40, "-l size=64m"),
    case(GIB, "-b size=1024"),
    case(GIB, "-b size=2048"),
    case(GIB, "-b size=8192"),
    case(GIB, "-b size=16k"),
    case(GIB, "-b size=32k"),
    case(GIB, "-b size=64k"),
    case(100 * GIB, "-b size=64k"),
    case(GIB, "-s size=4096"),
    case(GIB, "-s size=1024"),
    case(GIB, "-b size=32k -s size=32k"),
    case(GIB, "-b size=1k -s size=1k"),
    case(GIB, "-i size=1024"),
    case(GIB, "-i size=2048"),
    case(GIB, "-i perblock=8,maxpct=50"),
    case(GIB, "-i maxpct=0"),
    case(GIB, "-n size=65536"),
    case(GIB, "-b size=1k -n size=64k"),
    case(GIB, "-m finobt=0"),
    case(GIB, "-m inobtcount=0"),
    case(GIB, "-m rmapbt=0"),
    case(GIB, "-m reflink=0"),
    case(GIB, "-m rmapbt=0,reflink=0"),
    case(GIB, "-m bigtime=0"),
    case(GIB, "-i sparse=0"),
    case(GIB, "-b size=1k -i sparse=0,size=512"),
    case(GIB, "-b size=64k -i sparse=0"),
    case(GIB, "-i nrext64=0"),
    case(GIB, "-i exchange=0 -n parent=0"),
    case(GIB, "-n parent=0"),
    case(GIB, "-n parent=1 -m rmapbt=0"),
    case(GIB, "-m autofsck=none -n parent=0"),
    case(GIB, "-m autofsck=optimize"),
    case(
        GIB,
        "-m finobt=0,rmapbt=0,reflink=0,bigtime=0 -i sparse=0,nrext64=0,exchange=0 -n parent=0",
    ),
    case(GIB, "-m reflink=0,rmapbt=1 -n parent=0"),
    case(GIB, "-d agcount=2"),
    case(GIB, "-d agcount=3"),
    case(GIB, "-d agcount=15"),
    case(4 * GIB, "-d agcount=50"),
    case(GIB, "-d agsize=255m"),
    case(GIB, "-d size=500m"),
    case(GIB, "-d su=64k,sw=4"),
    case(GIB, "-d su=1m,sw=4"),
    case(20 * GIB, "-d su=512k,sw=8 -b size=1k"),
    case(GIB, "-d sunit=24,swidth=72"),
    case(GIB, "-d su=64k,sw=4 -l su=256k,size=80m"),
    case(GIB, "-l su=64k"),
    case(GIB, "-l size=100m"),
    case(GIB, "-l size=255m"),
    case(GIB, "-l agnum=0"),
    case(GIB, "-l agnum=3,su=256k"),
    case(GIB, "-L twelve_bytes"),
    case(64 * MIB, "--unsupported"),
    case(16 * MIB, "--unsupported"),
    case(GIB, "-r extsize=4096"),
    case(GIB, "-r extsize=64k"),
    case(GIB, "-b size=1k -r extsize=1g"),
    case(GIB, "-r noalign,file,rgcount=4,zoned=0,reserved=0"),
    case(GIB, "-m crc,metadir=0,uquota=0,gqnoenforce=0,autofsck -i align,projid32bit,attr=2"),
    case(GIB, "-l version=2,lazy-count,concurrency=0 -n version=2,ftype -d concurrency=0"),
    case(100 * GIB, "-d concurrency=8"),
    case(100 * GIB, "-d concurrency=64"),
    case(30 * GIB, "-d concurrency=8"),
    case(GIB, "-d rtinherit=0,file=0,sunit=0,swidth=0"),
    case(GIB, "-d extszinherit=16"),
    case(GIB, "-d cowextsize=16"),
    case(GIB, "-d projinherit=5"),
    case(GIB, "-d projinherit=0"),
    case(GIB, "-d projinherit=0xffffffff,extszinherit=0,cowextsize=0,daxinherit=0"),
    case(GIB, "-d daxinherit=1"),
    case(
        GIB,
        "-d extszinherit=24,cowextsize=7,projinherit=9,daxinherit -n parent=0 -m autofsck=none",
    ),
    case(100 * GIB, "-d extszinherit=2097151,cowextsize=2097151"),
    case(GIB, "-d extszinherit=32768 -m bigtime=0 -i nrext64=0"),
    case(10 * GIB, "-b size=64k -d su=1m,sw=8"),
    case(10 * GIB, "-b size=64k -s size=4k -d su=1m,sw=8"),
    with_log(64 * MIB, ""),
    with_log(100 * MIB, "-l su=48k -m reflink=0"),
    with_log(200 * MIB, "-l sectsize=4k"),
];

/// Cases with configuration files of xfsprogs. For mkfs.xfs, `--for linux-VERSION` stands for the
/// file with the defaults for that kernel.
pub(crate) static CONFIGURED: [Case; 11] = [
    case(GIB, "--for linux-4.19"),
    case(GIB, "--for linux-5.4"),
    case(GIB, "--for linux-5.10"),
    case(GIB, "--for linux-5.15"),
    case(GIB, "--for linux-6.1"),
    case(GIB, "--for linux-6.6"),
    case(GIB, "--for linux-6.12"),
    case(GIB, "--for linux-6.18"),
    case(GIB, "-c options=lts_6.6"),
    case(GIB, "-c defaults=lts_5.4 -m bigtime=1,rmapbt=1 -i nrext64=1"),
    case(4 * GIB, "-c options=dax_x86_64"),
];

/// Cases with a metadata directory, quota or a realtime section.
pub(crate) static REALTIME: [Case; 57] = [
    case(GIB, "-m metadir=1"),
    case(GIB, "-m metadir=1 -b size=64k"),
    case(GIB, "-m metadir=1 -b size=1k -r extsize=1m"),
    case(GIB, "-m metadir=1 -l agnum=0 -i size=2048"),
    case(GIB, "-m metadir=1 -n parent=0 -i nrext64=0"),
    case(5 << 40, "-m metadir=1 -l size=64m"),
    with_log(64 * MIB, "-m metadir=1"),
    case(GIB, "-m metadir=1,uquota,gqnoenforce"),
    case(GIB, "-m pquota"),
    case(GIB, "-m uqnoenforce,gquota,pqnoenforce"),
    case(GIB, "-d rtinherit=1"),
    with_realtime(MIB, ""),
    with_realtime(GIB, ""),
    with_realtime(8 * GIB, "-d rtinherit=1"),
    with_realtime(8 * GIB, "-r extsize=64k,size=5g"),
    with_realtime(5 * GIB + 12345 * 512, "-r extsize=28k -m metadir=0"),
    with_realtime(GIB, "-b size=1k -n parent=0"),
    with_realtime(GIB, "-b size=64k -r rgcount=3"),
    with_realtime(100 * GIB, "-m finobt=0 -i sparse=0"),
    with_realtime(300 * MIB, "-m metadir=1"),
    with_realtime(8 * GIB, "-m metadir=1"),
    with_realtime(300 * GIB, "-m metadir=1"),
    with_realtime(1500 * MIB + 5 * 512, "-m metadir=1 -r extsize=64k"),
    with_realtime(2500 * MIB, "-m metadir=1 -r rgsize=1g"),
    with_realtime(2500 * MIB, "-m metadir=1 -r rgcount=7 -L realtime"),
    with_realtime(2500 * MIB, "-m metadir=1 -r rgcount=15"),
    with_realtime(2500 * MIB, "-m metadir=1 -r rgcount=15 -n size=8k,parent=0"),
    with_realtime(2500 * MIB, "-m metadir=1 -r extsize=28k,rgsize=280m"),
    with_realtime(2500 * MIB, "-m metadir=1,rmapbt=0 -r rgsize=1g"),
    with_realtime(2500 * MIB, "-m metadir=1,rmapbt=0,reflink=0 -r rgsize=500m"),
    with_realtime(2500 * MIB, "-m uquota -r rgsize=1g -d rtinherit=1"),
    with_realtime(2500 * MIB, "-m rmapbt=1 -r rgsize=1g -i size=2048"),
    with_realtime(2500 * MIB, "-m metadir=1 -l agnum=0 -r rgsize=1g"),
    with_realtime(2500 * MIB, "-m metadir=1 -b size=1k -r rgsize=1g"),
    with_realtime(2500 * MIB, "-m metadir=1 -b size=64k -r rgsize=1g"),
    with_realtime(2500 * MIB, "-m metadir=1 -d su=64k,sw=4 -r rgsize=1g"),
    small_with_realtime(20 * MIB, "--unsupported -m metadir=1"),
    small_with_realtime(64 * MIB, "--unsupported -m metadir=1"),
    small_with_realtime(65 * MIB, "--unsupported -m metadir=1,reflink=0"),
    small_with_realtime(64 * MIB, "--unsupported -m metadir=1,reflink=0 -n parent=0"),
    small_with_realtime(256 * MIB, "--unsupported -m metadir=1 -n parent=0"),
    small_with_realtime(256 * MIB, "--unsupported -m metadir=1 -b size=8k"),
    small_with_realtime(256 * MIB, "--unsupported -m metadir=1,reflink=0 -r extsize=28k,rgsize=7m"),
    small_with_realtime(256 * MIB, "--unsupported -b size=1k"),
    small_with_realtime(256 * MIB, "--unsupported -b size=1k -n parent=0"),
    with_realtime(2 * GIB, "-r zoned=1"),
    with_realtime(2000 * MIB, "-r zoned=1,rgsize=64m -L zones"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=100m,reserved=10m"),
    with_realtime(2 * GIB, "-r zoned=1,rgcount=9"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=64m,size=1000m -d rtinherit=0"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=64m -m uquota -l agnum=0"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=256m -b size=64k"),
    case(4 * GIB, "-r zoned=1"),
    case(4 * GIB, "-r zoned=1 -d size=600m"),
    case(4 * GIB, "-r zoned=1,start=700m -d size=600m"),
    case(60 * GIB, "-r zoned=1,rgsize=1g"),
    case(3000 * MIB, "-r zoned=1,rgsize=64m,size=1g -i size=2048"),
];

/// A case that mkfs.xfs refuses, because no group has room for a log of 64 MiB, and that ferroxfs
/// accepts with a shorter log.
pub(crate) static SHORT_LOG: Case = case(GIB, "-d agcount=16");

/// Options that both mkfs.xfs and ferroxfs refuse.
pub(crate) static REFUSED: [Case; 69] = [
    case(GIB, "-m metadir=0,uquota"),
    case(GIB, "-m uquota,uqnoenforce"),
    case(GIB, "-m metadir=1 -i exchange=0"),
    case(GIB, "-m metadir=1 -r rgcount=2"),
    with_realtime(GIB, "-m metadir=0,rmapbt=1"),
    with_realtime(GIB, "-m metadir=1,reflink=1 -r extsize=64k"),
    with_realtime(GIB, "-m metadir=1 -r rgcount=2,rgsize=512m"),
    with_realtime(GIB, "-r size=2g"),
    with_realtime(GIB, "-r size=1000001"),
    with_realtime(GIB, "-m metadir=1 -r rgsize=4096"),
    with_realtime(GIB, "-r extsize=16k -d rtinherit=1,extszinherit=5"),
    with_realtime(GIB, "-r zoned=1,extsize=64k"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=256m -b size=1k -n parent=0"),
    with_realtime(GIB, "-r zoned=1"),
    with_realtime(2 * GIB, "-r zoned=1,start=1g"),
    with_realtime(2 * GIB, "-r zoned=1 -m reflink=1"),
    with_realtime(2 * GIB, "-r zoned=1 -m metadir=0"),
    with_realtime(2 * GIB, "-r zoned=1,rgsize=64m,rgcount=5"),
    case(4 * GIB, "-r zoned=1,start=500m -d size=600m"),
    case(GIB, "-r zoned=1"),
    case(15 * MIB, "--unsupported"),
    case(299 * MIB, ""),
    case(GIB, "-d size=0"),
    case(GIB, "-d size=9223372036854775808"),
    case(GIB, "-d size=99999999999999999999"),
    case(GIB, "-d size=16e"),
    case(GIB, "-d size=2g"),
    case(GIB, "-d size=1000000001"),
    case(GIB, "-d agcount=0"),
    case(GIB, "-d agcount=1"),
    case(GIB, "-d agcount=4294967295"),
    case(GIB, "-d agcount=300"),
    case(GIB, "-d agsize=15m"),
    case(GIB, "-d agsize=1t"),
    case(GIB, "-d agsize=70001k"),
    case(GIB, "-d agcount=4,agsize=256m"),
    case(GIB, "-d su=64k"),
    case(GIB, "-d sunit=16,swidth=40"),
    case(GIB, "-d su=1g,sw=2"),
    case(GIB, "-b size=512"),
    case(GIB, "-b size=3000"),
    case(GIB, "-b size=128k"),
    case(GIB, "-s size=64k"),
    case(GIB, "-s size=8k"),
    case(GIB, "-i size=256"),
    case(GIB, "-i size=4096"),
    case(GIB, "-i size=2048 -b size=2048"),
    case(GIB, "-i maxpct=101"),
    case(GIB, "-n size=2k"),
    case(GIB, "-m inobtcount=1,finobt=0"),
    case(GIB, "-l size=63m"),
    case(GIB, "-l size=1g"),
    case(GIB, "-l su=512k"),
    case(GIB, "-r extsize=1000"),
    case(GIB, "-r extsize=2g"),
    case(GIB, "-r extsize=6k"),
    case(GIB, "-r extsize=4k -b size=64k"),
    case(GIB, "-r size=1m"),
    case(GIB, "-r foo=1"),
    case(GIB, "-d extszinherit=32769"),
    case(GIB, "-d cowextsize=32769"),
    case(100 * GIB, "-d extszinherit=2097152"),
    case(GIB, "-d extszinherit=16k"),
    case(GIB, "-d extszinherit"),
    case(GIB, "-d cowextsize=16 -m reflink=0"),
    case(GIB, "-d projinherit=4294967296"),
    case(GIB, "-d daxinherit=2"),
    case(GIB, "-d concurrency=4,agcount=4"),
    case(GIB, "-n version"),
];

/// The number of batches of cases with random options.
pub(crate) const RANDOM_BATCHES: u64 = 4;
const BATCH: usize = 25;

/// Returns random cases. The same batch number gives the same cases.
pub(crate) fn random(batch: u64) -> Vec<Case> {
    let mut random = Random::new(0x6d6b_6673 + batch);
    (0..BATCH).map(|_| random_case(&mut random)).collect()
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    let index = usize::try_from(random.below(from.len() as u64)).unwrap_or(0);
    from.get(index).copied().unwrap_or_default()
}

fn random_case(random: &mut Random) -> Case {
    let size_bytes = match random.below(4) {
        0 => 300 * MIB + random.below(1 << 11) * (MIB / 2),
        1 => GIB + random.below(1 << 21) * 512,
        2 => 16 * MIB + random.below(600) * MIB,
        // mkfs.xfs writes the zeros of the log, which grows with the volume.
        _ => random.below(1 << 17) * 4 * MIB,
    };
    let flag = |random: &mut Random| random.below(2);
    let mut options = vec![
        pick(random, &["", "", "-b size=1k", "-b size=2k", "-b size=16k", "-b size=64k"])
            .to_owned(),
        pick(random, &["", "", "-s size=1k", "-s size=4k"]).to_owned(),
        pick(random, &["", "", "-i size=512", "-i size=1024", "-i size=2048"]).to_owned(),
        pick(random, &["", "", "-n size=64k", "-n size=8k"]).to_owned(),
        pick(
            random,
            &[
                "",
                "",
                "-d agcount=2",
                "-d agcount=7",
                "-d agcount=33",
                "-d agsize=100m",
                "-d agsize=1000000k",
                "-d su=64k,sw=3",
                "-d su=1m,sw=8",
                "-d sunit=8,swidth=8",
                "-d su=192k,sw=5,agcount=5",
            ],
        )
        .to_owned(),
        pick(
            random,
            &["", "", "", "-l su=32k", "-l su=256k", "-l size=70m", "-l size=10m", "-l agnum=0"],
        )
        .to_owned(),
        format!("-i sparse={},nrext64={},exchange={}", flag(random), flag(random), flag(random)),
        format!("-n parent={}", flag(random)),
        pick(
            random,
            &[
                "",
                "",
                "-d extszinherit=32",
                "-d cowextsize=48,projinherit=77",
                "-d daxinherit=1",
                "-d concurrency=9",
                "-r extsize=128k",
            ],
        )
        .to_owned(),
        match flag(random) {
            0 => "-m finobt=0".to_owned(),
            _ => format!("-m inobtcount={}", flag(random)),
        },
        format!("-m rmapbt={},reflink={}", flag(random), flag(random)),
    ];
    if random.below(3) == 0 {
        options.push("--unsupported".to_owned());
    }
    options.retain(|option| !option.is_empty());
    let log_bytes = (random.below(6) == 0).then(|| (32 + random.below(200)) * MIB);
    let options = Cow::Owned(options.join(" "));
    Case { options, size_bytes, log_bytes, realtime_bytes: None }
}
