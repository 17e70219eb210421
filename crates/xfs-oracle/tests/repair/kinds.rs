//! The damages that the trials of the repair make: those with which the checker is tested, and
//! larger ones.

use std::fmt;

use xfs_oracle::Random;

use crate::base::Base;
use crate::contents::Patch;
use crate::damage::{self, ByteDamages, Damage};
use crate::structures::DiskStructure;

/// A damage, and the name of the class by which reports count it.
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) damage: Damage,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.damage.fmt(f)
    }
}

/// A generator of damages. Consecutive damages are of different kinds in turn.
pub(crate) struct Kinds<'a> {
    fields: Vec<Damage>,
    bytes: ByteDamages<'a>,
    random: Random,
}

/// Number of damages at fixed places that every volume has, such as the root inode. They are the
/// first damages of a run.
const KNOWN: u64 = 5;

/// The number of the damage that puts noise into the log. Only a dirty log gets it: a clean log has
/// nothing to lose.
const LOG_NOISE: u64 = 8;

/// The number of the damage that zeroes all superblocks. It follows all others, so that it does not
/// change the random sequence from which they come.
pub(crate) const SUPERBLOCKS: u64 = 100_000;

/// The class of the damage by which the first 8 MiB become random bytes.
pub(crate) const NOISE: &str = "noise-8m";
/// The seed of these bytes.
const NOISE_SEED: u64 = 0x5eed;

impl<'a> Kinds<'a> {
    pub(crate) fn new(base: &'a Base, structures: &'a [DiskStructure], seed: u64) -> Self {
        let bytes = ByteDamages { base, structures, random: Random::new(seed) };
        let random = Random::new(seed.wrapping_add(1));
        Self { fields: damage::fields(structures), bytes, random }
    }

    /// Returns the damage with the number `number`, counted from 0.
    pub(crate) fn next(&mut self, number: u64) -> Case {
        if number < KNOWN {
            return self.known(number);
        }
        if number == SUPERBLOCKS {
            return self.superblocks();
        }
        // Truncation (7) is left out: the missing end comes back by no repair. Half of the others
        // are fields.
        let damage = match number % 10 {
            kind @ (0..=3) => self.bytes.next(kind),
            4 => self.bytes.next(4),
            5 => self.bytes.next(5),
            6 => self.bytes.next(6),
            9 if self.bytes.base.state.has_dirty_log() => self.bytes.next(LOG_NOISE),
            _ => {
                let index = self.random.below(self.fields.len() as u64) as usize;
                self.fields.get(index).expect("an index of a field").clone()
            }
        };
        Case { class: damage.class().to_owned(), damage }
    }

    /// Returns the damage of fixed place number `number`: the place is overwritten with zeros, or
    /// in one case with random bytes.
    fn known(&self, number: u64) -> Case {
        let base = self.bytes.base;
        let superblock = base.superblock().expect("the undamaged superblock decodes");
        let geometry = &superblock.geometry;
        let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
        let (class, offset, length) = match number {
            0 => ("root", self.root_offset(), u64::from(geometry.inode_size)),
            1 => ("first-mib", 0, 1 << 20),
            2 => ("group-headers", group_bytes, 64 << 10),
            3 => ("group-start", 2 * group_bytes, 8 << 20),
            _ => (NOISE, 0, 8 << 20),
        };
        let mut random = Random::new(NOISE_SEED);
        let bytes: Vec<u8> = match class {
            NOISE => (0..length / 8).flat_map(|_| random.next().to_be_bytes()).collect(),
            _ => vec![0; length as usize],
        };
        let patch = Patch { offset, bytes };
        let damage = Damage::Bytes { kind: "zeroed", what: class.to_owned(), patches: vec![patch] };
        Case { class: class.to_owned(), damage }
    }

    /// Returns the damage that zeroes the superblock of each group.
    fn superblocks(&self) -> Case {
        let superblock = self.bytes.base.superblock().expect("the undamaged superblock decodes");
        let geometry = &superblock.geometry;
        let zeros = vec![0; geometry.sector_size as usize];
        let of_group = |group| Patch {
            offset: geometry.header_disk_addr(group, 0).0 * 512,
            bytes: zeros.clone(),
        };
        let patches = geometry.groups().map(of_group).collect();
        let class = "superblocks".to_owned();
        let damage = Damage::Bytes { kind: "zeroed", what: class.clone(), patches };
        Case { class, damage }
    }

    fn root_offset(&self) -> u64 {
        let superblock = self.bytes.base.superblock().expect("the undamaged superblock decodes");
        let location = superblock.geometry.inode_location(superblock.root_inode);
        let location = location.expect("the root inode lies in the volume");
        location.cluster.0 * 512 + u64::from(location.offset_bytes)
    }
}
