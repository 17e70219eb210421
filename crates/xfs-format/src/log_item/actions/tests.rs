//! Tests of the numbers that stand for the actions of intents, and of unknown bits in an intent's
//! flags.

use super::*;

#[test]
fn actions_have_the_numbers_of_the_format() {
    assert_eq!(RmapAction::Map.encode(RmapFlags::empty()), 1);
    assert_eq!(RmapAction::Free.encode(RmapFlags::empty()), 8);
    let flags = RmapFlags::ATTR | RmapFlags::FORK_BTREE;
    assert_eq!(RmapAction::Unmap.encode(flags), 0xc000_0003);
    assert_eq!(RmapAction::Convert.encode(RmapFlags::UNWRITTEN), 0x2000_0005);
    assert_eq!(RefcountAction::Unstage.encode(), 4);
    for action in RmapAction::ALL {
        let encoded = action.encode(RmapFlags::UNWRITTEN);
        assert_eq!(RmapAction::decode(encoded), Ok((action, RmapFlags::UNWRITTEN)));
    }
    for action in RefcountAction::ALL {
        assert_eq!(RefcountAction::decode(action.encode()), Ok(action));
    }
}

#[test]
fn unknown_bits_are_errors() {
    for flags in [0, 9, 0x101, 0x1000_0001] {
        assert_eq!(RmapAction::decode(flags), Err(LogItemCheck::Action { flags }));
    }
    for flags in [0, 5, 0x8000_0001] {
        assert_eq!(RefcountAction::decode(flags), Err(LogItemCheck::Action { flags }));
    }
}
