use super::{LogVector, RegionWriter, VectorSize};

#[test]
fn regions_come_out_as_they_went_in() {
    let mut vector = LogVector::default();
    vector.prepare(VectorSize { regions: 3, bytes: 9 });
    let mut writer = RegionWriter::new(&mut vector);
    writer.region(b"abcde");
    writer.region(b"");
    writer.region_of(&[b"12", b"34"]);
    let regions: Vec<_> = vector.regions().collect();
    assert_eq!(regions, [b"abcde".as_slice(), b"", b"1234"]);
    assert_eq!(vector.log_bytes(), 8 + 4 + 3 * 12);
}

#[test]
fn a_prepared_vector_takes_its_item_without_growing() {
    let mut vector = LogVector::default();
    for length in [1_usize, 1000, 7, 129] {
        vector.prepare(VectorSize { regions: 2, bytes: 2 * length });
        let before = vector.bytes.as_ptr();
        let mut writer = RegionWriter::new(&mut vector);
        writer.region(&vec![7; length]);
        writer.region(&vec![8; length]);
        assert_eq!(before, vector.bytes.as_ptr());
        assert_eq!(vector.region_count(), 2);
    }
}
