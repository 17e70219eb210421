use super::{RegionUpdater, RegionWriter, Scratch, first_region};
use crate::testing::item::TestItem;

#[test]
fn regions_are_decoded_as_they_were_encoded() {
    let mut bytes = Vec::new();
    let mut writer = RegionWriter::new(&mut bytes);
    writer.region(b"abcde");
    writer.region(b"");
    writer.encoded(4, |bytes| bytes.extend_from_slice(b"1234"));
    writer.encoded(5, |bytes| bytes.extend_from_slice(b"12345"));
    assert_eq!(writer.regions(), 4);
    assert_eq!(bytes.len(), 8 + 4 + 8 + 4 * 12);
    let mut rest = bytes.as_slice();
    for expected in [b"abcde\0\0\0".as_slice(), b"", b"1234", b"12345\0\0\0"] {
        let (region, next) = first_region(rest).unwrap();
        assert_eq!(region, expected);
        rest = &rest[next..];
    }
    assert_eq!(first_region(rest), None);
}

#[test]
fn each_item_has_a_vector_of_its_own() {
    let mut scratch = Scratch::take();
    let items = [TestItem::with_length(8, 512), TestItem::ordered(16), TestItem::new(24)];
    items.iter().for_each(|item| scratch.format(&**item));
    let lengths = scratch.vectors().flatten().map(|found| (found.bytes.len(), found.regions));
    let found: Vec<_> = lengths.collect();
    assert_eq!(found[1], (0, 0));
    assert_eq!((found[0], found[0].1), (found[2], 2));
    assert_eq!(scratch.length_bytes(), 2 * found[0].0);
    scratch.keep();
    assert_eq!(Scratch::take().length_bytes(), 0);
}

#[test]
fn updated_vector_is_encoded_as_a_new_one() {
    let encode = |regions: [&[u8]; 3]| {
        let mut bytes = Vec::new();
        let mut writer = RegionWriter::new(&mut bytes);
        regions.into_iter().for_each(|region| writer.region(region));
        bytes
    };
    let mut vector = encode([b"abcde", b"", b"1234"]);
    let mut updater = RegionUpdater::new(&mut vector);
    updater.next(5).copy_from_slice(b"fghij");
    updater.next(0);
    updater.next(4)[1] = b'x';
    assert_eq!(vector, encode([b"fghij", b"", b"1x34"]));
}

#[test]
#[should_panic = "kept the lengths of its regions"]
fn region_of_another_length_is_not_updated() {
    let mut vector = Vec::new();
    RegionWriter::new(&mut vector).region(b"12345678");
    RegionUpdater::new(&mut vector).next(4);
}
