//! Tests of the places, types and GUIDs of a new disk.

use ferroxfs::admin::Uuid;
use xfs_device::{PartitionType, TableKind};

use super::{DiskPlan, TYPES, derive, purpose};

const MIB: u64 = 1 << 20;

fn plan(kind: TableKind) -> DiskPlan {
    DiskPlan { kind, purpose: purpose(kind, "linux").unwrap(), name: String::new(), esp: None }
}

#[test]
fn volume_fits_onto_its_disk() {
    for kind in [TableKind::Gpt, TableKind::Mbr] {
        let plan = plan(kind);
        for bytes in [1, MIB - 1, MIB, MIB + 1, 300 * MIB, 300 * MIB + 65536] {
            let disk = plan.disk_bytes(bytes);
            let range = plan.volume_range(disk).unwrap();
            assert_eq!(range.start, MIB);
            assert!(
                (bytes..bytes + MIB).contains(&(range.end - range.start)),
                "{bytes}: {range:?}"
            );
            assert_eq!(range.end + MIB, disk);
        }
        assert!(plan.volume_range(2 * MIB).is_err());
        assert!(plan.volume_range(0).is_err());
        assert_eq!(plan.volume_range(4 * MIB - 1).unwrap(), MIB..2 * MIB);
    }
}

#[test]
fn types_are_names_guids_or_bytes() {
    for (name, _) in TYPES {
        assert!(matches!(purpose(TableKind::Gpt, name), Ok(PartitionType::Gpt(_))), "{name}");
    }
    let home = "933AC7E1-2EB4-4F13-B844-0E14E2AEF915";
    assert_eq!(
        purpose(TableKind::Gpt, home).unwrap(),
        purpose(TableKind::Gpt, "linux-home").unwrap()
    );
    assert_eq!(purpose(TableKind::Mbr, "linux").unwrap(), PartitionType::Mbr(0x83));
    assert_eq!(purpose(TableKind::Mbr, "0xAf").unwrap(), PartitionType::Mbr(0xaf));
    for wrong in ["", "0x83", "linux-roots", "00000000-0000-0000-0000-000000000000"] {
        assert!(purpose(TableKind::Gpt, wrong).is_err(), "{wrong}");
    }
    for wrong in ["", "0x0", "0x100", "83", "linux-home"] {
        assert!(purpose(TableKind::Mbr, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn derived_guids_depend_on_volume_and_purpose() {
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    assert_eq!(derive(&one, "disk"), derive(&one, "disk"));
    assert_ne!(derive(&one, "disk"), derive(&other, "disk"));
    assert_ne!(derive(&one, "disk"), derive(&one, "esp"));
    assert_eq!(derive(&one, "disk").get_version_num(), 8);
}
