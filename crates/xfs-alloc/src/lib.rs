//! Allocation groups: headers, free space, inode chunks, reverse map, reference counts.
