//! Tests of the legacy and the bigtime form of time stamps: decodes and encodes the ends of their
//! ranges.

use super::{
    Timestamp, decode_bigtime, decode_legacy, encode_bigtime, encode_legacy, is_legacy_valid,
};

fn check_legacy(raw: u64, seconds: i64, nanoseconds: u32) {
    let time = decode_legacy(raw);
    assert_eq!((time.seconds(), time.nanoseconds()), (seconds, nanoseconds));
    assert_eq!(encode_legacy(time), Some(raw));
}

fn check_bigtime(raw: u64, seconds: i64, nanoseconds: u32) {
    let time = decode_bigtime(raw);
    assert_eq!((time.seconds(), time.nanoseconds()), (seconds, nanoseconds));
    assert_eq!(encode_bigtime(time), Some(raw));
}

#[test]
fn legacy_form_round_trips() {
    check_legacy(0, 0, 0);
    check_legacy(0x0000_0001_0000_0002, 1, 2);
    check_legacy(0xffff_ffff_3b9a_c9ff, -1, 999_999_999);
    check_legacy(0x8000_0000_0000_0000, -(1 << 31), 0);
    check_legacy(0x7fff_ffff_0000_0000, (1 << 31) - 1, 0);
}

#[test]
fn bigtime_form_round_trips() {
    check_bigtime(0, -(1 << 31), 0);
    check_bigtime(1, -(1 << 31), 1);
    check_bigtime((1 << 31) * 1_000_000_000, 0, 0);
    check_bigtime(u64::MAX, 16_299_260_425, 709_551_615);
}

#[test]
fn legacy_nanoseconds_out_of_range_are_clamped_and_detected() {
    let raw = 0x0000_0001_3b9a_ca00;
    assert!(!is_legacy_valid(raw));
    assert_eq!(decode_legacy(raw).nanoseconds(), 999_999_999);
}

#[test]
fn moments_outside_a_form_do_not_encode() {
    for seconds in [i64::MIN, -(1 << 31) - 1, 16_299_260_426, i64::MAX] {
        let time = Timestamp::new(seconds, 999_999_999).unwrap();
        assert_eq!(encode_bigtime(time), None, "{seconds}");
        assert_eq!(encode_legacy(time), None, "{seconds}");
    }
    let after = Timestamp::new(16_299_260_425, 709_551_616).unwrap();
    assert_eq!(encode_bigtime(after), None);
    assert_eq!(Timestamp::new(0, 1_000_000_000), None);
}

#[test]
fn nanoseconds_since_1970_exceed_64_bits() {
    assert_eq!(Timestamp::new(-1, 1).unwrap().nanoseconds_since_1970(), -999_999_999);
    let last = decode_bigtime(u64::MAX);
    assert_eq!(last.nanoseconds_since_1970(), 16_299_260_425_709_551_615);
}

#[test]
fn moments_outside_a_form_clamp_to_the_nearest() {
    let moment = |seconds, nanoseconds| Timestamp::new(seconds, nanoseconds).unwrap();
    assert_eq!(moment(i64::MIN, 7).clamp_legacy(), moment(i32::MIN.into(), 0));
    assert_eq!(moment(i64::MAX, 7).clamp_legacy(), moment(i32::MAX.into(), 0));
    assert_eq!(moment(i32::MAX.into(), 7).clamp_legacy(), moment(i32::MAX.into(), 7));
    assert_eq!(moment(i64::MIN, 7).clamp_bigtime(), moment(-(1 << 31), 0));
    assert_eq!(moment(i64::MAX, 7).clamp_bigtime(), moment(16_299_260_424, 0));
    // The form can hold times after the last one that the kernel sets.
    let last = decode_bigtime(u64::MAX);
    assert_eq!(last.clamp_bigtime(), moment(16_299_260_424, 0));
    assert_eq!(moment(16_299_260_424, 7).clamp_bigtime(), moment(16_299_260_424, 7));
}
