//! XFS in user space: open a volume and read everything in it.
