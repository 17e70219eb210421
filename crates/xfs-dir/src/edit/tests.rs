use super::BlockEdit;

#[test]
fn what_changed_is_what_was_put() {
    let mut bytes = [0_u8; 64];
    let mut edit = BlockEdit::new(&mut bytes);
    edit.put_u16(4, 0x0102);
    edit.put_u32(6, 0x0304_0506);
    edit.put_u64(32, u64::MAX);
    edit.shift(4..10, 8);
    assert_eq!((edit.u16_at(8), edit.u32_at(10)), (0x0102, 0x0304_0506));
    edit.clear(60..60);
    edit.shift(20..20, 3);
    assert_eq!(edit.into_touched(), [4..10, 32..40, 8..14]);
    assert_eq!(bytes[4..14], [1, 2, 3, 4, 1, 2, 3, 4, 5, 6]);
}
