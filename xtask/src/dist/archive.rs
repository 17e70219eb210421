//! Archives of tar whose bytes follow from their members alone: one time for all members, owner
//! root, and no names of users.

use std::io::Write;
use std::process::{Command, Stdio};

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use crate::error::Error;

/// An archive in memory, which gets its members in the order of the calls.
pub(super) struct Archive {
    builder: tar::Builder<Vec<u8>>,
    /// The modification time of every member, in seconds since 1970.
    time: u64,
}

impl Archive {
    pub(super) fn new(time: u64) -> Self {
        Self { builder: tar::Builder::new(Vec::new()), time }
    }

    /// Adds a directory.
    pub(super) fn folder(&mut self, path: &str) -> Result<(), Error> {
        let mut header = self.header(EntryType::Directory, 0o755, 0);
        self.append(|builder| {
            builder.append_data(&mut header, format!("{path}/"), std::io::empty())
        })
    }

    /// Adds a regular file with these permissions.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        let mut header = self.header(EntryType::Regular, mode, bytes.len() as u64);
        self.append(|builder| builder.append_data(&mut header, path, bytes))
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let mut header = self.header(EntryType::Symlink, 0o777, 0);
        self.append(|builder| builder.append_link(&mut header, path, target))
    }

    /// Ends the archive and returns its bytes.
    pub(super) fn bytes(self) -> Result<Vec<u8>, Error> {
        self.builder.into_inner().map_err(Error::file("an archive in memory"))
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.time);
        header.set_size(size);
        header
    }

    fn append(
        &mut self,
        member: impl FnOnce(&mut tar::Builder<Vec<u8>>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        member(&mut self.builder).map_err(Error::file("an archive in memory"))
    }
}

/// Compresses bytes as gzip does, without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(Error::file("an archive in memory"))
}

/// Returns the SHA-256 of bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> Result<String, Error> {
    let failed = |source| Error::Start { program: "sha256sum".to_owned(), source };
    let mut sum = Command::new("sha256sum");
    let mut sum = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    // sha256sum prints only after the end of its input, so neither side waits for the other.
    if let Some(mut input) = sum.stdin.take() {
        let written = input.write_all(bytes);
        written.map_err(|source| Error::Start { program: "sha256sum".to_owned(), source })?;
    }
    let output = sum.wait_with_output();
    let output =
        output.map_err(|source| Error::Start { program: "sha256sum".to_owned(), source })?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let digest = printed.split_whitespace().next().filter(|digest| digest.len() == 64);
    digest.map(str::to_owned).ok_or_else(|| Error::Dist("sha256sum printed no digest".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Archive, gzip, sha256};

    fn archive() -> Vec<u8> {
        let mut archive = Archive::new(1_700_000_000);
        archive.folder("usr").unwrap();
        archive.file("usr/program", 0o755, b"bytes").unwrap();
        archive.link("usr/link", "program").unwrap();
        archive.bytes().unwrap()
    }

    #[test]
    fn members_have_the_time_and_mode_and_belong_to_root() {
        let bytes = archive();
        let mut archive = tar::Archive::new(&bytes[..]);
        let members = archive.entries().unwrap().map(|member| {
            let member = member.unwrap();
            let header = member.header();
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = member.path().unwrap().to_string_lossy().into_owned();
            (path, header.mode().unwrap())
        });
        let expected = [("usr/", 0o755), ("usr/program", 0o755), ("usr/link", 0o777)];
        let expected: Vec<_> =
            expected.into_iter().map(|(path, mode)| (path.to_owned(), mode)).collect();
        assert_eq!(members.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn gzip_stores_no_time_and_decompresses() {
        let packed = gzip(&archive()).unwrap();
        assert_eq!(packed[4..8], [0; 4]);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, archive());
    }

    #[test]
    fn digest_is_that_of_the_published_test_vector() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc").unwrap(), expected);
    }
}
