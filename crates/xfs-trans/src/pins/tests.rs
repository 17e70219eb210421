use xfs_log::CheckpointEnd;

use super::Pins;

#[test]
fn item_is_pinned_until_its_last_checkpoint_is_durable() {
    let pins = Pins::new();
    pins.pin();
    pins.pin();
    pins.unpin(CheckpointEnd::Durable);
    assert!(pins.is_held() && pins.is_pinned());
    pins.unpin(CheckpointEnd::Durable);
    assert!(!pins.is_held() && !pins.is_pinned());
}

#[test]
fn item_of_a_lost_checkpoint_stays_pinned() {
    let pins = Pins::new();
    pins.pin();
    pins.unpin(CheckpointEnd::Aborted);
    assert!(!pins.is_held() && pins.is_pinned());
}

#[test]
#[should_panic(expected = "an item without a pin is unpinned")]
fn unpin_without_a_pin_panics() {
    Pins::new().unpin(CheckpointEnd::Durable);
}
