use std::collections::BTreeSet;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::IncompatFeatures;
use xfs_testkit::{
    Atomicity, CowDevice, FailingDevice, Fault, Persistence, PowerCuts, RecordingDevice,
    RequestKind, golden,
};

use super::{VolumeState, resume, undo, volume_state};
use crate::error::RepairError;
use crate::testing::{bytes, damaged, rehearse_copy, superblock_of};
use crate::undo::UndoFile;

/// A damaged volume, the undo file of its repair, and the bytes of the volume before and after the
/// repair.
struct Case {
    device: Arc<CowDevice>,
    undo: UndoFile,
    before: Vec<u8>,
    after: Vec<u8>,
}

fn case() -> Case {
    let device = damaged();
    let rehearsal = rehearse_copy(device.clone());
    let undo = rehearsal.write_undo(tempfile::tempfile().unwrap()).unwrap();
    let before = bytes(&*device);
    let after = bytes(&golden());
    assert_ne!(before, after);
    Case { device, undo, before, after }
}

impl Case {
    /// Checks a volume on which an apply or an undo was interrupted. On one copy, `resume` must
    /// give the volume after the repair; on another copy, `undo` must give the volume before it.
    fn check_both_ways(&self, left: &CowDevice, what: &dyn std::fmt::Display) {
        let forward = left.fork();
        resume(&self.undo, &forward, &()).unwrap();
        assert!(is_equal(&forward, &golden()), "{what}: resume does not end as after");
        let back = left.fork();
        undo(&self.undo, &back, &()).unwrap();
        assert!(is_equal(&back, &*self.device), "{what}: undo does not end as before");
    }
}

/// Returns whether a copy of the damaged golden image is equal to another volume. Only the chunks
/// that differ from the golden image in the copy are compared.
fn is_equal(copy: &CowDevice, other: &dyn BlockDevice) -> bool {
    copy.changed_chunks().iter().all(|(at, chunk)| {
        let mut there = vec![0; chunk.len()];
        other.read_at(&mut there, *at).unwrap();
        there == *chunk
    })
}

/// Checks that an apply gives every byte its new value, and that an undo then gives it its old
/// value (R3 of the crate, A1 of `apply`).
#[test]
fn apply_and_undo_are_equal_byte_for_byte() {
    let case = case();
    assert_eq!(volume_state(&case.undo, &*case.device).unwrap(), VolumeState::Before);
    resume(&case.undo, &*case.device, &()).unwrap();
    assert!(bytes(&*case.device) == case.after);
    assert_eq!(volume_state(&case.undo, &*case.device).unwrap(), VolumeState::After);
    undo(&case.undo, &*case.device, &()).unwrap();
    assert!(bytes(&*case.device) == case.before);
}

/// Cuts the power at every request of an apply, and of an undo. Checks that `resume` and `undo`
/// both complete from there (R3 of the crate, A1 and A2 of `apply`).
#[test]
fn power_cut_at_every_request_leaves_resume_and_undo() {
    let case = case();
    for is_undo in [false, true] {
        let start = case.device.fork();
        if is_undo {
            resume(&case.undo, &start, &()).unwrap();
        }
        let recorder = RecordingDevice::of(start);
        let act = if is_undo { undo } else { resume };
        act(&case.undo, &recorder, &()).unwrap();
        let recording = recorder.recording();
        // Everything but the superblock may be torn between sectors.
        let torn = Atomicity::default().torn(512..case.device.length_bytes());
        let cuts = PowerCuts::new(&recording, torn);
        let mut count = 0;
        for cut in cuts.all(4) {
            case.check_both_ways(&cuts.after(cut), &format!("undo {is_undo}, cut {cut}"));
            count += 1;
        }
        assert!(count > 20, "only {count} cuts were tried");
    }
}

/// Cuts the power at every request of an apply. Checks that a volume that is neither the old nor
/// the new one has the flag NEEDSREPAIR (A3 of `apply`).
#[test]
fn needs_repair_is_durable_while_runs_are_written() {
    let case = case();
    let recorder = RecordingDevice::of(case.device.fork());
    resume(&case.undo, &recorder, &()).unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default());
    for cut in cuts.all(4) {
        let left = bytes(&cuts.after(cut));
        if left != case.before && left != case.after {
            let superblock = superblock_of(&left[..512]);
            assert!(
                superblock.has_incompat(IncompatFeatures::NEEDSREPAIR),
                "cut {cut} leaves a half-repaired volume without NEEDSREPAIR"
            );
        }
    }
}

/// Applies a repair repeatedly, for n = 1, 2, 3 and so on, while the n-th request of this kind
/// fails (and all later ones, if `persistence` says so). Ends with the first apply that has no
/// failing request. Checks that `resume` and `undo` work on the volume after each failed apply.
fn check_failures(kind: RequestKind, persistence: Persistence) {
    let case = case();
    for nth in 1.. {
        let inner = Arc::new(case.device.fork());
        let failing = FailingDevice::new(inner.clone(), nth);
        failing.set_fault(Some(Fault { kind, nth, persistence }));
        let result = resume(&case.undo, &failing, &());
        let failures = failing.failures();
        drop(failing);
        if failures == 0 {
            assert!(result.is_ok() && nth > 2, "request {nth}");
            return;
        }
        assert!(result.is_err(), "the failure of request {nth} was not reported");
        case.check_both_ways(&inner, &format!("{kind:?} {nth} failed"));
    }
}

#[test]
fn failed_write_leaves_resume_and_undo() {
    check_failures(RequestKind::Write, Persistence::Once);
    check_failures(RequestKind::Write, Persistence::Forever);
}

#[test]
fn failed_flush_leaves_resume_and_undo() {
    check_failures(RequestKind::Flush, Persistence::Once);
}

#[test]
fn failed_read_is_reported_and_changes_nothing() {
    let case = case();
    for nth in 1.. {
        let inner = Arc::new(case.device.fork());
        let failing = FailingDevice::new(inner.clone(), nth);
        let fault = Fault { kind: RequestKind::Read, nth, persistence: Persistence::Once };
        failing.set_fault(Some(fault));
        if resume(&case.undo, &failing, &()).is_ok() {
            assert!(nth > 3);
            return;
        }
        assert!(bytes(&*inner) == case.before, "read {nth} failed after a write");
    }
}

fn check_refused(undo_file: &UndoFile, device: &dyn BlockDevice) {
    let before = bytes(device);
    for act in [resume, undo] {
        let error = act(undo_file, device, &()).unwrap_err();
        assert!(matches!(error, RepairError::Refused(_)), "{error}");
    }
    assert!(bytes(device) == before, "a refused call wrote to the volume");
}

#[test]
fn volume_that_another_program_changed_is_refused() {
    let case = case();
    resume(&case.undo, &*case.device, &()).unwrap();
    let changed = case.device.fork();
    changed.write_at(&[7; 512], 1024, Durability::Cached).unwrap();
    check_refused(&case.undo, &changed);
}

/// Checks that `resume` and `undo` refuse a volume that was mounted after the repair, which the
/// head of the log shows (U4 of `undo`).
#[test]
fn volume_whose_log_was_written_since_is_refused() {
    let case = case();
    resume(&case.undo, &*case.device, &()).unwrap();
    let shared: SharedDevice = case.device.clone();
    let superblock = superblock_of(&case.after[..512]);
    let log = xfs_log::LogDevice::new(shared.clone(), &superblock).unwrap();
    // A mount and an unmount write one more record at the head.
    xfs_log::end_clean_log(log, superblock.uuid).unwrap();
    check_refused(&case.undo, &*shared);
}

/// Changes a header of a repaired group after the repair, as a program without the log would.
/// Checks that `resume` and `undo` refuse the volume (U4 of `undo`).
#[test]
fn volume_whose_group_headers_changed_since_is_refused() {
    let case = case();
    resume(&case.undo, &*case.device, &()).unwrap();
    let geometry = superblock_of(&case.after[..512]).geometry;
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let runs = (0..case.undo.run_count()).map(|index| case.undo.run(index).unwrap());
    // The witness at the head of the log lies in a group in which nothing is changed.
    let changes = runs.filter(|run| run.old != run.new);
    let groups: BTreeSet<u64> = changes.map(|run| run.offset / group_bytes * group_bytes).collect();
    for group in groups {
        for header in [group + 512, group + 1024] {
            let changed = case.device.fork();
            let mut sector = [0; 512];
            changed.read_at(&mut sector, header).unwrap();
            sector[100] ^= 1;
            changed.write_at(&sector, header, Durability::Cached).unwrap();
            check_refused(&case.undo, &changed);
        }
    }
}

#[test]
fn device_of_another_length_is_refused() {
    let case = case();
    let longer = xfs_device::MemoryDevice::new(case.device.length_bytes() + 512);
    check_refused(&case.undo, &longer);
}
