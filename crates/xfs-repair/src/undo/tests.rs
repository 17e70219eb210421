use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::UndoFile;
use crate::error::RepairError;
use crate::testing::{damaged, rehearse_copy};

fn undo_file() -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    let undo = rehearse_copy(damaged()).write_undo(file).unwrap();
    let mut bytes = vec![0; undo.file.metadata().unwrap().len() as usize];
    undo.file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn open(bytes: &[u8]) -> Result<UndoFile, RepairError> {
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    UndoFile::open(file)
}

fn check_refused(bytes: &[u8], what: &str) {
    match open(bytes) {
        Err(RepairError::Refused(_)) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: the file is accepted"),
    }
}

#[test]
fn undo_file_reads_back() {
    let undo = open(&undo_file()).unwrap();
    assert!(undo.run_count() >= 3);
    let first = undo.run(0).unwrap();
    assert_eq!((first.offset, first.old.len()), (0, 512));
    assert_ne!(first.old, first.new);
}

/// Writes the undo file of a plan that repairs everything, and the undo file of the same plan with
/// one unchecked part. Checks that only the first one says that the volume is clean after the
/// repair.
#[test]
fn undo_file_says_whether_the_repair_leaves_damage() {
    let mut rehearsal = rehearse_copy(damaged());
    for leaves_clean in [true, false] {
        if !leaves_clean {
            rehearsal.plan.unchecked.push("a part".to_owned());
        }
        let undo = rehearsal.write_undo(tempfile::tempfile().unwrap()).unwrap();
        assert_eq!(undo.leaves_clean(), leaves_clean);
    }
}

/// Checks U3 of `xfs_repair::undo`: a file with a damaged byte is refused.
#[test]
fn each_damaged_byte_is_refused() {
    let sound = undo_file();
    // Every byte of the header and the first runs, and then one byte of every 61.
    for at in (0..1500).chain((1500..sound.len()).step_by(61)) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        check_refused(&bytes, &format!("byte {at}"));
    }
}

/// Checks U3 of `xfs_repair::undo`: a truncated file is refused.
#[test]
fn each_truncation_is_refused() {
    let sound = undo_file();
    for length in (0..sound.len()).step_by(113).chain([sound.len() - 1]) {
        check_refused(&sound[..length], &format!("{length} bytes"));
    }
    let mut longer = sound.clone();
    longer.push(0);
    check_refused(&longer, "one byte more");
}

/// Checks U1 and U3 of `xfs_repair::undo`: a file without one of its runs is refused.
#[test]
fn missing_run_is_refused() {
    let sound = undo_file();
    // The run of the superblock has 32 + 2 * 512 bytes.
    let without = [&sound[..128], &sound[128 + 1056..]].concat();
    check_refused(&without, "without the first run");
}
