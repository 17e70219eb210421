//! The btrees of a group whose roots are in its AGF: where their blocks come from, and where freed
//! blocks go.
//!
//! | btree | its blocks | counted in |
//! |---|---|---|
//! | both free-space btrees | the free list | `btree_blocks` |
//! | reverse map | the free list | `btree_blocks`, `reverse_map_blocks`, its reserve |
//! | reference counts | allocated and freed, with a reverse mapping | `refcount_blocks` |

use std::marker::PhantomData;

use xfs_btree::{Anchor, Anchored, Editor, Root};
use xfs_buffer::Result;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeCheck, BtreeFormat};
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{AgBlock, Structure};
use xfs_trans::Transaction;

use super::GroupSpace;
use super::search::{GroupRequest, Near, SearchResult};
use crate::deferred::FreeWork;
use crate::owner::{BlockPurpose, ExtentOwner};
use crate::space::reservation::Account;

/// A kind of btree whose root is in the AGF.
pub(super) trait GroupBtree: BtreeFormat + Sized {
    /// Returns the root in the AGF; `None` if the volume does not have this kind of btree.
    fn root(group: &mut GroupSpace) -> Option<&mut BtreeRoot>;
    fn claim(group: &mut GroupSpace, tx: &mut Transaction<'_>, near: u32) -> Result<u32>;
    fn give_back(group: &mut GroupSpace, tx: &mut Transaction<'_>, block: u32) -> Result<()>;
}

/// The anchor of a btree editor (the object that keeps the root and supplies the blocks): a group,
/// whose AGF holds the root, and the kind of btree.
pub(super) struct InGroup<'g, F> {
    group: &'g mut GroupSpace,
    format: PhantomData<F>,
}

/// An editor of a btree of the group.
pub(super) type GroupEditor<'e, 'journal, F> = Editor<F, Anchored<'e, 'journal, InGroup<'e, F>>>;

impl GroupSpace {
    /// Creates an editor of one btree of the group. While the editor exists no other code can use
    /// the group, except through the editor.
    pub(super) fn edit<'e, 'journal, F: GroupBtree>(
        &'e mut self,
        tx: &'e mut Transaction<'journal>,
    ) -> Result<GroupEditor<'e, 'journal, F>> {
        let number = self.number;
        let absent = self.corrupt(Structure::Agf, BtreeCheck::Outside);
        let root = *F::root(self).ok_or(absent)?;
        let anchor = InGroup { group: self, format: PhantomData };
        Editor::new(Anchored { tx, anchor }, number, root)
    }

    /// Whether the volume has this kind of btree.
    pub(super) fn has<F: GroupBtree>(&mut self) -> bool {
        F::root(self).is_some()
    }

    fn claim_listed(&mut self, tx: &mut Transaction<'_>) -> Result<u32> {
        let block = self.take_from_list(tx)?;
        self.agf.btree_blocks += 1;
        Ok(block)
    }

    fn return_listed(&mut self, tx: &mut Transaction<'_>, block: u32) -> Result<()> {
        self.put_on_list(tx, block)?;
        self.mark_busy(tx, block..block + 1);
        self.agf.btree_blocks = self.fewer(self.agf.btree_blocks)?;
        Ok(())
    }

    /// Returns `count - 1`. Returns an error if `count`, which comes from disk, is 0.
    fn fewer(&self, count: u32) -> Result<u32> {
        let (what, length) = ("a btree", self.agf.length_blocks);
        count.checked_sub(1).ok_or_else(|| {
            let check = xfs_format::agf::AgfCheck::Blocks { what, blocks: count, length };
            self.corrupt(Structure::Agf, check)
        })
    }
}

impl<F: GroupBtree> Anchor for InGroup<'_, F> {
    fn claim_block(&mut self, tx: &mut Transaction<'_>, near: u64) -> Result<u64> {
        let near = u32::try_from(near).expect("a block of a group has 32 bits");
        F::claim(self.group, tx, near).map(u64::from)
    }

    fn free_block(&mut self, tx: &mut Transaction<'_>, block: u64) -> Result<()> {
        let block = u32::try_from(block)
            .map_err(|_| self.group.corrupt(Structure::Btree, BtreeCheck::Outside))?;
        F::give_back(self.group, tx, block)
    }

    fn set_root(&mut self, _tx: &mut Transaction<'_>, root: Root<'_>) -> Result<()> {
        let (Root::Block(root), Some(field)) = (root, F::root(self.group)) else {
            unreachable!("the root of a btree that is edited is in the AGF")
        };
        *field = root;
        Ok(())
    }
}

macro_rules! free_space_btree {
    ($format:ty, $field:ident) => {
        impl GroupBtree for $format {
            fn root(group: &mut GroupSpace) -> Option<&mut BtreeRoot> {
                Some(&mut group.agf.$field)
            }

            // Users see the blocks of the free-space btrees as used, except the roots.
            fn claim(group: &mut GroupSpace, tx: &mut Transaction<'_>, _near: u32) -> Result<u32> {
                group.count_unreserved(tx, 1);
                group.claim_listed(tx)
            }

            fn give_back(
                group: &mut GroupSpace,
                tx: &mut Transaction<'_>,
                block: u32,
            ) -> Result<()> {
                group.return_unreserved(tx, 1)?;
                group.return_listed(tx, block)
            }
        }
    };
}

free_space_btree!(FreeSpaceByBlock, free_space_by_block);
free_space_btree!(FreeSpaceBySize, free_space_by_size);

impl GroupBtree for ReverseMap {
    fn root(group: &mut GroupSpace) -> Option<&mut BtreeRoot> {
        group.agf.reverse_map.as_mut()
    }

    fn claim(group: &mut GroupSpace, tx: &mut Transaction<'_>, _near: u32) -> Result<u32> {
        group.agf.reverse_map_blocks += 1;
        group.state.draw(Account::ReverseMap, 1);
        group.claim_listed(tx)
    }

    fn give_back(group: &mut GroupSpace, tx: &mut Transaction<'_>, block: u32) -> Result<()> {
        group.agf.reverse_map_blocks = group.fewer(group.agf.reverse_map_blocks)?;
        group.state.refill(Account::ReverseMap, 1);
        group.return_listed(tx, block)
    }
}

impl GroupBtree for Refcounts {
    fn root(group: &mut GroupSpace) -> Option<&mut BtreeRoot> {
        group.agf.refcount.as_mut()
    }

    fn claim(group: &mut GroupSpace, tx: &mut Transaction<'_>, near: u32) -> Result<u32> {
        let wanted = GroupRequest {
            near: Near::Block(near),
            owner: Some(ExtentOwner::REFCOUNT_BTREE),
            purpose: Some(BlockPurpose::Metadata),
            ..GroupRequest::blocks(1, 1)
        };
        // The group's reserve was free before this step began. Those of its blocks that are busy
        // were freed by other transactions, so the log can be waited for.
        let mut found = group.allocate(tx, &wanted)?;
        if found == SearchResult::Busy && group.await_busy(tx)? {
            found = group.allocate(tx, &wanted)?;
        }
        match found {
            SearchResult::Extent { range, .. } => {
                group.agf.refcount_blocks += 1;
                Ok(range.start)
            }
            // The volume has less than its reserve. The btree stays half changed, so this must not
            // be reported as an ordinary lack of space.
            SearchResult::Nothing | SearchResult::Busy => Err(xfs_buffer::Error::Shutdown),
        }
    }

    fn give_back(group: &mut GroupSpace, tx: &mut Transaction<'_>, block: u32) -> Result<()> {
        group.agf.refcount_blocks = group.fewer(group.agf.refcount_blocks)?;
        let block = group.fs_block(tx, AgBlock(block).0);
        let work = FreeWork::metadata(block, ExtentOwner::REFCOUNT_BTREE);
        tx.defer(work.boxed());
        Ok(())
    }
}
