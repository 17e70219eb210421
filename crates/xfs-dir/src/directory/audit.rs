//! The check that a directory's entries and its index agree, and that no name occurs twice.
//!
//! A listing reads the data blocks, a lookup reads the index. If they differ, a listed name is not
//! found, or a found name is not listed. An audit reads the index before a listing, and counts the
//! entries while they are listed.
//!
//! # Cost
//!
//! The index has 8 bytes for each entry, data blocks have about 32. The index is read once. The
//! entries of the index are in the order of their hashes, so entries of equal names have the same
//! hash and are neighbours. Only names of neighbours with the same hash are read. Index and listing
//! are compared by a count and a sum, which need no memory. For directories of one block or less,
//! the verifier has already compared the two.
//!
//! An audit requires a directory that does not change: otherwise index and entries are read at
//! different times.

use std::hash::{BuildHasher, RandomState};

use xfs_buffer::{Error, Result};
use xfs_format::directory::{
    Cookie, DirectoryCheck, DuplicateName, LeafBlock, NameComparison, find_duplicate_names,
};
use xfs_format::inode::ForkKind;
use xfs_inode::Fork;

use super::Directory;

/// The largest number of entries with one hash that are compared by name. This number of entries
/// takes 4 MiB of memory. A normal directory has only a few entries with one hash.
const MOST_OF_ONE_HASH: usize = 1 << 18;

/// The facts about a directory that an audit gathers before the entries are listed.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The names that occur more than once, in the order of cookies.
    doubled: Vec<DuplicateName>,
    /// The digest of the entries in the index. `None` unless the index has blocks of its own and
    /// all of it could be read.
    indexed: Option<Digest>,
    listed: Digest,
    names: NameComparison,
}

/// A digest of a set of entries, which does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    count: u64,
    sum: u64,
}

impl Digest {
    fn add(&mut self, hash: u32, cookie: Cookie) {
        self.count += 1;
        // An odd factor loses no bit, and the shift carries high bits to the low ones.
        let mixed =
            (u64::from(hash) << 32 | u64::from(cookie.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(mixed ^ (mixed >> 29));
    }
}

impl Audit {
    /// Records one entry of the listing, for the comparison with the index. The caller passes `.`
    /// and `..`, too. Returns the failed check if an earlier entry has the same name.
    pub fn see(&mut self, name: &[u8], cookie: Cookie) -> Option<DirectoryCheck> {
        if self.indexed.is_some() {
            self.listed.add(self.names.hash(name), cookie);
        }
        let index = self.doubled.binary_search_by_key(&cookie, |doubled| doubled.cookie).ok()?;
        self.doubled.get(index).map(|doubled| doubled.check())
    }

    /// Records that the listing will not be complete. The listing is then not compared with the
    /// index.
    pub fn give_up(&mut self) {
        self.indexed = None;
    }

    /// Returns an error if the index and the listed entries differ, and `None` otherwise. The
    /// caller must have passed every entry to `see`.
    #[must_use]
    pub fn finish(&self) -> Option<DirectoryCheck> {
        let indexed = self.indexed.filter(|indexed| *indexed != self.listed)?;
        Some(DirectoryCheck::IndexDiffers { indexed: indexed.count, listed: self.listed.count })
    }
}

impl Directory<'_> {
    /// Reads the index before a listing. Errors are added to `findings`; after an error, index and
    /// listing are not compared.
    pub fn audit(&self, findings: &mut Vec<Error>) -> Audit {
        let mut audit = Audit {
            doubled: Vec::new(),
            indexed: None,
            listed: Digest::default(),
            names: self.cache.geometry().directory_form.names,
        };
        if let Err(error) = self.read_audit(&mut audit, findings) {
            findings.push(error);
        }
        audit
    }

    /// Returns whether the index has blocks of its own. Returns `false` if the extent map cannot be
    /// read.
    #[must_use]
    pub fn has_index_blocks(&self) -> bool {
        let is_local = matches!(self.inode.fork(ForkKind::Data), Fork::Local(_));
        !is_local && self.is_block_form().is_ok_and(|is_block_form| !is_block_form)
    }

    fn read_audit(&self, audit: &mut Audit, findings: &mut Vec<Error>) -> Result<()> {
        if let Fork::Local(bytes) = self.inode.fork(ForkKind::Data) {
            // A corrupt short form has no entries, and listing it reports the error.
            let form = self.decode_short_form(bytes);
            audit.doubled = form.map_or_else(|_| Vec::new(), |form| form.duplicate_names());
            return Ok(());
        }
        if self.is_block_form()? {
            // Listing a damaged block reports the damage again.
            let Some(buffer) = unless_corrupt(self.read_data(0))? else { return Ok(()) };
            let bytes = buffer.bytes();
            audit.doubled =
                self.decode_data(&bytes, 0).map_or_else(|_| Vec::new(), |b| b.duplicate_names());
            return Ok(());
        }
        let before = findings.len();
        let mut indexed = Digest::default();
        let mut run = SameHash { hash: 0, cookies: Vec::new() };
        for leaf in self.index().leaves() {
            let leaf = match leaf {
                Ok(leaf) => leaf,
                Err(error) => {
                    findings.push(error);
                    continue;
                }
            };
            let bytes = leaf.buffer.bytes();
            for entry in LeafBlock::decode(&bytes, self.index().place(leaf.block))?.entries() {
                let (hash, cookie) = (entry.hash.get(), Cookie(entry.cookie.get()));
                if cookie == Cookie::START {
                    continue;
                }
                indexed.add(hash, cookie);
                if hash != run.hash {
                    self.compare_names(&mut run, audit)?;
                    run.hash = hash;
                }
                if run.cookies.len() < MOST_OF_ONE_HASH {
                    run.cookies.push(cookie);
                }
            }
        }
        self.compare_names(&mut run, audit)?;
        audit.doubled.sort_unstable();
        audit.indexed = (findings.len() == before).then_some(indexed);
        Ok(())
    }

    /// Finds names that occur more than once among the entries of `run`, which all have the same
    /// hash, and empties the run. Damaged blocks are skipped: the listing reports them, or the
    /// comparison of the listing with the index does.
    fn compare_names(&self, run: &mut SameHash, audit: &mut Audit) -> Result<()> {
        let mut cookies = std::mem::take(&mut run.cookies);
        if cookies.len() < 2 {
            return Ok(());
        }
        cookies.sort_unstable();
        let hasher = RandomState::new();
        let mut named = Vec::with_capacity(cookies.len());
        for cookie in cookies {
            let name = unless_corrupt(self.name_at(cookie))?;
            named.extend(name.map(|name| (hasher.hash_one(&name), cookie)));
        }
        named.sort_unstable();
        for same in named.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let mut names = Vec::with_capacity(same.len());
            for (_, cookie) in same {
                names.extend(unless_corrupt(self.name_at(*cookie))?.map(|name| (name, *cookie)));
            }
            let names = names.iter().map(|(name, at)| (&**name, *at)).collect();
            audit.doubled.extend(find_duplicate_names(names));
        }
        Ok(())
    }

    fn name_at(&self, cookie: Cookie) -> Result<Box<[u8]>> {
        let index = cookie.offset() / self.block_size();
        let buffer = self.read_data(index)?;
        let bytes = buffer.bytes();
        Ok(self.decode_data(&bytes, index)?.entry_at(cookie)?.name.into())
    }

    /// Checks that a name that a lookup has not found is not in the data blocks either. The check
    /// is needed because a lookup trusts the index. This check reads every data block, so it is
    /// meant for a single lookup that failed.
    ///
    /// # Errors
    ///
    /// Returns [`DirectoryCheck::NotIndexed`] if a data block contains the name, the device's
    /// error, or the check that failed.
    pub fn verify_missing(&self, name: &[u8]) -> Result<()> {
        if matches!(self.inode.fork(ForkKind::Data), Fork::Local(_)) || self.is_block_form()? {
            return Ok(());
        }
        let mut next = Some(0);
        while let Some(index) = next {
            let Some(index) = self.next_data_block(index)? else { break };
            let buffer = self.read_data(index)?;
            let bytes = buffer.bytes();
            for entry in self.decode_data(&bytes, index)?.entries() {
                let entry = entry?;
                if self.cache.geometry().directory_form.names.matches(entry.name, name) {
                    let offset = (entry.cookie.offset() % self.block_size()) as usize;
                    let check = DirectoryCheck::NotIndexed { offset };
                    return Err(self.corrupt(self.data_place(index), check).into());
                }
            }
            next = index.checked_add(1);
        }
        Ok(())
    }
}

/// Returns the result of `read`, or `None` if `read` is a corruption, because the listing reports
/// damage anyway. Returns a device error as an error, because the next read may succeed.
fn unless_corrupt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Error::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A run of index entries with one hash, in the order of the index.
struct SameHash {
    hash: u32,
    cookies: Vec<Cookie>,
}
