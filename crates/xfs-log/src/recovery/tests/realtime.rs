//! Tests of the replay of blocks of a classic realtime section.

use xfs_device::Durability;
use xfs_format::DiskAddr;
use xfs_format::log_item::BufferType;

use super::{Bench, buffer, read};

/// Checks that replay writes only the logged bytes of a bitmap block or a summary block of a
/// classic section, where blocks have no header. The logged bytes start with the magic number of
/// the header that such blocks have in realtime groups.
#[test]
fn block_of_a_classic_section_that_looks_like_a_header_keeps_its_other_words() {
    for (kind, magic) in
        [(BufferType::RealtimeBitmap, b"BMPZ"), (BufferType::RealtimeSummary, b"SUMY")]
    {
        let mut bench = Bench::new();
        let at = DiskAddr(bench.data.length_bytes() / 512 - 8);
        let offset = at.byte_offset().unwrap();
        bench.data.write_at(&[0x5a; 4096], offset, Durability::Cached).unwrap();
        let mut words = [0xa5; 128];
        words[..4].copy_from_slice(magic);
        bench.log.append_transaction(1, &[buffer(at, 8, kind, 0, &words)]);
        let replayed = bench.replay().unwrap();
        let found = read(&*replayed.device(), offset, 4096);
        assert_eq!(found[..128], words, "{kind:?}");
        assert_eq!(found[128..], [0x5a; 4096 - 128], "{kind:?}");
    }
}
