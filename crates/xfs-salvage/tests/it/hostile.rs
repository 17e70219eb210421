//! Volumes that were changed on purpose, with right checksums: a salvage of them must end and must
//! not panic.

use std::sync::LazyLock;

use xfs_evidence::{Evidence, FoundBlock, Sighting, find_superblock, sweep};
use xfs_format::{BlockKind, DiskAddr};
use xfs_salvage::SalvageOptions;
use xfs_testkit::{Image, Prng, golden};

use crate::support::{named, salvage};

/// Number of seeds. Each seed changes the golden image in a different way.
const SEEDS: u64 = 24;

/// The structures of the golden image that tests change: those that a sweep (a search of all
/// blocks) recognizes by their headers, and the headers of the groups.
static STRUCTURES: LazyLock<Vec<(DiskAddr, usize, BlockKind)>> = LazyLock::new(|| {
    let image = golden();
    let superblock = find_superblock(&image).unwrap().unwrap().superblock;
    let evidence = Evidence::new(&image, &superblock);
    let mut all = Vec::new();
    sweep(&evidence, 0..2, &(), &mut |sighting: &Sighting, _| {
        all.extend(kind_of(sighting.what).map(|(length, kind)| (sighting.at, length, kind)));
    });
    for group in superblock.geometry.groups() {
        for (index, kind) in [(1, BlockKind::Agf), (2, BlockKind::Agi), (3, BlockKind::Agfl)] {
            all.push((superblock.geometry.header_disk_addr(group, index), 512, kind));
        }
    }
    all
});

/// Returns the length and the kind of a structure, or `None` for a free inode, which tests leave
/// alone.
const fn kind_of(what: FoundBlock) -> Option<(usize, BlockKind)> {
    Some(match what {
        FoundBlock::Btree { kind, .. } => (1024, BlockKind::Btree(kind)),
        FoundBlock::Inode { is_free: false } => (512, BlockKind::InodeCluster),
        FoundBlock::Inode { is_free: true } => return None,
        FoundBlock::DirectoryData => (4096, BlockKind::DirectoryData),
        FoundBlock::DirectoryLeaf => (4096, BlockKind::DirectoryIndex),
        FoundBlock::DirectoryFree => (4096, BlockKind::DirectoryFree),
        FoundBlock::Node | FoundBlock::AttributeLeaf => (1024, BlockKind::Attr),
        FoundBlock::AttributeValue => (1024, BlockKind::AttrRemote),
        FoundBlock::Symlink => (1024, BlockKind::Symlink),
    })
}

/// Makes random changes to 1 to 39 structures of the golden image, and computes their checksums
/// again.
fn changed(seed: u64) -> Image {
    let mut image = golden();
    let mut random = Prng::new(seed);
    for _ in 0..random.within(1..40) {
        let (at, length, kind) = *random.choose(&STRUCTURES).unwrap();
        let mut edit = random.clone();
        image.edit(at, length, kind, |bytes| edit.mutate(bytes));
        random.number();
    }
    image
}

#[test]
fn changed_structures_never_stop_the_reading_of_names() {
    for seed in 0..SEEDS / 4 {
        assert!(named(&changed(seed)).len() > 1000, "seed {seed}");
    }
}

#[test]
fn changed_structures_never_stop_a_salvage() {
    for seed in 0..SEEDS {
        let delivered =
            salvage(&changed(seed), SalvageOptions { deleted: true, ..SalvageOptions::default() });
        let totals = delivered.totals;
        let all = totals.complete + totals.doubtful + totals.partial;
        assert!(all > 1000, "seed {seed}: {totals:?}");
    }
}
