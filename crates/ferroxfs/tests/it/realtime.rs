//! Tests of volumes with a realtime section: reading, the missing device, the wrong device, and
//! damaged maps.

use std::sync::Arc;

use ferroxfs::contents::ForkKind;
use ferroxfs::{Error, Node, OpenError, OpenOptions, PosixError, Volume};
use xfs_device::SharedDevice;
use xfs_format::superblock::{SuperblockCheck, Unsupported};
use xfs_format::{BlockKind, Check, DiskAddr, InodeNumber, Structure};
use xfs_testkit::{Image, RealtimeSection};

const KIB: usize = 1 << 10;

fn open_images(data: Image, device: Option<Image>) -> Result<Volume, OpenError> {
    let devices = OpenOptions::new().with_devices(Arc::new(data), None);
    match device {
        Some(device) => devices.with_realtime(Arc::new(device) as SharedDevice).open(),
        None => devices.open(),
    }
}

fn open(section: RealtimeSection) -> Volume {
    open_images(section.data(), section.device()).unwrap()
}

fn read(volume: &Volume, path: &str) -> Vec<u8> {
    volume.read(path).unwrap()
}

/// Reads a file, which must fail, and returns the error.
fn read_error(volume: &Volume, path: &str) -> Error {
    let file = volume.open_file_read_only(path).unwrap();
    file.read_at(&mut [0; 512], 0).unwrap_err()
}

#[test]
fn realtime_files_have_their_contents() {
    for section in RealtimeSection::ALL {
        let volume = open(section);
        assert_eq!(read(&volume, "/rt/text"), vec![b'a'; 40 * KIB], "{section:?}");
        let sparse = read(&volume, "/rt/sparse");
        assert_eq!(sparse.len(), 1 << 20);
        assert_eq!(sparse[100 * KIB..101 * KIB], [b'b'; KIB]);
        assert_eq!(sparse.iter().filter(|byte| **byte != 0).count(), KIB);
        let fragments = read(&volume, "/rt/fragments");
        for piece in fragments.chunks(64 * KIB) {
            assert_eq!(piece[..4 * KIB], [b'e'; 4 * KIB], "{section:?}");
            assert!(piece[4 * KIB..].iter().all(|byte| *byte == 0), "{section:?}");
        }
        assert_eq!(fragments.len(), (39 * 64 + 4) * KIB);
        assert_eq!(read(&volume, "/plain/data"), vec![b'f'; 12 * KIB]);
    }
}

#[test]
fn unwritten_and_shared_extents_are_read() {
    for section in [RealtimeSection::Classic, RealtimeSection::Groups] {
        let unwritten = read(&open(section), "/rt/unwritten");
        assert_eq!(unwritten.len(), 64 * KIB);
        assert_eq!(unwritten[16 * KIB..20 * KIB], [b'c'; 4 * KIB]);
        assert_eq!(unwritten.iter().filter(|byte| **byte != 0).count(), 4 * KIB);
    }
    let shared = read(&open(RealtimeSection::Groups), "/rt/shared");
    assert_eq!(shared[..8 * KIB], [b'a'; 8 * KIB]);
    assert_eq!(shared[8 * KIB..16 * KIB], [b'd'; 8 * KIB]);
    assert_eq!(shared[16 * KIB..], [b'a'; 24 * KIB]);
}

/// Checks that without the realtime device, names, metadata, maps and the files on the data device
/// are readable.
#[test]
fn volume_without_its_device_lacks_only_contents() {
    for section in [RealtimeSection::Classic, RealtimeSection::Groups] {
        let volume = open_images(section.data(), None).unwrap();
        let error = read_error(&volume, "/rt/text");
        assert!(matches!(error, Error::Unsupported(Unsupported::RealtimeData)), "{error}");
        assert_eq!(read(&volume, "/plain/data"), vec![b'f'; 12 * KIB]);
        let node = volume.lookup("/rt/text").unwrap();
        assert_eq!(node.metadata().size, 40 << 10);
        let extents: Vec<_> = node.extents(ForkKind::Data).map(Result::unwrap).collect();
        assert!(extents.iter().all(|extent| extent.realtime) && !extents.is_empty());
        let bytes: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
        assert!((40 << 10..=48 << 10).contains(&bytes), "{section:?}: {bytes}");
    }
}

#[test]
fn device_of_another_volume_is_refused() {
    let section = RealtimeSection::Groups;
    let mut device = section.device().unwrap();
    device.edit_with(DiskAddr(0), 4096, |block| {
        block[24] ^= 1;
        xfs_format::crc::seal(block, 4);
    });
    let error = open_images(section.data(), Some(device.clone())).err().unwrap();
    let OpenError::Volume(Error::Corrupt(corruption)) = &error else { panic!("{error}") };
    assert_eq!(corruption.structure(), Structure::RealtimeSuperblock);
    assert!(matches!(corruption.check(), Check::ForeignUuid { .. }), "{error}");
    device.edit_with(DiskAddr(0), 4096, |block| block.fill(0));
    let error = open_images(section.data(), Some(device)).err().unwrap();
    let OpenError::Volume(Error::Corrupt(corruption)) = &error else { panic!("{error}") };
    assert!(matches!(corruption.check(), Check::Magic { .. }), "{error}");
}

#[test]
fn device_of_a_volume_without_one_is_refused() {
    let device = RealtimeSection::Classic.device();
    let plain = open_images(xfs_testkit::golden(), device.clone()).err().unwrap();
    assert!(matches!(plain, OpenError::RealtimeDevice(_)), "{plain}");
    let internal = open_images(RealtimeSection::Zoned.data(), device).err().unwrap();
    assert!(matches!(internal, OpenError::RealtimeDevice(_)), "{internal}");
}

#[test]
fn section_that_was_cut_short_is_a_finding() {
    let section = RealtimeSection::Classic;
    let mut device = section.device().unwrap();
    device.truncate(0);
    let volume = open_images(section.data(), Some(device)).unwrap();
    let finding = volume.findings().first().unwrap();
    let Error::Corrupt(corruption) = finding else { panic!("{finding}") };
    let check = corruption.check();
    assert!(
        matches!(check, Check::Superblock(SuperblockCheck::RealtimeCutShort { .. })),
        "{finding}"
    );
    assert!(matches!(read_error(&volume, "/rt/text"), Error::Io(_)));
}

/// Changes the map of a realtime file so that its first extent starts at another block: past the
/// section, or in a group that does not exist. Checks that a lookup of the file reports a corrupt
/// extent.
#[test]
fn extent_outside_of_the_section_is_corrupt() {
    for section in RealtimeSection::ALL {
        for start in [1_u64 << 30, (1 << 52) - 1] {
            let mut data = section.data();
            let number = open(section).lookup("/rt/text").unwrap().number();
            let place = data.geometry().inode_location(number).unwrap();
            data.edit(
                place.cluster,
                place.cluster_bytes as usize,
                BlockKind::InodeCluster,
                |bytes| {
                    let fork = place.offset_bytes as usize + 176;
                    let low = u64::from_be_bytes(bytes[fork + 8..fork + 16].try_into().unwrap());
                    let low = (low & ((1 << 21) - 1)) | (start << 21);
                    bytes[fork + 8..fork + 16].copy_from_slice(&low.to_be_bytes());
                    bytes[fork + 7] |= (start >> 43) as u8;
                },
            );
            let volume = open_images(data, section.device()).unwrap();
            let error = volume.lookup("/rt/text").err().unwrap();
            let Error::Corrupt(corruption) = &error else { panic!("{error}") };
            assert_eq!(corruption.structure(), Structure::Extent, "{section:?}: {error}");
        }
    }
}

fn names(node: &Node) -> Vec<String> {
    let entries = node.entries().unwrap().map(Result::unwrap);
    let mut names: Vec<_> =
        entries.map(|entry| entry.name().to_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn metadata_directory_is_hidden_and_listed_on_request() {
    let volume = open(RealtimeSection::Groups);
    assert_eq!(names(&volume.root().unwrap()), ["plain", "rt"]);
    let root = volume.metadata_root().unwrap();
    let groups = root.lookup("rtgroups".as_ref()).unwrap();
    let found = names(&groups);
    assert_eq!(found.len(), 16, "{found:?}");
    assert_eq!(found[..4], ["0.bitmap", "0.refcount", "0.rmap", "0.summary"]);
    let hidden = groups.lookup("0.rmap".as_ref()).unwrap().number();
    for number in [root.number(), hidden] {
        let error = volume.node(number).err().unwrap();
        assert!(matches!(error, Error::Posix(PosixError::NotFound)), "{error}");
    }
    let plain = open(RealtimeSection::Classic).metadata_root().err().unwrap();
    assert!(matches!(plain, Error::Posix(PosixError::NotFound)), "{plain}");
}

/// Removes the metadata flag from the root of the metadata directory. On another volume, lets the
/// superblock name a regular file as this root. Checks that both are reported as corruption.
#[test]
fn metadata_inode_without_its_flag_is_corrupt() {
    let section = RealtimeSection::Groups;
    let mut data = section.data();
    let number = open(section).metadata_root().unwrap().number();
    let place = data.geometry().inode_location(number).unwrap();
    data.edit(place.cluster, place.cluster_bytes as usize, BlockKind::InodeCluster, |bytes| {
        let inode = &mut bytes[place.offset_bytes as usize..];
        inode[127] &= !0x20;
        // The field holds the kind of metadata, which a plain inode has not.
        inode[6..8].fill(0);
    });
    let volume = open_images(data, section.device()).unwrap();
    assert!(matches!(volume.metadata_root().err().unwrap(), Error::Corrupt(_)));

    let mut data = section.data();
    let text = open(section).lookup("/rt/text").unwrap().number();
    data.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| {
        sector[264..272].copy_from_slice(&InodeNumber(text.0).0.to_be_bytes());
    });
    let volume = open_images(data, section.device()).unwrap();
    assert!(matches!(volume.metadata_root().err().unwrap(), Error::Corrupt(_)));
}
