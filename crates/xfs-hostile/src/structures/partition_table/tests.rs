use super::{DISK_BYTES, inputs};
use xfs_device::{BlockDevice, Durability, MemoryDevice, TableKind, partitions};

#[test]
fn seeds_are_valid_tables() {
    for (input, kind) in inputs().iter().zip([TableKind::Mbr, TableKind::Gpt]) {
        let disk = MemoryDevice::new(DISK_BYTES);
        let (head, tail) = input.split_at(input.len() / 2);
        disk.write_at(head, 0, Durability::Cached).unwrap();
        disk.write_at(tail, DISK_BYTES - tail.len() as u64, Durability::Cached).unwrap();
        let table = partitions(&disk).unwrap().unwrap();
        assert_eq!(table.kind, kind);
        assert_eq!(table.partitions.len(), 1);
    }
}
