//! Reads and writes metadata images: volumes without the contents of files.
//!
//! Owns: the formats of `xfs_metadump` (versions 1 and 2), the choice of blocks, and obfuscated
//! names. Does **not** own: the command's arguments and output.
