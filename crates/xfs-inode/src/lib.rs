//! In-core inodes, forks and extent maps.
