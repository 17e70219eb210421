//! The mistakes that `cargo xtask mutants` puts into the library. Each is a piece of source text,
//! and the wrong text that replaces it.

/// A deliberate mistake in the allocator, the btrees or the extent maps.
pub(super) struct Mutant {
    /// The path of the source file, relative to the folder `crates`.
    pub(super) file: &'static str,
    /// The mistake in words, as a clause for the page with the results.
    pub(super) mistake: &'static str,
    /// The right text, which the file has exactly once: an expression, or statements if it ends
    /// with a semicolon or a brace.
    pub(super) right: &'static str,
    /// The wrong text, which replaces the right text.
    pub(super) wrong: &'static str,
}

/// Mistakes that do not damage the volume, each with the reason. For these, the checker must have
/// no finding.
pub(super) const HARMLESS: [(&str, &str); 5] = [
    (
        "mappings are joined although their offsets differ",
        "the callers look only for records whose offset fits",
    ),
    ("a new block of a free-space btree counts as free", IN_MEMORY),
    ("a freed inode is not counted in the superblock", IN_MEMORY),
    ("a freed chunk is still counted in the superblock", IN_MEMORY),
    ("a taken inode is still counted in the superblock", IN_MEMORY),
];

const IN_MEMORY: &str = "the count is kept in memory; the superblock gets the sums of the headers";

macro_rules! mutants {
    ($($file:literal, $mistake:literal: $right:literal => $wrong:literal;)*) => {
        /// All mistakes, in the order of their numbers, which start at 1.
        pub(super) const MUTANTS: &[Mutant] = &[$(
            Mutant { file: $file, mistake: $mistake, right: $right, wrong: $wrong },
        )*];
    };
}

mutants! {
    "xfs-alloc/src/group/free_space.rs", "freed blocks are not counted in the AGF":
        "self.agf.free_blocks += freed.count;" => "";
    "xfs-alloc/src/group/free_space.rs", "one taken block is not counted in the AGF":
        "free.checked_sub(count)" => "free.checked_sub(count - 1)";
    "xfs-alloc/src/group/free_space.rs", "the longest free extent is not updated":
        "self.agf.longest_free_blocks = longest;" => "let _ = longest;";
    "xfs-alloc/src/group/free_space.rs", "the right neighbour of freed blocks is lost":
        "right.map_or(range.end, |right| right.end().0)" => "range.end";
    "xfs-alloc/src/group/free_space.rs", "the tail of a cut free extent is lost by block":
        "second.map_or(Ok(()), |second| editor.insert(second))" => "{ let _ = second; Ok(()) }";
    "xfs-alloc/src/group/free_space.rs", "free extents of one block are lost by size":
        "editor.insert(*record)?;" => "if record.count != 1 { editor.insert(*record)?; }";
    "xfs-alloc/src/group/free_space.rs", "a joined free extent keeps its old length by size":
        "self.replace_by_size(tx, &old, &[Some(joined)])?;"
        => "self.replace_by_size(tx, &old, &[Some(freed)])?;";
    "xfs-alloc/src/mappings.rs", "a new mapping is not added to the reverse map":
        "self.editor.insert(joined)" => "{ let _ = joined; Ok(()) }";
    "xfs-alloc/src/mappings.rs", "a mapping that continues another is lost":
        "self.editor.update(Rmap { count: left.count + joined.count, ..left })" => "Ok(())";
    "xfs-alloc/src/mappings.rs", "mappings are joined although their offsets differ":
        "(!has_offset(left) || left.offset.0 + u64::from(left.count) == right.offset.0)" => "true";
    "xfs-alloc/src/mappings.rs", "mappings are joined although their states differ":
        "left.flags == right.flags" => "left.owner == right.owner";
    "xfs-alloc/src/mappings.rs", "the tail of a cut mapping is lost":
        "tail.map_or(Ok(()), |tail| self.editor.insert(tail))" => "{ let _ = tail; Ok(()) }";
    "xfs-alloc/src/mappings.rs", "the tail of a cut mapping keeps the offset of its head":
        "record.offset.0 + skipped" => "record.offset.0";
    "xfs-alloc/src/mappings.rs", "a converted mapping is only removed":
        "self.add(new)" => "{ let _ = new; Ok(()) }";
    "xfs-alloc/src/reference_counts.rs", "a long change of reference counts stops after one step":
        "(end < range.end).then_some(end..range.end)" => "None";
    "xfs-alloc/src/reference_counts.rs", "a kept record of reference counts is not written":
        "editor.update(*record)?;" => "";
    "xfs-alloc/src/reference_counts.rs", "a new record of reference counts is not written":
        "editor.insert(*record)?;" => "";
    "xfs-alloc/src/reference_counts/adjust.rs", "blocks with one reference keep a record":
        "references == self.change.base()" => "references == 0";
    "xfs-alloc/src/reference_counts/adjust.rs", "records are joined although their counts differ":
        "last.references == references" => "last.references > 0";
    "xfs-alloc/src/group/free_list.rs", "blocks of the free list have no reverse mapping":
        "self.add_mapping(tx, &OwnedExtent::new(ExtentOwner::GROUP, range.clone()))?;" => "";
    "xfs-alloc/src/group/free_list.rs", "a block that is put on the free list is not written":
        "tx.change(&list, bytes, |place| place.copy_from_slice(&block.to_be_bytes()));"
        => "let _ = (list, bytes, block);";
    "xfs-alloc/src/group/free_list.rs", "a block that leaves the free list is still counted":
        "range.count -= 1;" => "";
    "xfs-alloc/src/group/btrees.rs", "a new block of a btree is not counted in the AGF":
        "self.agf.btree_blocks += 1;" => "";
    "xfs-alloc/src/group/btrees.rs", "a freed block of a btree is still counted in the AGF":
        "self.agf.btree_blocks = self.fewer(self.agf.btree_blocks)?;" => "";
    "xfs-alloc/src/group/btrees.rs", "a new block of the reverse map is not counted":
        "group.agf.reverse_map_blocks += 1;" => "";
    "xfs-alloc/src/group/btrees.rs", "a new block of the reference counts is not counted":
        "group.agf.refcount_blocks += 1;" => "";
    "xfs-alloc/src/group/btrees.rs", "a freed block of the reference counts is leaked":
        "tx.defer(work.boxed());" => "drop(work);";
    "xfs-alloc/src/group/btrees.rs", "a new block of a free-space btree counts as free":
        "group.count_unreserved(tx, 1);" => "";
    "xfs-alloc/src/inodes/free.rs", "a freed inode is not counted in the AGI":
        "group.agi.free_count += 1;" => "";
    "xfs-alloc/src/inodes/free.rs", "a freed inode is not counted in the superblock":
        "tx.count_inodes(0, 1);" => "";
    "xfs-alloc/src/inodes/free.rs", "a freed inode is not in the free-inode btree":
        "group.replace_in_free_chunks(tx, chunk, left)?;" => "";
    "xfs-alloc/src/inodes/free.rs", "a freed inode keeps its mode":
        "core.mode = 0;" => "";
    "xfs-alloc/src/inodes/free.rs", "the blocks of a freed chunk are leaked":
        "defer_free(tx, extent, Some(ExtentOwner::INODES), BlockPurpose::File);" => "let _ = extent;";
    "xfs-alloc/src/inodes/free.rs", "a freed chunk is still counted in the superblock":
        "tx.count_inodes(-i64::from(count), -i64::from(free));" => "";
    "xfs-alloc/src/inodes/free.rs", "the record of an inode that is freed does not change":
        "chunks.replace(&chunk, &left)?;" => "{ let _ = chunks; true };";
    "xfs-alloc/src/inodes/allocate.rs", "a taken inode is still counted as free in the AGI":
        "self.agi.free_count -= 1;" => "";
    "xfs-alloc/src/inodes/allocate.rs", "a taken inode is still counted in the superblock":
        "tx.count_inodes(0, -1);" => "";
    "xfs-alloc/src/inodes/allocate.rs", "a taken inode stays in the free-inode btree":
        "used => chunks.update(used)?" => "used => { let _ = used; }";
    "xfs-btree/src/editor/keys.rs", "a new lowest key is not written to the parent":
        "copy(low, entry_low);" => "";
    "xfs-btree/src/editor/keys.rs", "a new highest key is not written to the parent":
        "copy(high, entry_high);" => "";
    "xfs-btree/src/editor/keys.rs", "keys of a parent are not computed again":
        "let key = self.node_key(self.path_block(depth))?;\n            if !self.set_parent_key(depth, index, &key)? {\n                break;\n            }"
        => "let _ = index;";
    "xfs-btree/src/editor/grow.rs", "a split block does not lead to the new one":
        "self.set_sibling(&buffer, BtreeLayout::right_sibling_range, Some(new.number))?;" => "";
    "xfs-btree/src/editor/grow.rs", "keys are not written after entries have moved to a sibling":
        "for (index, step) in [(index, left), (index + 1, right)] {\n            let key = self.node_key(step)?;\n            self.set_parent_key(depth, index, &key)?;\n        }" => "let _ = index;";
    "xfs-btree/src/editor/shrink.rs", "the neighbour of a joined block leads to the freed one":
        "self.set_sibling(&neighbour, BtreeLayout::left_sibling_range, Some(left.block))?;"
        => "drop(neighbour);";
    "xfs-btree/src/editor/shrink.rs", "a joined block leads to the freed one":
        "self.set_sibling(&left.buffer, BtreeLayout::right_sibling_range, beyond)?;" => "";
    "xfs-btree/src/editor/shrink.rs", "a block that was joined with its neighbour is leaked":
        "self.store.free(right.block, &right.buffer)?;" => "";
    "xfs-btree/src/editor/shrink.rs", "a root with one child is leaked":
        "self.store.free(root.block, &root.buffer)?;" => "";
    "xfs-btree/src/editor/shrink.rs", "a high key stays after its record is removed":
        "index == 0 || changes_high" => "index == 0";
    "xfs-btree/src/editor/shrink.rs", "a low key stays after its record is removed":
        "self.refresh_keys(leaf)?;" => "";
    "xfs-inode/src/live/mapping.rs", "blocks of an extent btree are not counted in the inode":
        "count_blocks(inode.core_mut(), blocks + btree_blocks)"
        => "count_blocks(inode.core_mut(), blocks)";
    "xfs-inode/src/live/mapping.rs", "the leaf of a dropped extent btree is leaked":
        "anchor.free_block(tx, child.0)?;" => "let _ = &mut anchor;";
    "xfs-inode/src/live/map.rs", "a new extent has no reverse mapping":
        "defer_map(tx, &self.file_mapping(tx.geometry(), fork, extent));" => "";
    "xfs-inode/src/live/map.rs", "the reverse mapping of a removed extent stays":
        "defer_unmap(tx, &self.file_mapping(tx.geometry(), fork, extent));" => "";
    "xfs-inode/src/live/map.rs", "a converted extent keeps its reverse mapping":
        "defer_convert(tx, &self.file_mapping(tx.geometry(), fork, &extent));" => "";
    "xfs-inode/src/live/map.rs", "the blocks of an unmapped extent are leaked":
        "self.free_blocks(tx, fork, &extent);" => "";
    "xfs-inode/src/live/map.rs", "shared blocks are freed instead of losing a reference":
        "defer_unshare(tx, section, blocks)," => "defer_free(tx, blocks, None, BlockPurpose::File),";
    "xfs-inode/src/live/share.rs", "shared blocks get no reference":
        "defer_share(tx, section, blocks(&new));" => "";
    "xfs-inode/src/live/share.rs", "replaced blocks keep their reference":
        "defer_unshare(tx, section, blocks(&old));" => "";
    "xfs-inode/src/live/share.rs", "a file that shares blocks is not marked":
        "live.change(tx, |core| core.flags2 |= InodeFlags2::REFLINK);" => "live.change(tx, |_| ());";
    "xfs-inode/src/edit.rs", "extents are joined although their states differ":
        "last.unwritten == extent.unwritten" => "last.length_blocks > 0";
}
