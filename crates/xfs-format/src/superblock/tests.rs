//! Superblock checks on a hand-made superblock with mkfs.xfs's values for a 300 MiB volume.
