use super::PlanText;
use crate::error::RepairError;
use crate::plan::LogOutcome;
use crate::testing::{damaged, rehearse_copy};

fn check_refused(text: &str, what: &str) {
    match PlanText::parse(text) {
        Err(RepairError::Refused(_)) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: the plan is accepted"),
    }
}

#[test]
fn plan_text_reads_back() {
    let rehearsal = rehearse_copy(damaged());
    let text = rehearsal.plan().text();
    let parsed = PlanText::parse(&text).unwrap();
    assert!(!parsed.allow_loss());
    parsed.require(rehearsal.plan()).unwrap();
}

/// Checks that two plans for the same damaged image have the same text (R2 of the crate).
#[test]
fn same_image_gives_the_same_plan() {
    let (one, other) = (rehearse_copy(damaged()), rehearse_copy(damaged()));
    assert_eq!(one.plan().text(), other.plan().text());
}

#[test]
fn replay_of_a_sound_log_counts_as_no_damage() {
    let mut plan = rehearse_copy(damaged()).plan().clone();
    assert!(plan.is_damaged());
    plan.actions.clear();
    assert!(plan.is_damaged(), "changes without a reason");
    plan.log = LogOutcome::Replayed;
    assert!(!plan.is_damaged());
    plan.unchecked.push("a part".to_owned());
    assert!(plan.is_damaged());
}

#[test]
fn damaged_plan_is_refused() {
    let sound = rehearse_copy(damaged()).plan().text();
    for at in 0..sound.len() {
        let mut bytes = sound.clone().into_bytes();
        bytes[at] ^= 1;
        check_refused(&String::from_utf8(bytes).unwrap(), &format!("byte {at}"));
    }
    for length in 0..sound.len() {
        check_refused(sound.get(..length).unwrap(), &format!("{length} bytes"));
    }
}

#[test]
fn plan_of_another_image_is_refused() {
    let text = rehearse_copy(damaged()).plan().text();
    let parsed = PlanText::parse(&text).unwrap();
    let other = damaged();
    let device: &dyn xfs_device::BlockDevice = &*other;
    device.write_at(&[1; 512], 512 * 9, xfs_device::Durability::Cached).unwrap();
    let error = parsed.require(rehearse_copy(other).plan()).unwrap_err();
    assert!(matches!(error, RepairError::Refused(_)));
}
