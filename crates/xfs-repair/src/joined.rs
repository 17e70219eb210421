//! The devices of a volume with an external realtime section as one device, so that one plan and
//! one undo file cover both.
//!
//! Owns: the place of each device in the joined one. Does **not** own: the devices.
//!
//! ```text
//! 0              data bytes    start                     start + realtime bytes
//! ├── data device ───┤  zeros  ├── realtime device ───────────┤
//! ```
//!
//! `start` is the next multiple of 64 KiB, so no run of changed bytes crosses from one device to
//! the other.

use std::io;
use std::ops::Range;

use xfs_device::{BlockDevice, Durability, SharedDevice, WindowDevice, check_read, check_write};

/// The alignment of the start of the realtime device in the joined device, in bytes.
const START_UNIT: u64 = 64 << 10;

/// The data device and the realtime device of a volume, one after the other.
pub struct JoinedDevice {
    data: SharedDevice,
    realtime: SharedDevice,
    data_bytes: u64,
}

/// Returns the byte offset in a joined device at which the realtime device begins. The data device
/// has `data_bytes` bytes.
#[must_use]
pub const fn realtime_start(data_bytes: u64) -> u64 {
    data_bytes.next_multiple_of(START_UNIT)
}

/// The two devices of a volume as windows of a joined device.
pub(crate) struct JoinedParts {
    pub(crate) data: WindowDevice,
    pub(crate) realtime: WindowDevice,
}

impl JoinedParts {
    /// Returns the parts of a joined device whose data device has `data_bytes` bytes.
    pub(crate) fn of(joined: &SharedDevice, data_bytes: u64) -> Self {
        let start = realtime_start(data_bytes);
        let rest = joined.length_bytes().saturating_sub(start);
        Self {
            data: WindowDevice::new(joined.clone(), 0, data_bytes),
            realtime: WindowDevice::new(joined.clone(), start, rest),
        }
    }
}

/// A part of a request that lies on one device.
struct Part<'d> {
    device: Option<&'d SharedDevice>,
    /// The offset on that device.
    offset: u64,
    /// The bytes of the request.
    bytes: Range<usize>,
}

impl JoinedDevice {
    /// Joins the data device and the realtime device of a volume.
    #[must_use]
    pub fn new(data: SharedDevice, realtime: SharedDevice) -> Self {
        let data_bytes = data.length_bytes();
        Self { data, realtime, data_bytes }
    }

    fn parts(&self, offset: u64, length: usize) -> Vec<Part<'_>> {
        let start = realtime_start(self.data_bytes);
        let mut parts = Vec::new();
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let (device, base, end) = if at < self.data_bytes {
                (Some(&self.data), 0, self.data_bytes)
            } else if at < start {
                (None, self.data_bytes, start)
            } else {
                (Some(&self.realtime), start, u64::MAX)
            };
            let room = usize::try_from(end - at).unwrap_or(usize::MAX);
            let next = done + room.min(length - done);
            parts.push(Part { device, offset: at - base, bytes: done..next });
            done = next;
        }
        parts
    }
}

impl BlockDevice for JoinedDevice {
    fn length_bytes(&self) -> u64 {
        realtime_start(self.data_bytes).saturating_add(self.realtime.length_bytes())
    }

    fn sector_size(&self) -> u32 {
        self.data.sector_size().max(self.realtime.sector_size())
    }

    fn is_read_only(&self) -> bool {
        self.data.is_read_only() || self.realtime.is_read_only()
    }

    fn holds_file_contents(&self) -> bool {
        self.data.holds_file_contents() && self.realtime.holds_file_contents()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        for part in self.parts(offset, buffer.len()) {
            let target = buffer.get_mut(part.bytes).expect("a part lies in its request");
            match part.device {
                Some(device) => device.read_at(target, part.offset)?,
                None => target.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        for part in self.parts(offset, bytes.len()) {
            let source = bytes.get(part.bytes).expect("a part lies in its request");
            let gap = || io::Error::new(io::ErrorKind::InvalidInput, "no device has these bytes");
            part.device.ok_or_else(gap)?.write_at(source, part.offset, durability)?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.data.flush()?;
        self.realtime.flush()
    }

    fn check_length(&self) -> io::Result<()> {
        self.data.check_length()?;
        self.realtime.check_length()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xfs_device::{BlockDevice, Durability, MemoryDevice, SharedDevice};

    use super::{JoinedDevice, JoinedParts, realtime_start};

    #[test]
    fn requests_reach_the_device_that_has_the_bytes() {
        let data: SharedDevice = Arc::new(MemoryDevice::new(100 << 10));
        let realtime: SharedDevice = Arc::new(MemoryDevice::new(64 << 10));
        let joined: SharedDevice = Arc::new(JoinedDevice::new(data.clone(), realtime.clone()));
        let start = realtime_start(100 << 10);
        assert_eq!(joined.length_bytes(), start + (64 << 10));
        joined.write_at(&[1; 512], 0, Durability::Cached).unwrap();
        joined.write_at(&[2; 512], start + 512, Durability::Cached).unwrap();
        let mut byte = [9];
        data.read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [1]);
        realtime.read_at(&mut byte, 512).unwrap();
        assert_eq!(byte, [2]);
        assert!(joined.write_at(&[3; 512], 100 << 10, Durability::Cached).is_err());
        let mut whole = vec![7; (start + 1024) as usize - (99 << 10)];
        joined.read_at(&mut whole, 99 << 10).unwrap();
        assert_eq!(whole.iter().filter(|byte| **byte == 2).count(), 512);
        assert_eq!(whole.iter().filter(|byte| **byte != 0).count(), 512);
        let parts = JoinedParts::of(&joined, 100 << 10);
        assert_eq!(
            (parts.data.length_bytes(), parts.realtime.length_bytes()),
            (100 << 10, 64 << 10)
        );
        parts.realtime.read_at(&mut byte, 512).unwrap();
        assert_eq!(byte, [2]);
    }
}
