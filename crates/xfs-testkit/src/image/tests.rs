use xfs_device::BlockDevice;
use xfs_format::{BlockKind, DiskAddr, VerifyContext};

use super::Image;
use crate::{golden, pack, unpack};

#[test]
fn pack_and_unpack_keep_every_sector() {
    let mut bytes = vec![0; 512 * 9];
    bytes[512 * 3 + 7] = 1;
    bytes[512 * 4] = 2;
    bytes[512 * 8 + 511] = 3;
    assert_eq!(unpack(&pack(&bytes)), Some(bytes));
    assert_eq!(unpack(&pack(&[0; 512])), Some(vec![0; 512]));
    assert_eq!(unpack(b"nonsense"), None);
}

#[test]
fn read_sees_the_changes_of_its_own_copy_only() {
    let image = Image::new((0..512 * 4).map(|at| (at / 512) as u8).collect());
    let mut copy = image.clone();
    copy.replace(DiskAddr(1), &[9; 1024]);
    let mut bytes = [0; 1030];
    copy.read_at(&mut bytes, 509).unwrap();
    assert_eq!(bytes[..4], [0, 0, 0, 9]);
    assert_eq!(bytes[1026..], [9, 3, 3, 3]);
    image.read_at(&mut bytes, 509).unwrap();
    assert_eq!(bytes[..4], [0, 0, 0, 1]);
    assert!(image.read_at(&mut bytes, 512 * 3).is_err());
    assert!(image.read_at(&mut bytes, u64::MAX).is_err());
}

#[test]
fn edit_recomputes_the_checksum() {
    let mut image = golden();
    let geometry = image.geometry();
    let at = geometry.header_disk_addr(xfs_format::AgNumber(1), 1);
    let context = VerifyContext { geometry: &geometry, log_head: None };
    let verify =
        |image: &Image| BlockKind::Agf.verify(&image.bytes(at, 512).unwrap(), at, &context);
    assert_eq!(verify(&image), Ok(()));
    // Byte 55 is in the count of free blocks, which stays plausible.
    image.edit(at, 512, BlockKind::Agf, |bytes| bytes[55] ^= 1);
    assert_eq!(verify(&image), Ok(()));
    let mut bytes = image.bytes(at, 512).unwrap();
    bytes[55] ^= 1;
    image.replace(at, &bytes);
    assert!(verify(&image).is_err());
}
