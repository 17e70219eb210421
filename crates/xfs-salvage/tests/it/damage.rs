//! Tests on damaged volumes: everything that is left of the files must be delivered, and the
//! reports must be true.

use std::collections::{BTreeMap, BTreeSet};

use xfs_device::MemoryDevice;
use xfs_evidence::Evidence;
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, DiskAddr, FileBlock, FsBlock, IncompatFeatures, InodeNumber, StructureAddress,
    Superblock,
};
use xfs_salvage::{Origin, RescueMap, RescuedDevice, SalvageOptions, Status};
use xfs_testkit::{Image, Prng, golden};

use crate::support::{Delivered, named, salvage};

const BLOCK: usize = 1024;

fn run(image: &Image) -> Delivered {
    salvage(image, SalvageOptions::default())
}

pub(crate) fn superblock(image: &Image) -> Superblock {
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

/// Returns the number of the inode at a path. `delivered` are the files that the salvage of the
/// undamaged image has delivered.
pub(crate) fn number_of(delivered: &Delivered, path: &str) -> InodeNumber {
    delivered.reports[path].inode
}

/// Returns the disk address of an inode.
pub(crate) fn inode_address(image: &Image, number: InodeNumber) -> DiskAddr {
    let place = superblock(image).geometry.inode_location(number).unwrap();
    DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512)
}

/// Zeros one inode.
pub(crate) fn zero_inode(image: &mut Image, number: InodeNumber) {
    image.replace(inode_address(image, number), &[0; 512]);
}

/// Returns the address of a block of a file's data fork.
fn block_of(image: &Image, number: InodeNumber, block: u64) -> DiskAddr {
    let superblock = superblock(image);
    let evidence = Evidence::new(image, &superblock);
    let map = evidence.extents(&evidence.inode(number), ForkKind::Data);
    let extent = map.find(FileBlock(block)).copied().unwrap();
    let start = FsBlock(extent.start.0 + block - extent.file_block.0);
    superblock.geometry.block_disk_addr(start).unwrap()
}

/// Compares the copies of the sound image (`whole`) and of the damaged one (`left`). Every file of
/// `whole` must be in `left` with the same contents, unless its path starts with one of `except`.
pub(crate) fn assert_equal_but(whole: &Delivered, left: &Delivered, except: &[&str]) {
    for (path, copied) in &whole.files {
        if except.iter().any(|gone| path.starts_with(gone)) {
            continue;
        }
        assert_eq!(left.files.get(path), Some(copied), "{path}");
    }
}

#[test]
fn directory_block_that_is_zeroed_gets_its_names_from_parent_pointers() {
    let mut image = golden();
    let whole = run(&image);
    for path in ["many", "leaf", "block"] {
        let at = block_of(&image, number_of(&whole, path), 0);
        image.replace(at, &vec![0; 4 * BLOCK]);
    }
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.reports["many"].status, Status::Doubtful);
    assert_eq!(left.reports["node"].status, Status::Complete);
    assert_eq!(left.totals.orphans, 0);
    assert_eq!(left.totals.lost, 0);
    let by_pointer =
        left.reports.values().filter(|report| report.origin == Origin::ParentPointer).count();
    assert!(by_pointer > 100, "{by_pointer}");
}

/// Changes a name in a short directory, whose inode gets a right checksum. It cannot be decided
/// whether the entry or the parent pointer is wrong, so the file must be delivered under both
/// names.
#[test]
fn name_that_contradicts_the_parent_pointer_is_delivered_under_both() {
    let mut image = golden();
    let whole = run(&image);
    let at = inode_address(&image, number_of(&whole, "files"));
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let start = inode.windows(8).position(|bytes| bytes == b"original").unwrap();
        inode[start + 7] = b'w';
    });
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.files["files/originaw"], whole.files["files/original"]);
    assert_eq!(left.files.len(), whole.files.len() + 1);
    for path in ["files/original", "files/originaw"] {
        let report = &left.reports[path];
        assert_eq!(report.status, Status::Doubtful, "{path}: {:?}", report.reasons);
    }
    assert_eq!(left.reports["files/original"].origin, Origin::ParentPointer);
    assert_eq!(left.totals.doubtful, 2);
}

#[test]
fn root_inode_that_is_zeroed_loses_no_name() {
    let mut image = golden();
    let whole = run(&image);
    let root = superblock(&image).root_inode;
    zero_inode(&mut image, root);
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.totals.orphans, 0);
}

#[test]
fn directory_inode_that_is_zeroed_stays_in_its_place() {
    let mut image = golden();
    let whole = run(&image);
    zero_inode(&mut image, number_of(&whole, "many"));
    zero_inode(&mut image, number_of(&whole, "deep/1/2"));
    let left = run(&image);
    let gone: BTreeSet<_> =
        whole.files.keys().filter(|path| !left.files.contains_key(*path)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert_eq!(left.files["many/2"], whole.files["many/2"]);
    assert_eq!(left.reports["many"].status, Status::Doubtful);
}

#[test]
fn file_whose_inode_is_zeroed_keeps_its_contents() {
    let mut image = golden();
    let whole = run(&image);
    zero_inode(&mut image, number_of(&whole, "files/original"));
    let left = run(&image);
    assert_equal_but(&whole, &left, &["files/original"]);
    // All 40 KiB are contents, so the size is that of whole blocks.
    assert_eq!(left.files["files/original"].hash, whole.files["files/original"].hash);
    assert_eq!(left.files["files/original"].size, 40 << 10);
    assert_eq!(left.reports["files/original"].status, Status::Doubtful);
}

/// Zeros the inode of an empty file. The reverse map has no block of the file, which proves that it
/// was empty, and the sound entry proves that it existed. Checks that it is delivered as an empty
/// file.
#[test]
fn file_without_blocks_whose_inode_is_zeroed_is_delivered_empty() {
    let mut image = golden();
    let whole = run(&image);
    zero_inode(&mut image, number_of(&whole, "files/empty"));
    let left = run(&image);
    assert_equal_but(&whole, &left, &["files/empty"]);
    assert_eq!((left.files["files/empty"].mode, left.files["files/empty"].size), (0o100_600, 0));
    assert_eq!(left.reports["files/empty"].status, Status::Doubtful);
    assert_eq!(left.totals.lost, 0);
}

/// Without a whole reverse map, it is not known whether a file without a known block had contents.
/// Checks that the file counts as partial.
#[test]
fn file_without_a_known_block_is_partial_if_the_reverse_map_is_damaged() {
    let mut image = golden();
    let whole = run(&image);
    zero_inode(&mut image, number_of(&whole, "files/empty"));
    for group in superblock(&image).geometry.groups() {
        // The root of the reverse map is in the header of the group's space.
        image.replace(superblock(&image).geometry.header_disk_addr(group, 1), &[0; 512]);
    }
    let left = run(&image);
    assert_eq!(left.files["files/empty"].size, 0);
    let report = &left.reports["files/empty"];
    assert_eq!(report.status, Status::Partial, "{:?}", report.reasons);
}

/// The inode of the file is gone, and so is its entry. Only the reverse map has blocks of the file.
/// Checks that it is delivered as an orphan, whether the inode btree lists it or not (S3 of the
/// crate).
#[test]
fn file_of_which_only_blocks_are_left_is_an_orphan() {
    let sound = golden();
    let whole = run(&sound);
    let number = number_of(&whole, "files/original");
    for has_btree in [true, false] {
        let mut image = sound.clone();
        for path in ["files", "files/original"] {
            zero_inode(&mut image, number_of(&whole, path));
        }
        for group in superblock(&image).geometry.groups().filter(|_| !has_btree) {
            image.replace(superblock(&image).geometry.header_disk_addr(group, 2), &[0; 512]);
        }
        let left = run(&image);
        let path = format!("orphans/{}", number.0);
        let report = &left.reports[&path];
        assert_eq!(report.status, Status::Doubtful, "{:?}", report.reasons);
        assert_eq!((report.origin, report.inode_source), (Origin::Orphan, None));
        assert_eq!(left.files[&path].hash, whole.files["files/original"].hash);
        assert_eq!(named(&image)[&path], (left.files[&path].mode, left.files[&path].size));
    }
}

/// Zeros the inodes of a symbolic link and a pipe. Checks that both are delivered with their types,
/// and the link with its target.
#[test]
fn link_and_pipe_whose_inodes_are_zeroed_are_delivered() {
    let mut image = golden();
    let whole = run(&image);
    for path in ["links-remote", "fifo"] {
        zero_inode(&mut image, number_of(&whole, path));
    }
    let left = run(&image);
    for path in ["links-remote", "fifo"] {
        let copied = &left.files[path];
        assert_eq!(copied.mode >> 12, whole.files[path].mode >> 12, "{path}");
        assert_eq!(copied.hash, whole.files[path].hash, "{path}");
        let report = &left.reports[path];
        assert_eq!(report.status, Status::Doubtful, "{path}: {:?}", report.reasons);
    }
}

#[test]
fn entry_of_a_free_inode_is_lost() {
    let mut image = golden();
    let whole = run(&image);
    let number = number_of(&whole, "files/empty");
    let geometry = superblock(&image).geometry;
    image.edit(inode_address(&image, number), 512, BlockKind::InodeCluster, |bytes| {
        bytes.fill(0);
        xfs_format::inode::encode_free(number, 1, &geometry, bytes);
    });
    let left = run(&image);
    assert!(!left.files.contains_key("files/empty"));
    assert_eq!(left.reports["files/empty"].status, Status::Lost);
}

#[test]
fn extent_btree_block_that_is_zeroed_loses_no_contents() {
    let mut image = golden();
    let whole = run(&image);
    let superblock = superblock(&image);
    let leaf = {
        let evidence = Evidence::new(&image, &superblock);
        let inode = evidence.inode(number_of(&whole, "files/tree"));
        evidence.extents(&inode, ForkKind::Data).tree_blocks[0]
    };
    let at = superblock.geometry.block_disk_addr(leaf).unwrap();
    image.replace(at, &[0; BLOCK]);
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    let report = &left.reports["files/tree"];
    assert_eq!(report.status, Status::Complete, "{:?}", report.reasons);
    assert!(!report.reasons.is_empty(), "the damage is named");
}

#[test]
fn inode_btree_that_is_zeroed_loses_no_file() {
    let mut image = golden();
    let whole = run(&image);
    let superblock = superblock(&image);
    for group in superblock.geometry.groups() {
        let root = Evidence::new(&image, &superblock).agi(group).unwrap().inode_btree.block;
        let at = superblock.geometry.ag_block_disk_addr(group, root);
        image.replace(at, &[0; BLOCK]);
    }
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.files.len(), whole.files.len());
    assert_eq!(left.notes.len(), 2, "{:?}", left.notes);
}

const NOISE: u64 = 192 << 10;

/// Overwrites the first `NOISE` bytes of an image with seeded random bytes.
fn add_noise(image: &mut Image) {
    let mut random = Prng::new(0x5eed);
    let noise: Vec<u8> = (0..NOISE / 8).flat_map(|_| random.number().to_be_bytes()).collect();
    image.replace(DiskAddr(0), &noise);
}

/// Compares the names of a `NameTree` with those of a walk that copies every file: on a sound
/// image, and on one whose start is noise.
#[test]
fn names_in_memory_are_those_of_a_walk() {
    let mut image = golden();
    for is_damaged in [false, true] {
        if is_damaged {
            add_noise(&mut image);
        }
        let walked = run(&image).files.into_iter();
        let walked: BTreeMap<String, (u16, u64)> =
            walked.map(|(path, copied)| (path, (copied.mode, copied.size))).collect();
        assert!(walked.len() > 500);
        assert_eq!(named(&image), walked);
    }
}

#[test]
fn noise_at_the_start_leaves_every_file_whose_inode_survives() {
    let mut image = golden();
    let whole = run(&image);
    let geometry = superblock(&image).geometry;
    add_noise(&mut image);
    let is_lost = |number: InodeNumber| {
        geometry.inode_location(number).unwrap().cluster.byte_offset().unwrap() < NOISE
    };
    let left = run(&image);
    let found: BTreeSet<InodeNumber> = left.reports.values().map(|report| report.inode).collect();
    let mut kept = 0;
    for (path, report) in &whole.reports {
        if is_lost(report.inode) {
            continue;
        }
        kept += 1;
        assert!(found.contains(&report.inode), "{path}");
        // The name of the last directory of the path is the last part that can be gone.
        let name = path.rsplit('/').next().unwrap();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = number_of(&whole, parent);
        let is_placed = left.reports.iter().any(|(other, found)| {
            let place = other.rsplit_once('/').map_or("", |(parent, _)| parent);
            found.inode == report.inode
                && other.rsplit('/').next() == Some(name)
                && left.reports.get(place).is_some_and(|found| found.inode == parent)
        });
        assert!(is_placed, "{path}");
    }
    assert!(kept > 500, "{kept} files have their inodes after the noise");
}

#[test]
fn volume_without_any_superblock_loses_nothing() {
    let mut image = golden();
    let whole = run(&image);
    let geometry = superblock(&image).geometry;
    for group in geometry.groups() {
        image.replace(geometry.header_disk_addr(group, 0), &[0; 512]);
    }
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
}

/// Checks S2 of the crate: ranges that ddrescue has not copied become holes, and the reports list
/// them.
#[test]
fn ranges_that_were_not_copied_are_holes_with_a_name() {
    let image = golden();
    let whole = run(&image);
    let at = block_of(&image, number_of(&whole, "files/original"), 10).byte_offset().unwrap();
    let text = format!("0 + 1\n0 {at} +\n{at} 2048 -\n{} {} +\n", at + 2048, 64 << 20);
    let map = RescueMap::parse(&text).unwrap();
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let device =
        RescuedDevice::new(std::sync::Arc::new(MemoryDevice::from_bytes(&bytes).unwrap()), map, 0);
    let left = salvage(&*device, SalvageOptions::default());
    for path in ["files/original", "files/shared"] {
        let report = &left.reports[path];
        assert_eq!(report.status, Status::Partial);
        let missing: Vec<_> = report.missing.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(missing, [(10 << 10, 12 << 10)], "{path}");
    }
    assert_equal_but(&whole, &left, &["files/original", "files/shared"]);
    assert_eq!(left.totals.partial, 2);
}

#[test]
fn block_of_two_files_makes_both_doubtful() {
    let mut image = golden();
    let whole = run(&image);
    let from = number_of(&whole, "files/sparse");
    let to = number_of(&whole, "short/bb");
    let superblock = superblock(&image);
    let record = {
        let evidence = Evidence::new(&image, &superblock);
        let map = evidence.extents(&evidence.inode(to), ForkKind::Data);
        let first = evidence.extents(&evidence.inode(from), ForkKind::Data).extents[0];
        let mut extent = map.extents[0];
        extent.file_block = first.file_block;
        extent.encode().unwrap()
    };
    let place = superblock.geometry.inode_location(from).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    let bytes = [record.high.get().to_be_bytes(), record.low.get().to_be_bytes()].concat();
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        inode[176..192].copy_from_slice(&bytes);
    });
    let left = run(&image);
    assert_eq!(left.reports["files/sparse"].status, Status::Doubtful);
    assert_eq!(left.reports["short/bb"].status, Status::Doubtful);
    assert_eq!(left.totals.doubtful, 2 + names_of(&whole, to) - 1);
}

/// Returns the number of names that an inode has.
fn names_of(delivered: &Delivered, number: InodeNumber) -> u64 {
    delivered.reports.values().filter(|report| report.inode == number).count() as u64
}

/// Changes the inode number of an entry of a short directory, whose inode gets a right checksum.
fn redirect(image: &mut Image, directory: InodeNumber, name: &[u8], child: InodeNumber) {
    let number = u32::try_from(child.0).unwrap().to_be_bytes();
    image.edit(inode_address(image, directory), 512, BlockKind::InodeCluster, |inode| {
        // The entries start behind the core and the header. An entry has the length of its name,
        // an offset of two bytes, the name, the type and the inode number.
        let mut at = 176 + 6;
        while inode[at + 3..].iter().zip(name).any(|(found, wanted)| found != wanted) {
            at += usize::from(inode[at]) + 8;
        }
        inode[at + 3 + name.len() + 1..][..4].copy_from_slice(&number);
    });
}

/// Lets an entry lead to a wrong inode: of a file, of a directory whose own entry comes later, and
/// of a directory above. Parent pointers show which inodes the entries belong to, so that every
/// file must be delivered in its place.
#[test]
fn entry_that_leads_to_a_wrong_inode_is_corrected_by_parent_pointers() {
    let golden = golden();
    let whole = run(&golden);
    let redirected = [
        ("files", "original", "files/empty"),
        ("deep/1", "2", "many"),
        ("deep/1/2/3/4/5/6/7", "8", "deep/1"),
    ];
    for (directory, name, wrong) in redirected {
        let mut image = golden.clone();
        redirect(
            &mut image,
            number_of(&whole, directory),
            name.as_bytes(),
            number_of(&whole, wrong),
        );
        let left = run(&image);
        assert_equal_but(&whole, &left, &[]);
        assert_eq!(left.files.len(), whole.files.len());
        assert_eq!((left.totals.lost, left.totals.orphans), (0, 0), "{name}");
        assert_eq!(left.reports[directory].status, Status::Doubtful);
        let path = format!("{directory}/{name}");
        assert_eq!(left.reports[&path].origin, Origin::ParentPointer);
    }
}

/// Lets an entry lead to a directory whose own entry comes later, on a volume without parent
/// pointers. The directory must be delivered under its own entry, because its `..` names that
/// directory.
#[test]
fn directory_with_two_entries_is_delivered_in_the_directory_that_it_names() {
    let mut image = golden();
    let geometry = image.geometry();
    for group in geometry.groups() {
        let at = geometry.header_disk_addr(group, 0);
        image.edit(at, 512, BlockKind::Superblock, |sector| {
            let features: [u8; 4] = sector[216..220].try_into().unwrap();
            let features = u32::from_be_bytes(features) & !IncompatFeatures::PARENT.bits();
            sector[216..220].copy_from_slice(&features.to_be_bytes());
        });
    }
    assert!(!image.geometry().has_incompat(IncompatFeatures::PARENT));
    let whole = run(&image);
    redirect(&mut image, number_of(&whole, "deep/1"), b"2", number_of(&whole, "many"));
    let left = run(&image);
    assert_equal_but(&whole, &left, &["deep/1/2"]);
    assert_eq!(left.reports["deep/1/2"].status, Status::Lost);
    let second = format!("orphans/{}/3", number_of(&whole, "deep/1/2").0);
    assert_eq!(left.reports[&second].status, Status::Complete);
}

/// Damages one field of the block with the target of a symbolic link, with a right checksum and
/// without. The rest of the header shows that the block belongs to the link, so that the target
/// must be delivered, as doubtful.
#[test]
fn target_in_a_block_with_one_wrong_field_is_delivered() {
    let golden = golden();
    let whole = run(&golden);
    let at = block_of(&golden, number_of(&whole, "links-remote"), 0);
    // Magic number, length of the target, UUID, owner, address.
    for field in [0, 8, 20, 39, 47] {
        let mut sealed = golden.clone();
        sealed.edit(at, BLOCK, BlockKind::Symlink, |block| block[field] ^= 1);
        let mut torn = golden.clone();
        let mut bytes = golden.bytes(at, BLOCK).unwrap();
        bytes[field] ^= 1;
        torn.replace(at, &bytes);
        for image in [sealed, torn] {
            let left = run(&image);
            assert_equal_but(&whole, &left, &[]);
            let report = &left.reports["links-remote"];
            assert_eq!(report.status, Status::Doubtful, "{field}: {:?}", report.reasons);
        }
    }
}

/// Gives inodes a number of extents that is too small. The inode then seems whole, with fewer
/// blocks than it counts. The reverse map has the rest.
#[test]
fn extents_that_the_inode_no_longer_counts_come_from_the_reverse_map() {
    let golden = golden();
    let whole = run(&golden);
    for path in ["links-remote", "files/original", "files/unwritten", "many"] {
        let number = number_of(&whole, path);
        let mut image = golden.clone();
        image.edit(inode_address(&image, number), 512, BlockKind::InodeCluster, |inode| {
            let count: [u8; 8] = inode[24..32].try_into().unwrap();
            let count = u64::from_be_bytes(count).checked_sub(1).unwrap();
            inode[24..32].copy_from_slice(&count.to_be_bytes());
        });
        let left = run(&image);
        assert_equal_but(&whole, &left, &[]);
        assert_eq!(left.totals.partial, 0, "{path}: {:?}", left.reports[path].reasons);
    }
}

#[test]
fn directory_that_is_inside_itself_ends() {
    let mut image = golden();
    let whole = run(&image);
    // The only entry of the innermost directory but one leads back to the outermost, which no other
    // entry names.
    let inner = number_of(&whole, "deep/1/2/3/4/5/6/7");
    let outer = number_of(&whole, "deep/1");
    redirect(&mut image, inner, b"8", outer);
    zero_inode(&mut image, number_of(&whole, "deep"));
    zero_inode(&mut image, number_of(&whole, "deep/1/2/3/4/5/6/7/8"));
    let left = run(&image);
    assert_eq!(left.reports["deep/1/2/3/4/5/6/7/8"].status, Status::Lost);
}
