use libmimalloc_sys::mi_option_get;

use super::*;

/// The number of an option is a matter of the allocator's version: its default tells whether it is right.
#[test]
fn freed_memory_is_kept_for_longer_than_by_default() {
    // SAFETY: An option is read, which nobody else does or changes in tests.
    let values = || unsafe { [PURGE_DELAY, PURGE_DECOMMITS].map(|option| mi_option_get(option)) };
    assert_eq!(values(), [1000, 1]);
    keep_freed_memory();
    assert_eq!(values(), [KEPT_MS, WHEN_NEEDED]);
}
