//! The digest that fs-verity computes of a file, with SHA-256, blocks of 4096 bytes and no salt.
//!
//! The digest is the hash of a descriptor, which holds the root of a tree of hashes. Each block of
//! a level of the tree holds the hashes of 128 blocks below it; the last one is filled with zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ring::digest::{SHA256, digest as hash};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::text::hexadecimal;

const BLOCK_BYTES: usize = 4096;
const BLOCK_LOG: u8 = 12;
const HASH_BYTES: usize = 32;
const DESCRIPTOR_BYTES: usize = 256;
/// The number that stands for SHA-256 in the descriptor.
const SHA256_NUMBER: u8 = 1;

/// Returns the digest of a file of this length, in hexadecimal digits.
pub(super) fn digest(file: &File, length: u64) -> io::Result<String> {
    let mut levels: Vec<Vec<u8>> = Vec::new();
    let mut offset = 0;
    let mut root = [0; HASH_BYTES];
    while offset < length {
        let mut block = [0; BLOCK_BYTES];
        let wanted = (length - offset).min(BLOCK_BYTES as u64) as usize;
        file.read_exact_at(block.get_mut(..wanted).unwrap_or_default(), offset)?;
        offset += BLOCK_BYTES as u64;
        add(&mut levels, 0, &hashed(&block));
    }
    // The blocks that are not full are hashed from the lowest level on.
    let mut level = 0;
    while let Some(hashes) = levels.get_mut(level).map(std::mem::take) {
        if level + 1 == levels.len() && hashes.len() == HASH_BYTES {
            root.copy_from_slice(&hashes);
            break;
        }
        if !hashes.is_empty() {
            add(&mut levels, level + 1, &block_hash(hashes));
        }
        level += 1;
    }
    let mut descriptor = Vec::with_capacity(DESCRIPTOR_BYTES);
    descriptor.extend_from_slice(&[1, SHA256_NUMBER, BLOCK_LOG, 0, 0, 0, 0, 0]);
    descriptor.extend_from_slice(U64::new(length).as_bytes());
    descriptor.extend_from_slice(&root);
    descriptor.resize(DESCRIPTOR_BYTES, 0);
    Ok(hexadecimal::digits(&hashed(&descriptor)))
}

/// Adds a hash to a level of the tree. A level never holds more than one block of hashes.
fn add(levels: &mut Vec<Vec<u8>>, level: usize, hash: &[u8]) {
    if levels.len() == level {
        levels.push(Vec::new());
    }
    let Some(hashes) = levels.get_mut(level) else { return };
    if hashes.len() == BLOCK_BYTES {
        let full = std::mem::take(hashes);
        hashes.extend_from_slice(hash);
        add(levels, level + 1, &block_hash(full));
    } else {
        hashes.extend_from_slice(hash);
    }
}

/// Returns the hash of a block of hashes.
fn block_hash(mut hashes: Vec<u8>) -> Vec<u8> {
    hashes.resize(BLOCK_BYTES, 0);
    hashed(&hashes)
}

fn hashed(bytes: &[u8]) -> Vec<u8> {
    hash(&SHA256, bytes).as_ref().to_vec()
}
