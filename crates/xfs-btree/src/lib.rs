//! One generic btree cursor for every XFS btree.
