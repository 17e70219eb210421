//! Directories, extended attributes, symbolic links and parent pointers.
