//! Readers of volumes: which kernel, distribution or boot loader reads a volume with which
//! features.
//!
//! Owns: the names of readers, the verdict on a volume, and the features of a volume for given
//! readers. Does **not** own: the table of features with its sources (`features`), or the other
//! options of a volume.
//!
//! A kernel mounts a volume read-write if it knows all of its features. It mounts the volume
//! read-only if it does not know some of the read-only compatible features. It refuses the volume
//! otherwise. GRUB only reads. It ignores read-only compatible features and refuses incompatible
//! features that it does not know.
//!
//! # Invariants
//!
//! - **I1** A volume made with [`Options::restrict_to`] has full access by each of the readers:
//!   kernels mount it read-write, and GRUB reads it. A test checks all listed readers.

mod features;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use xfs_format::features::FormatVersion;
use xfs_format::{IncompatFeatures, RoCompatFeatures, Superblock};

use crate::options::{Autofsck, FeatureOptions, Options};
use features::{FEATURES, Feature, FeatureBit, LISTED};

/// A version of the Linux kernel or of GRUB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReaderVersion {
    /// The number before the dot.
    pub major: u16,
    /// The number after the dot.
    pub minor: u16,
}

/// A program that reads volumes: a kernel, the kernel of a distribution, or a boot loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    name: String,
    software: Software,
}

/// The software that decides which features a reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Software {
    /// A kernel with the features of this version. The kernel of a distribution counts as the
    /// version that has the same features.
    Kernel {
        version: ReaderVersion,
        /// Whether the kernel is built with CONFIG_XFS_RT.
        has_realtime: bool,
    },
    /// GRUB of this version.
    Grub(ReaderVersion),
}

/// The verdict on a volume for one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The possible access.
    pub access: Access,
    /// The features of the volume that the reader does not know, in the order of the table.
    pub missing: Vec<MissingFeature>,
}

/// The access that a reader has to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The reader refuses the volume.
    None,
    /// The reader reads the volume. GRUB never has more access.
    ReadOnly,
    /// The kernel mounts the volume read-write.
    ReadWrite,
}

/// A feature of a volume that a reader does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFeature {
    /// The name of the feature, as in mkfs.xfs(8) where it has an option.
    pub name: String,
    /// The first version of the same software that knows the feature. `None` if there is none.
    pub since: Option<ReaderVersion>,
}

/// The first kernels that have access to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstKernels {
    /// The first kernel that reads the volume. `None` if no kernel does.
    pub read_only: Option<ReaderVersion>,
    /// The first kernel that mounts the volume read-write. `None` if no kernel does.
    pub read_write: Option<ReaderVersion>,
}

/// The error of a reader that is not known, or of options that a reader forbids.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum ReaderError {
    #[error("{name}: there is no such reader; known are linux-VERSION and {}", listed_names())]
    Unknown { name: String },
    #[error("{name}: kernels before {first} are not in the table of features")]
    TooOld { name: String, first: ReaderVersion },
    #[error("{reader} cannot mount a volume with {feature}, which needs {needs}")]
    Forbidden { reader: String, feature: String, needs: String },
}

/// The first kernel for which the table of features is complete.
const FIRST_KERNEL: ReaderVersion = ReaderVersion::new(4, 19);
/// The first kernel for which [`Options::restrict_to`] sets no limit for background checkers. For
/// older kernels it forbids them everything.
const AUTOFSCK_KERNEL: ReaderVersion = ReaderVersion::new(6, 18);

impl ReaderVersion {
    const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl Reader {
    /// Returns the readers that reports list: kernels with long support, distributions, and GRUB.
    #[must_use]
    pub fn listed() -> Vec<Self> {
        let reader = |(name, software): &(&str, Software)| Self {
            name: (*name).to_owned(),
            software: *software,
        };
        LISTED.iter().map(reader).collect()
    }

    /// Returns the name of the reader, such as `linux-6.1`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reader's verdict on the volume with this superblock.
    #[must_use]
    pub fn verdict(&self, superblock: &Superblock) -> Verdict {
        let mut access = match self.software {
            Software::Kernel { .. } => Access::ReadWrite,
            Software::Grub(_) => Access::ReadOnly,
        };
        let mut missing = Vec::new();
        for feature in present(superblock) {
            let Some(limit) = self.limit(&feature) else { continue };
            access = access.min(limit);
            missing.push(MissingFeature { since: self.first(&feature), name: feature.name() });
        }
        Verdict { access, missing }
    }

    /// Returns the most access that the reader has to a volume with this feature. Returns `None` if
    /// the feature does not limit the access, because the reader knows the feature or need not know
    /// it.
    fn limit(&self, feature: &Present) -> Option<Access> {
        let is_known = match self.software {
            Software::Kernel { version, .. } => {
                let ends = feature.known().and_then(|known| known.kernel_end);
                self.first(feature).is_some_and(|first| first <= version)
                    && ends.is_none_or(|end| version < end)
            }
            Software::Grub(version) => self.first(feature).is_some_and(|first| first <= version),
        };
        let is_read_only = feature.is_ro_compat();
        match (is_known, self.software) {
            (true, _) => None,
            (false, Software::Grub(_)) if is_read_only => None,
            (false, _) if is_read_only => Some(Access::ReadOnly),
            (false, _) => Some(Access::None),
        }
    }

    /// Returns the first version of the reader's software that knows the feature. `None` if no
    /// version does, or if the software is built without the feature.
    fn first(&self, feature: &Present) -> Option<ReaderVersion> {
        let known = feature.known()?;
        match self.software {
            Software::Kernel { has_realtime: false, .. } if known.bit == FeatureBit::Realtime => {
                None
            }
            Software::Kernel { .. } => known.kernel,
            Software::Grub(_) => known.grub,
        }
    }

    /// Returns whether new volumes for this reader have the feature: the reader knows the feature,
    /// and, for a kernel, the mkfs.xfs of its time turned the feature on by default.
    fn wants(&self, feature: &Feature) -> bool {
        let Some(default) = feature.default else { return false };
        match self.software {
            Software::Kernel { version, .. } => default <= version,
            Software::Grub(version) => {
                matches!(feature.bit, FeatureBit::RoCompat(_))
                    || feature.grub.is_some_and(|first| first <= version)
            }
        }
    }
}

impl FromStr for Reader {
    type Err = ReaderError;

    /// Parses a name: one that [`Reader::listed`] has, or `linux-VERSION` with any version of the
    /// kernel from 4.19 on.
    fn from_str(name: &str) -> Result<Self, ReaderError> {
        if let Some(listed) = Self::listed().into_iter().find(|reader| reader.name == name) {
            return Ok(listed);
        }
        let unknown = || ReaderError::Unknown { name: name.to_owned() };
        let version = name.strip_prefix("linux-").and_then(|text| text.split_once('.'));
        let (major, minor) = version.ok_or_else(unknown)?;
        let number = |text: &str| {
            // `parse` would accept a sign.
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten().ok_or_else(unknown)
        };
        let version = ReaderVersion::new(number(major)?, number(minor)?);
        if version < FIRST_KERNEL {
            return Err(ReaderError::TooOld { name: name.to_owned(), first: FIRST_KERNEL });
        }
        let software = Software::Kernel { version, has_realtime: true };
        Ok(Self { name: name.to_owned(), software })
    }
}

impl FirstKernels {
    /// Returns the first kernels that have access to the volume with this superblock.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let first = |includes_ro_compat: bool| {
            let needed = |feature: &Present| includes_ro_compat || !feature.is_ro_compat();
            let needed: Vec<_> = present(superblock).into_iter().filter(needed).collect();
            let oldest = match superblock.geometry.version {
                FormatVersion::V4 => features::FIRST_VERSION_4,
                FormatVersion::V5 => features::FIRST_VERSION_5,
            };
            needed.iter().try_fold(oldest, |first, feature| {
                feature.known()?.kernel.map(|kernel| first.max(kernel))
            })
        };
        Self { read_only: first(false), read_write: first(true) }
    }
}

impl Options {
    /// Turns off features that were not requested, so that all `readers` have full access to the
    /// volume. The remaining features are those that mkfs.xfs turned on by default when the oldest
    /// of the kernels was released. Changes nothing if `readers` is empty.
    ///
    /// # Errors
    ///
    /// [`ReaderError::Forbidden`] if the options request a feature that a reader does not know.
    pub fn restrict_to(&mut self, readers: &[Reader]) -> Result<(), ReaderError> {
        if readers.is_empty() {
            return Ok(());
        }
        for feature in &FEATURES {
            let present = Present::Known(feature);
            let is_asked = match feature.option {
                Some(option) => *option(&mut self.features) == Some(true),
                None => match feature.bit {
                    FeatureBit::LargeBlocks => self.has_large_blocks(),
                    FeatureBit::Realtime => self.realtime.has_section(),
                    FeatureBit::RealtimeBtrees => self.has_realtime_btrees(),
                    FeatureBit::Incompat(bit) if bit == IncompatFeatures::ZONED => {
                        self.realtime.zoned
                    }
                    _ => false,
                },
            };
            let refusing = readers.iter().find(|reader| reader.limit(&present).is_some());
            if let Some(reader) = refusing.filter(|_| is_asked) {
                return Err(reader.forbidden(&present));
            }
            // A feature that stays is left to the defaults: other options may turn it off.
            let stays = readers.iter().all(|reader| match feature.default {
                Some(_) => reader.wants(feature),
                None => reader.limit(&present).is_none(),
            });
            if let Some(option) = feature.option.filter(|_| !stays) {
                option(&mut self.features).get_or_insert(false);
            }
        }
        // Older programs do not know the attribute. "none" keeps newer checkers from changing a
        // volume that is meant for older kernels.
        let is_old = |reader: &Reader| match reader.software {
            Software::Kernel { version, .. } => version < AUTOFSCK_KERNEL,
            Software::Grub(_) => false,
        };
        if readers.iter().any(is_old) {
            self.features.autofsck.get_or_insert(Autofsck::None);
        }
        Ok(())
    }

    fn has_realtime_btrees(&self) -> bool {
        let has_groups = self.realtime.device.is_some() && self.features.metadir == Some(true);
        if self.realtime.zoned {
            return true;
        }
        let is_off = |feature: Option<bool>| feature == Some(false);
        has_groups && !(is_off(self.features.rmapbt) && is_off(self.features.reflink))
    }

    fn has_large_blocks(&self) -> bool {
        self.block_size.is_some_and(|size| size.number > u64::from(features::PAGE_BYTES))
    }
}

impl Reader {
    fn forbidden(&self, feature: &Present) -> ReaderError {
        let needs = match (self.first(feature), self.software) {
            (Some(version), Software::Kernel { .. }) => format!("Linux {version}"),
            (Some(version), Software::Grub(_)) => format!("GRUB {version}"),
            (None, Software::Kernel { has_realtime: false, .. })
                if feature.known().is_some_and(|known| known.bit == FeatureBit::Realtime) =>
            {
                "a kernel that is built with CONFIG_XFS_RT".to_owned()
            }
            (None, _) => "a newer reader".to_owned(),
        };
        ReaderError::Forbidden { reader: self.name.clone(), feature: feature.name(), needs }
    }
}

/// A feature that a volume has.
enum Present {
    Known(&'static Feature),
    /// Incompatible bits that are not in the table.
    UnknownIncompat(u32),
    /// Read-only compatible bits that are not in the table.
    UnknownRoCompat(u32),
}

impl Present {
    fn known(&self) -> Option<&'static Feature> {
        match self {
            Self::Known(feature) => Some(feature),
            Self::UnknownIncompat(_) | Self::UnknownRoCompat(_) => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Known(feature) => feature.name.to_owned(),
            Self::UnknownIncompat(bits) => format!("incompatible bits {bits:#x}"),
            Self::UnknownRoCompat(bits) => format!("read-only compatible bits {bits:#x}"),
        }
    }

    fn is_ro_compat(&self) -> bool {
        match self {
            Self::Known(feature) => matches!(feature.bit, FeatureBit::RoCompat(_)),
            Self::UnknownRoCompat(_) => true,
            Self::UnknownIncompat(_) => false,
        }
    }
}

/// Returns the features that the volume with this superblock has.
fn present(superblock: &Superblock) -> Vec<Present> {
    let mut incompat = superblock.incompat;
    let mut ro_compat = superblock.ro_compat;
    let mut found = Vec::new();
    for feature in &FEATURES {
        let is_there = match feature.bit {
            FeatureBit::Incompat(bit) => {
                incompat.remove(bit);
                superblock.has_incompat(bit)
            }
            FeatureBit::RoCompat(bit) => {
                ro_compat.remove(bit);
                superblock.has_ro_compat(bit)
            }
            FeatureBit::Version4 => superblock.geometry.version == FormatVersion::V4,
            FeatureBit::AsciiCi => {
                superblock.version_flags.contains(xfs_format::features::VersionFlags::BORG)
            }
            FeatureBit::LargeBlocks => superblock.geometry.block_size > features::PAGE_BYTES,
            FeatureBit::Realtime => superblock.realtime_blocks != 0,
            FeatureBit::RealtimeBtrees => has_realtime_btrees(superblock),
        };
        if is_there {
            found.push(Present::Known(feature));
        }
    }
    if incompat != IncompatFeatures::empty() {
        found.push(Present::UnknownIncompat(incompat.bits()));
    }
    if ro_compat != RoCompatFeatures::empty() {
        found.push(Present::UnknownRoCompat(ro_compat.bits()));
    }
    found
}

/// Returns whether the realtime section has a reverse map or reference counts.
fn has_realtime_btrees(superblock: &Superblock) -> bool {
    let btrees = RoCompatFeatures::RMAPBT | RoCompatFeatures::REFLINK;
    superblock.realtime_group_count != 0 && superblock.ro_compat.intersects(btrees)
}

fn listed_names() -> String {
    let names: Vec<_> = LISTED.iter().map(|(name, _)| *name).collect();
    let others = names.iter().filter(|name| !name.starts_with("linux-"));
    others.copied().collect::<Vec<_>>().join(", ")
}

impl fmt::Display for ReaderVersion {
    /// Writes a version as its software does: `5.4`, and `2.06` for GRUB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_grub = self.major == features::GRUB_MAJOR;
        let width = if is_grub { 2 } else { 1 };
        write!(f, "{}.{:0width$}", self.major, self.minor)
    }
}

/// The option of a feature that a new volume may have.
type FeatureOption = fn(&mut FeatureOptions) -> &mut Option<bool>;

#[cfg(test)]
mod tests;
