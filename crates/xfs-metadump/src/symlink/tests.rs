//! Tests of cleaning the targets of symbolic links, in the inode and in buffers.

use xfs_format::directory::name_hash;
use xfs_format::{DiskAddr, symlink::SymlinkBlock};

use super::{clean_buffers, clean_local};
use crate::cleaning::{Cleaned, Cleaning};
use crate::names::Obfuscator;

/// Returns a buffer of 128 bytes with the part of a target that starts at `offset`. The bytes after
/// the part are remains of old contents.
fn buffer(offset: u32, part: &[u8]) -> Vec<u8> {
    let mut buffer = b"XSLM".to_vec();
    buffer.extend(offset.to_be_bytes());
    buffer.extend((part.len() as u32).to_be_bytes());
    buffer.resize(56, 0);
    buffer.extend(part);
    buffer.resize(128, 0x66);
    xfs_format::crc::seal(&mut buffer, 12);
    buffer
}

#[test]
fn part_of_a_name_in_two_buffers_is_one_name() {
    let names = Obfuscator::random();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    let mut buffers = vec![buffer(0, b"/a/long na"), buffer(10, b"me/x")];
    assert_eq!(clean_buffers(&mut buffers, cleaning), Cleaned::Whole);
    let decode = |buffer| SymlinkBlock::decode(buffer, DiskAddr(0)).unwrap().target.to_vec();
    let target: Vec<u8> = buffers.iter().flat_map(|buffer| decode(buffer)).collect();
    let mut name = b"long name".to_vec();
    names.replace(&mut name);
    assert_eq!(target, [b"/a/", &name[..], b"/x"].concat());
    assert_eq!(name_hash(&name), name_hash(b"long name"));
    for buffer in &buffers {
        assert!(buffer.ends_with(&[0; 40]));
        assert_eq!(xfs_format::crc::stored(buffer, 12), xfs_format::crc::compute(buffer, 12));
    }
}

#[test]
fn damaged_buffers_show_no_name() {
    let names = Obfuscator::random();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    let mut buffers = vec![buffer(0, b"/a/long na"), buffer(11, b"me/x")];
    assert_eq!(clean_buffers(&mut buffers, cleaning), Cleaned::Partly);
    assert!(buffers.iter().flatten().all(|byte| *byte == 0));
}

#[test]
fn target_in_the_inode_is_replaced() {
    let names = Obfuscator::random();
    let cleaning =
        Cleaning { names: Some(&names), zeroes_stale: true, has_metadata_directory: false };
    let mut fork = b"some target here, old bytes".to_vec();
    assert_eq!(clean_local(&mut fork, 16, cleaning), Cleaned::Whole);
    assert!(!fork.starts_with(b"some"));
    assert!(fork.ends_with(&[0; 11]));
    assert_eq!(clean_local(&mut fork, 1000, cleaning), Cleaned::Partly);
}
