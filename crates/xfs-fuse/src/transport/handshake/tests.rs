use super::*;

#[test]
fn most_pages_never_exceeds_the_largest_answer() {
    for page_bytes in [4096, 16 << 10, 64 << 10] {
        assert_eq!(usize::from(most_pages(page_bytes)) * page_bytes, MAX_WRITE_BYTES as usize);
    }
}
