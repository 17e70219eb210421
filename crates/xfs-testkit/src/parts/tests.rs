use xfs_device::{Durability, MemoryDevice};

use super::*;
use crate::recording::Request;

fn filled(byte: u8, sectors: usize) -> SharedDevice {
    Arc::new(MemoryDevice::from_bytes(&vec![byte; 512 * sectors]).unwrap())
}

#[test]
fn joined_devices_follow_each_other() {
    let joined = JoinedDevice::new(filled(1, 2), filled(2, 3));
    assert_eq!(joined.length_bytes(), 5 * 512);
    for offset in 0..5 * 512 {
        let mut bytes = [0; 2];
        let read = joined.read_at(&mut bytes, offset);
        let expected = [offset, offset + 1].map(|at| if at < 1024 { 1 } else { 2 });
        match offset + 2 <= 5 * 512 {
            true => assert_eq!(bytes, expected, "at {offset}"),
            false => drop(read.unwrap_err()),
        }
    }
    joined.write_at(&[0; 512], 0, Durability::Cached).unwrap_err();
}

#[test]
fn requests_of_both_parts_are_recorded_in_one_order() {
    let joined: SharedDevice = Arc::new(JoinedDevice::new(filled(1, 2), filled(2, 3)));
    let whole = Arc::new(RecordingDevice::new(joined));
    let [first, second] = whole.split(1024);
    assert_eq!((first.length_bytes(), second.length_bytes()), (1024, 1536));
    first.write_at(&[0; 1], 1024, Durability::Cached).unwrap_err();
    second.write_at(&[5; 512], 512, Durability::Cached).unwrap();
    first.flush().unwrap();
    first.write_at(&[6; 512], 0, Durability::Durable).unwrap();
    second.flush().unwrap();
    second.discard(0, 512).unwrap();
    let write = |offset, byte: u8, durability| {
        let bytes = vec![byte; 512].into();
        Request::Write { offset, bytes, durability }
    };
    let expected = [
        write(1536, 5, Durability::Cached),
        Request::FlushPart(0..1024),
        write(0, 6, Durability::Durable),
        Request::FlushPart(1024..2560),
        Request::Discard { offset: 1024, length: 512 },
    ];
    assert_eq!(whole.recording().requests(), expected);
    let mut found = [0; 1536];
    second.read_at(&mut found, 0).unwrap();
    assert_eq!((found[0], found[512], found[1024]), (0, 5, 2));
}
