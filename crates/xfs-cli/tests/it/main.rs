//! Tests of the program on the golden image and on new volumes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod archives;
#[cfg(feature = "bench")]
mod benching;
mod blame;
mod building;
mod changing;
mod checking;
mod completion;
mod containers;
mod damaged;
mod datasets;
mod differences;
mod disks;
mod documents;
mod editing;
mod errors;
mod extraction;
mod filling;
mod first_contact;
mod hashes;
mod hints;
mod importing;
mod incomplete;
mod input;
mod interrupts;
mod layers;
mod looking;
mod making;
mod man_pages;
mod matrix;
mod metadump;
mod minimizing;
mod mkfs_options;
mod new_quota;
#[cfg(feature = "object_store")]
mod objects;
mod outputs;
mod packaging;
mod partitions;
mod permissions;
mod progress;
mod quota;
mod repairing;
mod replacing;
mod reproducible;
mod salvage;
mod sandbox;
mod scanning;
mod schema;
mod serving;
mod streams;
mod terminals;
mod torn_logs;
mod trees;
mod untouched;
mod zapping;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use xfs_format::DiskAddr;
use xfs_testkit::{Image, golden};

/// The directory of one test, which holds the golden image in the file `image`.
struct GoldenDir(tempfile::TempDir);

impl GoldenDir {
    fn new() -> Self {
        Self::with(&golden())
    }

    fn with(image: &Image) -> Self {
        Self::in_directory(tempfile::tempdir().expect("a directory"), image)
    }

    fn in_directory(directory: tempfile::TempDir, image: &Image) -> Self {
        let place = Self(directory);
        write_image(image, &place.path().join("image"));
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the program in the directory of the test.
    fn run(&self, arguments: &[&str]) -> Output {
        self.run_as(&PathBuf::from(env!("CARGO_BIN_EXE_ferroxfs")), arguments)
    }

    fn run_as(&self, program: &Path, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(self.path())
            .env("TZ", "UTC")
            .env_remove("NO_COLOR")
            .output()
            .expect("the program runs")
    }
}

/// Writes an image into a file, with holes in place of zeros.
fn write_image(image: &Image, to: &Path) {
    let file = File::create(to).expect("a file");
    file.set_len(image.length_bytes() as u64).expect("a length");
    write_image_at(image, &file, 0);
}

/// Writes the parts of an image that are not zeros into a file, from byte `start` on.
fn write_image_at(image: &Image, file: &File, start: u64) {
    const CHUNK: usize = 64 << 10;
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let length = image.length_bytes();
    for offset in (0..length).step_by(CHUNK) {
        let at = DiskAddr(offset as u64 / 512);
        let bytes = image.bytes(at, CHUNK.min(length - offset)).expect("inside the image");
        // Compares whole slices: an unoptimised loop over the bytes would take most of the time.
        if bytes[..] != ZEROS[..bytes.len()] {
            file.write_all_at(&bytes, start + offset as u64).expect("writes");
        }
    }
}

/// Returns the directory with the golden image for all tests that do not change the image. These
/// tests share the directory. It is in the build directory, because no test removes it.
fn shared() -> &'static GoldenDir {
    static PLACE: OnceLock<GoldenDir> = OnceLock::new();
    let built = env!("CARGO_TARGET_TMPDIR");
    PLACE.get_or_init(|| {
        let directory = tempfile::tempdir_in(built).expect("a directory");
        GoldenDir::in_directory(directory, &golden())
    })
}

/// Returns the output, the messages and the exit code of a run in one text.
fn transcript(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        text.push_str(&format!("! {line}\n"));
    }
    if output.status.code() != Some(0) {
        text.push_str(&format!("exit {}\n", output.status.code().unwrap_or(-1)));
    }
    text
}

/// Runs a command on the golden image and compares its transcript with `expected`.
#[track_caller]
fn check(arguments: &[&str], expected: &expect_test::Expect) {
    expected.assert_eq(&transcript(&shared().run(arguments)));
}
