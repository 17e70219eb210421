use super::{Decoder, Encoder, Garbage};

#[test]
fn values_are_decoded_as_they_were_encoded() {
    let mut encoder = Encoder::default();
    encoder.u32(7).u64(1 << 40).flag(true).u32(9).flag(false).fixed([1, 2, 3, 4]).bytes(b"name5");
    let mut decoder = Decoder::new(encoder.as_slice());
    assert_eq!(decoder.u32(), Ok(7));
    assert_eq!(decoder.u64(), Ok(1 << 40));
    assert_eq!(decoder.optional(Decoder::u32), Ok(Some(9)));
    assert_eq!(decoder.optional(Decoder::u32), Ok(None));
    assert_eq!(decoder.fixed(), Ok([1, 2, 3, 4]));
    assert_eq!(decoder.bytes(), Ok(b"name5".as_slice()));
    assert_eq!(decoder.u32(), Err(Garbage));
}

#[test]
fn bytes_are_padded_to_four() {
    let mut encoder = Encoder::default();
    encoder.bytes(b"abcde");
    assert_eq!(encoder.as_slice(), b"\0\0\0\x05abcde\0\0\0");
}

/// Checks I1 of the crate.
#[test]
fn length_that_the_bytes_do_not_have_is_garbage() {
    for claimed in [5, 0x7fff_ffff, u32::MAX] {
        let bytes = [&claimed.to_be_bytes()[..], b"abcd"].concat();
        assert_eq!(Decoder::new(&bytes).bytes(), Err(Garbage), "{claimed}");
    }
    let unpadded = [0, 0, 0, 1, b'a'];
    assert_eq!(Decoder::new(&unpadded).bytes(), Err(Garbage));
}

#[test]
fn flag_other_than_0_and_1_is_garbage() {
    assert_eq!(Decoder::new(&[0, 0, 0, 2]).flag(), Err(Garbage));
}
