//! Tests of counting opens on a machine where writes become visible late.
//!
//! The real source is compiled here against the atomics of loom. Loom explores every execution that
//! the memory model allows, not only those of this processor. With the full fences, an open and a
//! lease never miss each other. Without the fences, loom finds an execution in which they miss each
//! other.

#[path = "../../src/opens.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "this is the library's source, and not all of it runs"
)]
mod opens;

/// The atomics of loom, under the names that `xfs-sync` gives to its own.
mod sync {
    use core::marker::PhantomData;

    pub(crate) use loom::sync::atomic::{Ordering, fence};

    #[derive(Debug)]
    pub(crate) enum Object {}

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name<S>(loom::sync::atomic::$name, PhantomData<S>);

            #[allow(dead_code, reason = "not every atomic is used in every way")]
            impl<S> $name<S> {
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_add(value, order)
                }

                pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_sub(value, order)
                }

                pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_or(value, order)
                }

                pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_and(value, order)
                }
            }

            impl<S> Default for $name<S> {
                fn default() -> Self {
                    Self(loom::sync::atomic::$name::new(0), PhantomData)
                }
            }
        };
    }

    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
}

use std::sync::Arc;

use loom::thread;
use opens::{
    LockWord, OpenMode, OpenTally, Opens, announce_then_sum, count_then_look, full_fence,
    leave_before_look,
};

/// Checks an open through one of two per-CPU slots while another thread sets a lease: the first
/// thread sees the lease, or the second thread sees the open. Both call `barrier` as their fence.
fn open_against_lease(barrier: fn()) {
    loom::model(move || {
        let parts = Arc::new((OpenTally::new(), OpenTally::new(), LockWord::new()));
        let opening = {
            let parts = Arc::clone(&parts);
            thread::spawn(move || count_then_look(&parts.1, &parts.2, OpenMode::Read, barrier))
        };
        let sum = || [parts.0.opens(), parts.1.opens()];
        let counted = announce_then_sum(&parts.2, barrier, sum);
        let sees_no_open = counted == [Opens::default(); 2];
        let sees_lease = opening.join().expect("the open returns");
        assert!(sees_lease || !sees_no_open, "neither saw the other (I1)");
    });
}

/// Checks I1 of `xfs_locks::opens`: at least one of the two threads sees the other thread's write
/// (the open or the lease).
#[test]
fn open_and_lease_with_fences_see_each_other() {
    open_against_lease(full_fence);
}

#[test]
#[should_panic(expected = "neither saw the other")]
fn open_and_lease_without_fences_can_miss_each_other() {
    open_against_lease(|| ());
}

/// Checks two per-CPU slots, each with one open for writing. Two threads end these opens at the
/// same time, with `barrier` as their fence, and at least one of them finds no writer left. In a
/// filesystem that thread frees the blocks that were preallocated past the end of the file.
fn close_against_close(barrier: fn()) {
    loom::model(move || {
        let parts = Arc::new((OpenTally::new(), OpenTally::new()));
        let word = LockWord::default();
        for tally in [&parts.0, &parts.1] {
            count_then_look(tally, &word, OpenMode::Write, || ());
        }
        let left =
            |(one, other): &(OpenTally, OpenTally)| one.opens().writes + other.opens().writes;
        let closing = {
            let parts = Arc::clone(&parts);
            thread::spawn(move || {
                leave_before_look(&parts.1, OpenMode::Write, barrier);
                left(&parts)
            })
        };
        leave_before_look(&parts.0, OpenMode::Write, barrier);
        let left = left(&parts);
        let left_by_other = closing.join().expect("the close returns");
        assert!(left == 0 || left_by_other == 0, "neither was the last (I3)");
    });
}

/// Checks I3 of `xfs_locks::opens`: if two threads close a file at the same time, at least one of
/// them finds that no writer is left.
#[test]
fn one_of_two_closes_with_fences_is_the_last() {
    close_against_close(full_fence);
}

#[test]
#[should_panic(expected = "neither was the last")]
fn two_closes_without_fences_can_miss_each_other() {
    close_against_close(|| ());
}
