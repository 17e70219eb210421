//! Tests of finding blocks by their cycle and by their header.

use super::{find, find_cycle, find_first_header, find_last_header};
use crate::testing::LogImage;

#[test]
fn header_and_cycle_searches_stay_inside_their_range() {
    let mut image = LogImage::fresh(4096);
    let records: Vec<u32> = (0..30).map(|_| image.append(40)).collect();
    let log = image.device();
    for pair in records.windows(2) {
        let (this, next) = (pair[0], pair[1]);
        assert_eq!(find_last_header(&log, 0, next).unwrap(), Some(this));
        assert_eq!(find_last_header(&log, this + 1, next).unwrap(), None);
        assert_eq!(find_first_header(&log, this + 1, 4096).unwrap(), Some(next));
        assert_eq!(find_first_header(&log, this + 1, next).unwrap(), None);
    }
    let head = image.head.block();
    assert_eq!(find_cycle(&log, 0, 4096, 0).unwrap(), Some(head));
    assert_eq!(find_cycle(&log, 0, head, 0).unwrap(), None);
    assert_eq!(find_cycle(&log, head + 7, 4096, 0).unwrap(), Some(head + 7));
}

#[test]
fn head_is_found_in_a_log_shorter_than_the_records_in_flight() {
    let mut image = LogImage::fresh(1024);
    for _ in 0..200 {
        image.tail = image.head;
        image.append(29);
        assert_eq!(find(&image.device()).unwrap(), image.head.block());
    }
}
