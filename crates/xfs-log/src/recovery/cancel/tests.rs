use xfs_format::log_item::{BufferFlags, BufferFormat};

use super::*;

fn cancel(at: u64) -> LoggedBuffer<'static> {
    let clean = BufferFormat::clean(DiskAddr(at), 4096);
    LoggedBuffer {
        format: BufferFormat { flags: BufferFlags::CANCEL, ..clean },
        pieces: Vec::new(),
    }
}

/// Checks that each cancellation noted in the first pass can be ended once in the second pass, and
/// that the end of any other cancellation is an error. Another host that writes to the volume may
/// add a cancellation to the log between the passes.
#[test]
fn cancellation_ends_as_often_as_it_was_noted() {
    let mut table = CancelTable::default();
    table.note(&cancel(8));
    table.note(&cancel(8));
    assert_eq!(table.end(&cancel(8)), Ok(()));
    assert!(table.contains(DiskAddr(8), 8), "one cancellation is left");
    assert_eq!(table.end(&cancel(8)), Ok(()));
    assert!(!table.contains(DiskAddr(8), 8));
    for at in [8, 16] {
        let unknown = LogItemCheck::NewCancellation { at, blocks: 8 };
        assert_eq!(table.end(&cancel(at)), Err(unknown));
    }
}
