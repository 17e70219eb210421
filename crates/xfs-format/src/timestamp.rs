//! Time stamps of inodes, in both encodings.
