//! An archive in the format "newc" of cpio, which a kernel unpacks as its first root.
//!
//! ```text
//! 070701 inode mode uid gid nlink mtime filesize major minor rmajor rminor namesize check
//! name, a zero byte, zeros up to a multiple of 4; contents, zeros up to a multiple of 4
//! ```
//!
//! Each number has eight hexadecimal digits.

/// An archive to which folders, files and links are added.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    members: u32,
}

impl Archive {
    /// Adds a folder. Its parent must be in the archive already.
    pub(super) fn add_folder(&mut self, name: &str) {
        self.add(name, FOLDER | 0o755, &[]);
    }

    /// Adds a file with these permissions.
    pub(super) fn add_file(&mut self, name: &str, permissions: u32, contents: &[u8]) {
        self.add(name, FILE | permissions, contents);
    }

    /// Adds a symbolic link.
    pub(super) fn add_link(&mut self, name: &str, target: &str) {
        self.add(name, LINK | 0o777, target.as_bytes());
    }

    /// Returns the whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn add(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.members += 1;
        let size = u32::try_from(contents.len()).expect("a file of a guest's root is below 4 GiB");
        let name_bytes = u32::try_from(name.len() + 1).expect("a name is short");
        let fields = [self.members, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_bytes, 0]
            .map(|field| format!("{field:08x}"));
        self.bytes.extend(b"070701");
        self.bytes.extend(fields.concat().as_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(contents);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

#[cfg(test)]
mod tests;
