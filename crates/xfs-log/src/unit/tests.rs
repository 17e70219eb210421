use super::RecordLayout;

const SMALL: RecordLayout = RecordLayout { buffer_bytes: 32 << 10, roundoff_bytes: 512 };

#[test]
fn record_has_a_header_for_every_32_kib() {
    let header_bytes = |buffer_bytes| RecordLayout { buffer_bytes, ..SMALL }.header_bytes();
    assert_eq!(header_bytes(32 << 10), 512);
    assert_eq!(header_bytes(64 << 10), 1024);
    assert_eq!(header_bytes(256 << 10), 4096);
}

#[test]
fn full_record_needs_no_padding() {
    let layout = RecordLayout { buffer_bytes: 256 << 10, roundoff_bytes: 96 << 10 };
    assert_eq!(layout.payload_bytes() + layout.header_bytes(), 2 * (96 << 10));
}

#[test]
fn unit_covers_the_records_that_its_items_touch() {
    let empty = SMALL.unit_bytes(0);
    // A header, an operation that continues, and one whose least piece found no room.
    let overhead = 512 + 12 + (12 + 128);
    assert_eq!(empty, SMALL.checkpoint_bytes());
    assert_eq!(empty, 3 * 12 + 16 + 2 * overhead + 2 * 512);
    let payload = u64::from(SMALL.item_bytes());
    assert_eq!(SMALL.unit_bytes(1), empty + 1 + overhead);
    assert_eq!(SMALL.unit_bytes(payload), empty + payload + overhead);
    assert_eq!(SMALL.unit_bytes(payload + 1), empty + payload + 1 + 2 * overhead);
}
