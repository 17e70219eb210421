//! Tests of a device that is a byte range of another device: offsets, bounds, and a range that is
//! cut off.

use std::io::ErrorKind;
use std::sync::Arc;

use super::WindowDevice;
use crate::device::{BlockDevice, Durability};
use crate::memory::MemoryDevice;

#[test]
fn window_shifts_offsets_and_refuses_others() {
    let whole = Arc::new(MemoryDevice::new(10_000));
    let window = WindowDevice::new(whole.clone(), 1000, 2000);
    assert_eq!(window.length_bytes(), 2000);
    window.write_at(&[7; 2000], 0, Durability::Durable).unwrap();
    let mut bytes = [0; 2002];
    whole.read_at(&mut bytes, 999).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[2000], bytes[2001]), (0, 7, 7, 0));
    let mut appended = vec![1];
    window.append_at(&mut appended, 2000, 0).unwrap();
    assert_eq!(appended[1..], bytes[1..2001]);
    let error = window.append_at(&mut appended, 2, 1999).unwrap_err();
    assert_eq!((error.kind(), appended.len()), (ErrorKind::UnexpectedEof, 2001));
    let error = window.read_at(&mut [0; 2], 1999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    window.discard(0, 2000).unwrap();
    assert_eq!(window.discard(0, 2001).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    window.prefetch(u64::MAX, u64::MAX);
    window.invalidate(1000, u64::MAX);
}

#[test]
fn window_is_cut_off_at_the_end_of_its_device() {
    let whole = Arc::new(MemoryDevice::new(10_000));
    assert_eq!(WindowDevice::new(whole.clone(), 9000, u64::MAX).length_bytes(), 1000);
    assert_eq!(WindowDevice::new(whole.clone(), 10_000, 5).length_bytes(), 0);
    assert_eq!(WindowDevice::new(whole, u64::MAX, u64::MAX).length_bytes(), 0);
}
