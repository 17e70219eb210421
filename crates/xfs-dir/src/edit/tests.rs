use super::BlockEdit;

#[test]
fn edit_reports_the_written_ranges() {
    let mut bytes = [0_u8; 64];
    let mut edit = BlockEdit::new(&mut bytes);
    edit.put_u16(4, 0x0102);
    edit.put_u32(6, 0x0304_0506);
    edit.put_u64(32, u64::MAX);
    edit.shift(4..10, 8);
    assert_eq!((edit.u16_at(8), edit.u32_at(10)), (0x0102, 0x0304_0506));
    edit.clear(60..60);
    edit.shift(20..20, 3);
    let touched: Vec<_> = edit.into_touched().ranges().collect();
    assert_eq!(touched, [4..10, 32..40, 8..14]);
    assert_eq!(bytes[4..14], [1, 2, 3, 4, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn edit_reports_many_ranges() {
    let mut bytes = [0_u8; 64];
    let mut edit = BlockEdit::new(&mut bytes);
    (0..10).for_each(|place| edit.put_u8(60 - 6 * place, 1));
    edit.put_u8(7, 2);
    let touched: Vec<_> = edit.into_touched().ranges().collect();
    let mut expected: Vec<_> = (0..10).map(|place| 60 - 6 * place..61 - 6 * place).collect();
    expected[9] = 6..8;
    assert_eq!(touched, expected);
}
