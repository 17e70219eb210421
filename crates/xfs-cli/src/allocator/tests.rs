use libmimalloc_sys::mi_option_get;

use super::*;

/// Checks the values of the options `PURGE_DELAY` and `PURGE_DECOMMITS` before and after the call
/// of `keep_freed_memory`. The values before the call must be the defaults. This shows that the
/// numbers of the options are right; they depend on the version of the allocator.
#[test]
fn freed_memory_is_kept_for_longer_than_by_default() {
    // SAFETY: The options are only read, and no other code in tests uses or changes them.
    let values = || unsafe { [PURGE_DELAY, PURGE_DECOMMITS].map(|option| mi_option_get(option)) };
    assert_eq!(values(), [1000, 1]);
    keep_freed_memory();
    assert_eq!(values(), [KEPT_MS, WHEN_NEEDED]);
}
