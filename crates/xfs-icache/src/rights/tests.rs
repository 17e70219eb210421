use super::{Rights, RightsHint};

const FIRST: Rights = Rights { uid: u32::MAX, gid: 7, mode: 0o40755 };
const SECOND: Rights = Rights { uid: 8, gid: u32::MAX, mode: 0o170777 };

#[test]
fn hint_is_empty_at_first_and_once_forgotten() {
    let hint = RightsHint::default();
    assert_eq!(hint.rights(), None);
    hint.note(FIRST);
    assert_eq!(hint.rights(), Some(FIRST));
    hint.forget();
    assert_eq!(hint.rights(), None);
    hint.note(SECOND);
    assert_eq!(hint.rights(), Some(SECOND));
}

/// Checks I2 of `xfs_icache::rights`: every reader gets ids and a mode that were stored together.
#[test]
#[cfg(not(shuttle))]
fn hint_read_during_changes_is_never_torn() {
    let hint = RightsHint::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let seen = hint.rights();
                    assert!(seen.is_none_or(|seen| seen == FIRST || seen == SECOND), "{seen:?}");
                }
            });
        }
        for _ in 0..10_000 {
            for rights in [FIRST, SECOND] {
                hint.forget();
                hint.note(rights);
            }
        }
    });
}
