//! Serves requests that read or change the attributes that `stat` shows.

use ferroxfs::DeviceNumber;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{File, Metadata, Node, SetAttributes, Timestamp};
use rustix::io::Errno;

use super::{Server, errno, now};
use crate::transport::wire::{
    AttrOut, Attributes, EntryOut, SetAttrIn, StatX, StatXOut, StatXTime, set,
};
use crate::transport::{Reply, Request};

/// Mask for statx: the fields of stat and the birth time.
const STATX_BASIC_AND_BIRTH: u32 = 0xfff;
/// Attribute bits of statx, each with the inode flag that it shows.
const STATX_ATTRIBUTES: [(u64, ExtendedFlags); 3] = [
    (0x10, ExtendedFlags::IMMUTABLE),
    (0x20, ExtendedFlags::APPEND),
    (0x40, ExtendedFlags::NODUMP),
];

impl Server {
    pub(super) fn get_attributes(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let node = self.node(request.node())?;
        reply.add(&self.attr_out(&node));
        Ok(())
    }

    /// Serves STATX: the attributes that GETATTR gives, and the fields that only statx shows.
    pub(super) fn get_statx(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let metadata = self.node(request.node())?.metadata();
        let basic = self.attributes(&metadata);
        let time = |time: Timestamp| StatXTime {
            seconds: time.seconds(),
            nanoseconds: time.nanoseconds(),
            reserved: 0,
        };
        let device = metadata.device.unwrap_or(DeviceNumber { major: 0, minor: 0 });
        let mut stat = StatX {
            mask: STATX_BASIC_AND_BIRTH,
            block_size: basic.block_size,
            nlink: basic.nlink,
            uid: basic.uid,
            gid: basic.gid,
            mode: metadata.mode,
            inode: basic.inode,
            size: basic.size,
            blocks: basic.blocks,
            atime: time(self.accessed(&metadata)),
            btime: time(metadata.created),
            ctime: time(metadata.changed),
            mtime: time(metadata.modified),
            rdev_major: device.major,
            rdev_minor: device.minor,
            ..StatX::default()
        };
        for (bit, flag) in STATX_ATTRIBUTES {
            stat.attributes_mask |= bit;
            stat.attributes |= if metadata.xflags.contains(flag) { bit } else { 0 };
        }
        let valid = self.valid_seconds(&metadata);
        reply.add(&StatXOut { valid, stat, ..StatXOut::default() });
        Ok(())
    }

    /// Serves SETATTR. Removes the privileges of a file whose length, owner or group changes:
    /// capabilities always, set-ID bits if the kernel requests it.
    #[doc(alias = "FUSE_HANDLE_KILLPRIV_V2")]
    pub(super) fn set_attributes(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<SetAttrIn>()?;
        let has = |bit| wanted.valid & bit != 0;
        let node = self.context(request).node(request.node())?;
        if self.take_times(&wanted, &node)? {
            reply.add(&self.attr_out(&node));
            return Ok(());
        }
        let changed = self.given_change(&wanted, &node)?;
        let uid = new_owner(has(set::UID).then_some(wanted.uid), self.settings.uid)?;
        let gid = new_owner(has(set::GID).then_some(wanted.gid), self.settings.gid)?;
        if has(set::SIZE) {
            self.set_length(&node, &wanted)?;
        }
        // If the server checks permissions, the library does this.
        let killed = !self.is_checking()
            && (has(set::SIZE) || has(set::UID) || has(set::GID))
            && node.drop_privileges(has(set::KILL_SET_IDS)).map_err(errno)?;
        let time = |bit, now_bit, seconds, nanoseconds| {
            let given = || Timestamp::new(seconds, nanoseconds).ok_or(Errno::INVAL);
            match (has(bit), has(now_bit)) {
                (false, _) => Ok(None),
                (true, true) => Ok(Some(now())),
                (true, false) => given().map(Some),
            }
        };
        let mut changes = SetAttributes::new();
        changes.mode = has(set::MODE).then_some(wanted.mode as u16 & 0o7777);
        changes.uid = uid;
        changes.gid = gid;
        changes.accessed = time(set::ATIME, set::ATIME_NOW, wanted.atime, wanted.atime_ns)?;
        changes.modified = time(set::MTIME, set::MTIME_NOW, wanted.mtime, wanted.mtime_ns)?;
        changes.changed = changed;
        if changes != SetAttributes::default() {
            // An append-only file accepts new times if none are given, from every caller that may
            // write.
            let is_touched =
                self.is_touched(&wanted) && (self.is_checking() || is_append_only(&node));
            if is_touched { node.touch() } else { node.set_attributes(&changes) }.map_err(errno)?;
        }
        if changes.accessed.is_some() {
            self.forget_time(node.number());
        }
        if killed || changes != SetAttributes::default() || has(set::SIZE) {
            self.sync_if_required(&node)?;
        }
        reply.add(&self.attr_out(&node));
        Ok(())
    }

    /// Sets the length of a file. If the request has the handle of an open file, permission was
    /// checked when the file was opened.
    fn set_length(&self, node: &Node, wanted: &SetAttrIn) -> Result<(), Errno> {
        // ftruncate(2) to the same length is a change and sends times; truncate(2) is none and does
        // not.
        let stays = |file: &File| {
            let metadata = file.metadata();
            let is_same = metadata.size == wanted.size && wanted.valid & set::MTIME == 0;
            is_same && !metadata.xflags.contains(ExtendedFlags::APPEND)
        };
        let set = |file: &File| {
            if stays(file) { Ok(()) } else { file.set_len(wanted.size).map_err(errno) }
        };
        if !self.is_checking() {
            return set(&node.open().map_err(errno)?);
        }
        let handle = (wanted.valid & set::HANDLE != 0).then_some(wanted.handle);
        let open = handle.and_then(|handle| self.handles.file(handle));
        let Some(file) = open.filter(|file| file.is_writable()) else {
            return set(&node.open_write_only().map_err(errno)?);
        };
        set(&file)?;
        let set_ids = wanted.valid & set::KILL_SET_IDS != 0;
        file.node().drop_privileges(set_ids).map(drop).map_err(errno)
    }

    fn attr_out(&self, node: &Node) -> AttrOut {
        let metadata = node.metadata();
        let (valid, attributes) = (self.valid_seconds(&metadata), self.attributes(&metadata));
        AttrOut { valid, attributes, ..AttrOut::default() }
    }

    /// Returns the answer that gives the kernel a node and its attributes.
    pub(super) fn entry_out(&self, node: &Node) -> EntryOut {
        self.entry_of(&node.metadata())
    }

    /// Returns the answer that gives the kernel a node and its attributes. The caller has read the
    /// node's `metadata` before.
    pub(super) fn entry_of(&self, metadata: &Metadata) -> EntryOut {
        EntryOut {
            node: self.node_of(metadata.number),
            generation: metadata.generation.into(),
            entry_valid: self.name_valid_seconds(),
            attr_valid: self.valid_seconds(metadata),
            attributes: self.attributes(metadata),
            ..EntryOut::default()
        }
    }

    fn attributes(&self, metadata: &Metadata) -> Attributes {
        let accessed = self.accessed(metadata);
        Attributes {
            inode: metadata.number.0,
            size: metadata.size,
            blocks: self.shown_blocks(metadata),
            atime: accessed.seconds(),
            mtime: metadata.modified.seconds(),
            ctime: metadata.changed.seconds(),
            atime_ns: accessed.nanoseconds(),
            mtime_ns: metadata.modified.nanoseconds(),
            ctime_ns: metadata.changed.nanoseconds(),
            mode: metadata.mode.into(),
            nlink: metadata.nlink,
            uid: self.settings.uid.unwrap_or(metadata.uid),
            gid: self.settings.gid.unwrap_or(metadata.gid),
            rdev: metadata.device.map_or(0, encode_device),
            block_size: self.volume.geometry().block_size,
            flags: 0,
        }
    }
}

/// Returns the owner or group to write, or `None` to leave it unchanged. If the mount shows all
/// files with one owner, setting that owner changes nothing, and setting another one is an error.
fn new_owner(wanted: Option<u32>, shown: Option<u32>) -> Result<Option<u32>, Errno> {
    match (wanted, shown) {
        (Some(wanted), Some(shown)) if wanted == shown => Ok(None),
        (Some(_), Some(_)) => Err(Errno::PERM),
        (wanted, _) => Ok(wanted),
    }
}

fn is_append_only(node: &Node) -> bool {
    node.metadata().xflags.contains(ExtendedFlags::APPEND)
}

/// Packs a device number in the form in which the kernel gives it to programs.
#[doc(alias = "new_encode_dev")]
const fn encode_device(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | (device.major << 8) | ((device.minor & !0xff) << 12)
}

/// Unpacks a device number from the form in which the kernel gives it to programs.
#[doc(alias = "new_decode_dev")]
pub(super) const fn decode_device(packed: u32) -> DeviceNumber {
    let minor = (packed & 0xff) | ((packed >> 12) & 0xf_ff00);
    DeviceNumber { major: (packed >> 8) & 0xfff, minor }
}
