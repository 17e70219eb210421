//! Tests of durations and of the mark for usage over a limit.

use ferroxfs::quota::Usage;

use super::{duration, is_over};

#[test]
fn duration_is_in_days_or_in_hours_and_minutes() {
    let shown = [0, 59, 3_661, 86_400, 172_799, 172_800, 604_800].map(duration);
    assert_eq!(shown, ["00:00", "00:00", "01:01", "24:00", "47:59", "2days", "7days"]);
}

#[test]
fn usage_is_over_only_past_a_limit_that_is_set() {
    let usage = |used, soft, hard| {
        let mut usage = Usage::default();
        (usage.used, usage.soft, usage.hard) = (used, soft, hard);
        usage
    };
    assert!(!is_over(&usage(5, 0, 0)));
    assert!(!is_over(&usage(5, 5, 9)));
    assert!(is_over(&usage(6, 5, 9)));
    assert!(is_over(&usage(6, 0, 5)));
}
