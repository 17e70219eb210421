use super::{PAGE_BYTES, Pages};

fn check(length: usize, offset: usize) {
    let pages = Pages::new(length, offset);
    assert!(pages.bytes().len() >= length, "{length} bytes");
    let at = pages.bytes().as_ptr().addr() + offset;
    assert_eq!(at % PAGE_BYTES as usize, 0, "byte {offset} of {length}");
}

#[test]
fn pages_align_the_given_byte() {
    for offset in [0, 1, 16, 80, 4095, 4096, 4097] {
        check(1, offset);
        check(1 << 20, offset);
    }
}
