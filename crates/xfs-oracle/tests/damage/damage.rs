//! The kinds of damage, and how each one is made on a copy of a volume.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xfs_oracle::harness::TrialError;
use xfs_oracle::{Random, Xfsprogs};

use crate::base::Base;
use crate::contents::Patch;
use crate::structures::DiskStructure;
use crate::text;

/// The ways in which the command `fuzz` of xfs_db can change a field.
const VERBS: [&str; 8] =
    ["zeroes", "ones", "firstbit", "middlebit", "lastbit", "add", "sub", "random"];

/// The most places of a damage that its description has.
const MOST_SHOWN: usize = 4;

/// A damage that can be made on an image.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    /// The command `fuzz -d` of xfs_db changes a field, and makes the checksum right again.
    Field { structure: String, commands: Vec<String>, field: String, verb: &'static str },
    /// Bytes are overwritten, in most cases in one place.
    Bytes { kind: &'static str, what: String, patches: Vec<Patch> },
    /// The image is cut off after `length` bytes, as if the end of the device were missing.
    Truncation { length: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { structure, field, verb, .. } => write!(f, "{structure}: {field}: {verb}"),
            Self::Bytes { kind, what, patches } => {
                write!(f, "{kind}: {what}:")?;
                let mut shown = patches.iter().take(MOST_SHOWN);
                shown.try_for_each(|patch| {
                    write!(f, " {} bytes from {}", patch.bytes.len(), patch.offset)
                })
            }
            Self::Truncation { length } => write!(f, "truncation: {length} bytes are left"),
        }
    }
}

impl Damage {
    /// Returns the name of the class by which reports count the damage.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Field { .. } => "field",
            Self::Bytes { kind, .. } => kind,
            Self::Truncation { .. } => "truncation",
        }
    }

    /// Makes this damage on an image that has the contents of `base`. Returns the changed bytes
    /// with their offsets. The result is empty for a truncation.
    pub(crate) fn apply(&self, base: &Base, path: &Path) -> Result<Vec<Patch>, TrialError> {
        let file = File::options().read(true).write(true).open(path).map_err(text)?;
        match self {
            Self::Field { commands, field, verb, .. } => {
                let mut db = Xfsprogs::newer()?.command("xfs_db");
                db.arg("-x");
                for command in commands {
                    db.args(["-c", command]);
                }
                db.args(["-c", &format!("fuzz -d {field} {verb}")]).arg(path);
                db.output().map_err(text)?;
                base.contents.changes(&file)
            }
            Self::Bytes { patches, .. } => {
                for patch in patches {
                    file.write_all_at(&patch.bytes, patch.offset).map_err(text)?;
                }
                Ok(patches.clone())
            }
            Self::Truncation { length } => {
                file.set_len(*length).map_err(text)?;
                Ok(Vec::new())
            }
        }
    }

    /// Undoes the damage: gives the image the contents of `base` again. `patches` is the result of
    /// `apply`.
    pub(crate) fn undo(
        &self,
        base: &Base,
        path: &Path,
        patches: &[Patch],
    ) -> Result<(), TrialError> {
        let file = File::options().read(true).write(true).open(path).map_err(text)?;
        match self {
            Self::Truncation { length } => base.contents.restore_end(&file, *length),
            _ => base.contents.restore(&file, patches),
        }
    }
}

/// Returns one damage for each field of these structures and each of the `VERBS`.
pub(crate) fn fields(structures: &[DiskStructure]) -> Vec<Damage> {
    let mut all = Vec::new();
    for structure in structures {
        for field in &structure.fields {
            all.extend(VERBS.map(|verb| Damage::Field {
                structure: structure.name.clone(),
                commands: structure.commands.clone(),
                field: field.clone(),
                verb,
            }));
        }
    }
    all
}

/// Makes damages that overwrite bytes, at places that a random number generator selects.
pub(crate) struct ByteDamages<'a> {
    pub(crate) base: &'a Base,
    pub(crate) structures: &'a [DiskStructure],
    pub(crate) random: Random,
}

impl ByteDamages<'_> {
    /// Returns the damage with this number. Consecutive numbers give different kinds of damage in
    /// turn.
    pub(crate) fn next(&mut self, number: u64) -> Damage {
        match number % 9 {
            0 => self.in_structure("bytes", |random, bytes| {
                let count = 1 + random.below(8);
                (0..count).for_each(|_| {
                    let at = random.below(bytes.len() as u64) as usize;
                    let byte = bytes.get_mut(at).expect("a byte of the structure");
                    *byte ^= 1 + random.below(255) as u8;
                });
            }),
            1 => self.in_structure("bit", |random, bytes| {
                let at = random.below(bytes.len() as u64) as usize;
                *bytes.get_mut(at).expect("a byte of the structure") ^= 1 << random.below(8);
            }),
            2 => self.in_structure("zeroed", |_, bytes| bytes.fill(0)),
            3 => self.in_structure("noise", |random, bytes| {
                bytes.copy_from_slice(&random.bytes(bytes.len()));
            }),
            4 => self.stale(),
            5 => self.misdirected(),
            6 => self.burst(),
            7 => {
                let blocks = self.base.contents.length() / 1024;
                Damage::Truncation { length: (1 + self.random.below(blocks - 1)) * 1024 }
            }
            _ => self.log_noise(),
        }
    }

    fn structure(&mut self) -> DiskStructure {
        let index = self.random.below(self.structures.len() as u64) as usize;
        self.structures.get(index).expect("an index of a structure").clone()
    }

    fn in_structure(
        &mut self,
        kind: &'static str,
        change: impl Fn(&mut Random, &mut [u8]),
    ) -> Damage {
        let structure = self.structure();
        let mut bytes = self.base.contents.bytes(structure.offset, structure.length);
        change(&mut self.random, &mut bytes);
        let patch = Patch { offset: structure.offset, bytes };
        Damage::Bytes { kind, what: structure.name, patches: vec![patch] }
    }

    /// Returns a damage like that of a lost write: a structure gets the contents that it had after
    /// the first step of filling the volume.
    fn stale(&mut self) -> Damage {
        let earlier =
            |structure: &DiskStructure| self.base.earlier.bytes(structure.offset, structure.length);
        let now = |structure: &DiskStructure| {
            self.base.contents.bytes(structure.offset, structure.length)
        };
        let changed: Vec<_> = self
            .structures
            .iter()
            .filter(|structure| earlier(structure) != now(structure))
            .collect();
        let index = self.random.below(changed.len() as u64) as usize;
        let structure = *changed.get(index).expect("the second step changes structures");
        let patch = Patch { offset: structure.offset, bytes: earlier(structure) };
        Damage::Bytes { kind: "stale", what: structure.name.clone(), patches: vec![patch] }
    }

    /// Returns a damage like that of a misdirected write: the bytes of one structure overwrite
    /// another structure.
    fn misdirected(&mut self) -> Damage {
        let (from, to) = (self.structure(), self.structure());
        let length = from.length.min(to.length);
        let bytes = self.base.contents.bytes(from.offset, length);
        let what = format!("{} over {}", from.name, to.name);
        Damage::Bytes {
            kind: "misdirected",
            what,
            patches: vec![Patch { offset: to.offset, bytes }],
        }
    }

    fn burst(&mut self) -> Damage {
        let length = (16_u64 << 10) << self.random.below(10);
        let end = self.base.contents.length() - length;
        let offset = match self.random.below(2) {
            0 => self.structure().offset.saturating_sub(self.random.below(length)).min(end),
            _ => self.random.below(end),
        } & !511;
        let bytes = self.random.bytes(length as usize);
        Damage::Bytes { kind: "burst", what: String::new(), patches: vec![Patch { offset, bytes }] }
    }

    fn log_noise(&mut self) -> Damage {
        let (start, length) = self.base.log;
        let bytes = 512 << self.random.below(8);
        let offset = start + self.random.below((length - bytes) / 512) * 512;
        let bytes = self.random.bytes(bytes as usize);
        Damage::Bytes { kind: "log", what: String::new(), patches: vec![Patch { offset, bytes }] }
    }
}
