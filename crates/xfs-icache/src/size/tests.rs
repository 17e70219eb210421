use super::Size;

#[test]
fn only_the_inodes_beyond_the_limit_are_due() {
    let size = Size::new(1000);
    size.add_many(1000);
    assert_eq!((size.excess(), size.due()), (0, 0));
    // Each call takes a part of the excess. In total that is at most one batch more.
    size.add_many(1500);
    assert_eq!(size.excess(), 1500);
    let mut evicted = 0;
    loop {
        let due = size.due();
        if due == 0 {
            break;
        }
        evicted += due;
        size.subtract_many(due);
    }
    assert!(evicted > 0 && evicted <= 1500 + size.batch, "{evicted}");
    size.subtract_many(2500 - evicted);
    assert_eq!((size.excess(), size.due()), (0, 0));
}
