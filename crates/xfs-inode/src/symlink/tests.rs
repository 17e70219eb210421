//! Tests of reading targets that are stored in the inode or in a block of their own. A block of
//! another link must be refused.

use xfs_buffer::{Error, PosixError};
use xfs_format::extent::ExtentCheck;
use xfs_format::symlink::SymlinkCheck;
use xfs_format::{BlockKind, Check, FileBlock, Lsn};

use crate::testing::{
    LINK, LONG_LINK, LONG_LINK_BLOCK, TEXT, Volume, changed, failed_check, number,
};

fn target(volume: &Volume, record: &[u8]) -> Result<Vec<u8>, Error> {
    volume.read(record)?.read_target(&volume.cache())
}

fn check_block(changes: &[(usize, &[u8])], expected: impl Into<Check>) {
    let volume = Volume::new();
    let mut block = LONG_LINK_BLOCK.to_vec();
    for (offset, new) in changes {
        block[*offset..offset + new.len()].copy_from_slice(new);
    }
    BlockKind::Symlink.seal(&mut block, Lsn(0));
    let address = u64::from_be_bytes(block[40..48].try_into().unwrap());
    volume.put(address * 512, &block);
    assert_eq!(failed_check(target(&volume, LONG_LINK)), expected.into());
}

#[test]
fn link_targets_are_read() {
    let volume = Volume::new();
    assert_eq!(target(&volume, LINK).unwrap(), b"target");
    assert_eq!(target(&volume, LONG_LINK).unwrap(), [b't'; 500]);
    let no_link = target(&volume, TEXT);
    assert!(matches!(no_link, Err(Error::Posix(PosixError::InvalidArgument))));
}

#[test]
fn corrupt_pieces_of_a_link_target_are_refused() {
    let expected = number(LONG_LINK).0;
    check_block(&[(32, &71_u64.to_be_bytes())], Check::ForeignOwner { found: 71, expected });
    check_block(&[(7, &[1])], SymlinkCheck::Offset { found: 1, expected: 0 });
    let short = SymlinkCheck::Length { found: 255, expected: 500 };
    check_block(&[(8, &255_u32.to_be_bytes())], short);
    check_block(&[(56 + 17, &[0])], SymlinkCheck::Nul { offset: 17 });
}

#[test]
fn link_sizes_that_differ_from_the_pieces_are_refused() {
    let volume = Volume::new();
    volume.put_inode(&changed(LONG_LINK, &[(56, &499_u64.to_be_bytes())]));
    let expected = SymlinkCheck::Length { found: 500, expected: 499 };
    assert_eq!(failed_check(target(&volume, LONG_LINK)), expected.into());
    // 1024 bytes need a second block.
    volume.put_inode(&changed(LONG_LINK, &[(56, &1024_u64.to_be_bytes())]));
    let expected = ExtentCheck::NotMapped { file_block: FileBlock(1) };
    assert_eq!(failed_check(target(&volume, LONG_LINK)), expected.into());
    volume.put_inode(&changed(LINK, &[(179, &[0])]));
    let expected = SymlinkCheck::Nul { offset: 3 };
    assert_eq!(failed_check(target(&volume, LINK)), expected.into());
}
