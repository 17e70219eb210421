//! A disk with a partition table around the new volume: `mkfs --disk`.
//!
//! Owns: the places and the types of the partitions, and their GUIDs. Does **not** own: the bytes
//! of the table (`xfs-device`), the files of the EFI system partition ([`esp`](super::esp)).
//!
//! ```text
//! 0         1 MiB                                                            end - 1 MiB  end
//! | table   | EFI system partition (--esp) | volume                          | copy of a GPT |
//! ```
//!
//! All GUIDs are derived from the UUID of the volume, so that the same input gives the same bytes.

use std::ops::Range;
use std::rc::Rc;

use ferroxfs::Timestamp;
use ferroxfs::admin::Uuid;
use ring::digest::{SHA256, digest};
use xfs_device::{
    BlockDevice, NewPartition, NewTable, PartitionType, SharedDevice, TableKind, WindowDevice,
};

use super::esp::Esp;
use crate::cli::{DiskKind, DiskOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::Object;
use crate::text::size;

/// The places of partitions are multiples of this number of bytes. The same number is left free at
/// both ends of the disk.
const ALIGNMENT: u64 = 1 << 20;

/// The type of an EFI system partition in a GPT and in an MBR.
const ESP_GUID: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
const ESP_BYTE: u8 = 0xef;
const ESP_NAME: &str = "ESP";

/// The names of types, as in the specification of discoverable partitions and in systemd-repart.
const TYPES: [(&str, &str); 12] = [
    ("linux", "0fc63daf-8483-4772-8e79-3d69d8477de4"),
    ("linux-generic", "0fc63daf-8483-4772-8e79-3d69d8477de4"),
    ("linux-root-x86-64", "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"),
    ("linux-root-arm64", "b921b045-1df0-41c3-af44-4c6f280d3fae"),
    ("linux-root-riscv64", "72ec70a6-cf74-40e6-bd49-4bda08e8f224"),
    ("linux-usr-x86-64", "8484680c-9521-48c6-9c11-b0720656f69e"),
    ("linux-usr-arm64", "b0e01050-ee5f-4390-949a-9101b17104e9"),
    ("linux-home", "933ac7e1-2eb4-4f13-b844-0e14e2aef915"),
    ("linux-srv", "3b8f8425-20e0-4f3b-907f-1a25a76f98e8"),
    ("linux-var", "4d21b016-b534-45c2-a9fb-5c16e091fd2d"),
    ("xbootldr", "bc13c2ff-59e6-4262-a352-b275fd6f7172"),
    ("esp", ESP_GUID),
];
const LINUX_BYTE: u8 = 0x83;

/// The disk that the command line asks for.
pub(super) struct DiskPlan {
    kind: TableKind,
    purpose: PartitionType,
    name: String,
    esp: Option<Esp>,
}

impl DiskPlan {
    /// Returns the disk that the options ask for. `None` for a volume without a disk. Reads the
    /// names and sizes of the files for the EFI system partition. No time in it is later than
    /// `time`.
    pub(super) fn parse(
        options: &DiskOptions,
        time: Option<Timestamp>,
    ) -> Result<Option<Rc<Self>>, Failure> {
        let Some(kind) = options.disk else { return Ok(None) };
        let kind = match kind {
            DiskKind::Gpt => TableKind::Gpt,
            DiskKind::Mbr => TableKind::Mbr,
        };
        let purpose = purpose(kind, options.partition_type.as_deref().unwrap_or("linux"))?;
        if kind == TableKind::Mbr && options.partition_name.is_some() {
            return Err(Failure::usage("--partition-name: partitions of an MBR have no names"));
        }
        let esp = options.esp.as_ref().map(|from| Esp::survey(from, options.esp_size, time));
        let name = options.partition_name.clone().unwrap_or_default();
        Ok(Some(Rc::new(Self { kind, purpose, name, esp: esp.transpose()? })))
    }

    /// Returns the offset of the volume on the disk.
    fn volume_start(&self) -> u64 {
        ALIGNMENT + self.esp.as_ref().map_or(0, Esp::length_bytes)
    }

    /// Returns the length of a disk for a volume of this many bytes.
    pub(super) fn disk_bytes(&self, volume_bytes: u64) -> u64 {
        let end = self.volume_start().saturating_add(volume_bytes);
        end.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX).saturating_add(ALIGNMENT)
    }

    /// Returns the place of the volume on a disk of this many bytes.
    pub(super) fn volume_range(&self, disk_bytes: u64) -> Result<Range<u64>, Failure> {
        let start = self.volume_start();
        let end = disk_bytes.saturating_sub(ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        if start < end {
            return Ok(start..end);
        }
        let needed = size::human(start + ALIGNMENT);
        let message = format!("is too small for a disk: all but the volume takes {needed}");
        Err(Failure::usage(message))
    }

    /// Checks that the table can have these partitions.
    pub(super) fn verify(&self, disk: &dyn BlockDevice) -> Result<(), Failure> {
        let table = self.table(self.volume_range(disk.length_bytes())?, &Uuid::nil());
        let verified = table.verify(disk.length_bytes(), disk.sector_size());
        verified.map_err(|error| Failure::usage(error.to_string()))
    }

    fn table(&self, volume: Range<u64>, seed: &Uuid) -> NewTable {
        let mut partitions = Vec::new();
        if let Some(esp) = &self.esp {
            partitions.push(NewPartition {
                start: ALIGNMENT,
                length_bytes: esp.length_bytes(),
                purpose: match self.kind {
                    TableKind::Gpt => PartitionType::Gpt(guid(ESP_GUID)),
                    TableKind::Mbr => PartitionType::Mbr(ESP_BYTE),
                },
                identity: derive(seed, "esp"),
                name: ESP_NAME.to_owned(),
            });
        }
        partitions.push(NewPartition {
            start: volume.start,
            length_bytes: volume.end - volume.start,
            purpose: self.purpose,
            identity: derive(seed, "volume"),
            name: self.name.clone(),
        });
        NewTable { kind: self.kind, identity: derive(seed, "disk"), partitions }
    }

    /// Writes everything but the volume: the EFI system partition, and then the table. `seed` is
    /// the UUID of the volume.
    pub(super) fn write(&self, disk: &SharedDevice, seed: &Uuid) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new(Exit::Failed, error.to_string());
        let volume = self.volume_range(disk.length_bytes())?;
        // Labels of other kinds of contents must not stay beside the table.
        disk.write_zeros(0, ALIGNMENT).map_err(failed)?;
        disk.write_zeros(volume.end, disk.length_bytes() - volume.end).map_err(failed)?;
        if let Some(esp) = &self.esp {
            let place = WindowDevice::new(disk.clone(), ALIGNMENT, esp.length_bytes());
            esp.write(&place, derive(seed, "files").as_fields().0)?;
        }
        self.table(volume, seed).write(&**disk).map_err(failed)
    }

    /// Returns the facts of the disk for a JSON document.
    pub(super) fn describe(&self) -> Object {
        let mut object = Object::new();
        let kind = self.kind.name().to_lowercase();
        object.insert("disk".to_owned(), kind.into());
        let number = 1 + u32::from(self.esp.is_some());
        object.insert("partition".to_owned(), number.into());
        object.insert("partition_offset".to_owned(), self.volume_start().into());
        if let Some(esp) = &self.esp {
            object.insert("esp_bytes".to_owned(), esp.length_bytes().into());
        }
        object
    }
}

/// Returns the type of a partition that `text` names.
fn purpose(kind: TableKind, text: &str) -> Result<PartitionType, Failure> {
    let lower = text.to_lowercase();
    if kind == TableKind::Mbr {
        let byte = match lower.as_str() {
            "linux" | "linux-generic" => Some(LINUX_BYTE),
            "esp" => Some(ESP_BYTE),
            _ => lower.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        };
        return byte.filter(|byte| *byte != 0).map(PartitionType::Mbr).ok_or_else(|| {
            Failure::usage(format!("--partition-type {text}: not a type of an MBR"))
                .hint("linux, esp, or a byte such as 0x83")
        });
    }
    let named = TYPES.iter().find(|(name, _)| *name == lower).map(|(_, guid)| *guid);
    match named.unwrap_or(text).parse::<Uuid>() {
        Ok(found) if !found.is_nil() => Ok(PartitionType::Gpt(found)),
        _ => {
            let names = TYPES.map(|(name, _)| name).join(", ");
            Err(Failure::usage(format!("--partition-type {text}: not a type of a GPT"))
                .hint(format!("a GUID, or one of {names}")))
        }
    }
}

/// Returns a GUID of this module.
fn guid(text: &str) -> Uuid {
    text.parse().expect("a constant is a GUID")
}

/// Derives a GUID for a purpose from the UUID of the volume: version 8, from a digest.
pub(super) fn derive(seed: &Uuid, purpose: &str) -> Uuid {
    let digest =
        digest(&SHA256, &[b"ferroxfs disk ", purpose.as_bytes(), seed.as_bytes()].concat());
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(digest.as_ref()) {
        *byte = *from;
    }
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests;
