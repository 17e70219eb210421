//! Making a volume.
#![allow(unsafe_code, reason = "C calls these functions by name, with strings of its own")]

use std::ffi::c_char;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::OpenError;
use ferroxfs::device::{BlockDevice, FileDevice, FileOptions};
use uuid::Uuid;
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice, find_contents};

use crate::boundary::{bytes, call, free, host_path, name};
use crate::device::{FerroxfsDevice, device_of};
use crate::error::{Failure, FerroxfsError};
use crate::volume::UUID_BYTES;

/// Options of a new volume. Without options it is the one that mkfs.xfs makes by default.
///
/// The caller owns them, and frees them with `ferroxfs_mkfs_options_free`. One thread at a time may
/// use them.
#[derive(Default)]
pub struct FerroxfsMkfsOptions {
    options: Options,
    /// Length of the image file to make. `None`: the file or device exists.
    length_bytes: Option<u64>,
    force: bool,
}

/// Returns new options. Never returns NULL. Free them with `ferroxfs_mkfs_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_mkfs_options_new() -> *mut FerroxfsMkfsOptions {
    Box::into_raw(Box::default())
}

/// Frees options. NULL is allowed.
///
/// # Safety
///
/// `options` is NULL, or came from `ferroxfs_mkfs_options_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkfs_options_free(options: *mut FerroxfsMkfsOptions) {
    // SAFETY: The caller gives the options back.
    unsafe { free(options) };
}

/// Sets that `ferroxfs_mkfs` makes a new image file of this length. The file must not exist.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_mkfs_set_length(
    options: Option<&mut FerroxfsMkfsOptions>,
    length_bytes: u64,
) {
    if let Some(options) = options {
        options.length_bytes = Some(length_bytes);
    }
}

/// Sets whether a device that holds a filesystem or a partition table is overwritten.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_mkfs_set_force(options: Option<&mut FerroxfsMkfsOptions>, force: bool) {
    if let Some(options) = options {
        options.force = force;
    }
}

/// Sets the UUID of the volume, 16 bytes. By default it is random.
///
/// Errors: EINVAL for NULL.
///
/// # Safety
///
/// `uuid` is NULL, or has 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkfs_set_uuid(
    options: Option<&mut FerroxfsMkfsOptions>,
    uuid: *const u8,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let options = options.ok_or(Failure::Argument("the options are NULL"))?;
        // SAFETY: As the caller says.
        let uuid = unsafe { bytes(uuid, UUID_BYTES) }?;
        options.options.uuid = Uuid::from_slice(uuid).ok();
        Ok(())
    })
}

/// Sets the label of the volume, at most 12 bytes. The length may be FERROXFS_STRLEN.
///
/// Errors: EINVAL for a label that is too long or has a NUL.
///
/// # Safety
///
/// `label` is NULL, or has as many bytes as `label_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkfs_set_label(
    options: Option<&mut FerroxfsMkfsOptions>,
    label: *const c_char,
    label_length: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let options = options.ok_or(Failure::Argument("the options are NULL"))?;
        // SAFETY: As the caller says.
        let label = unsafe { name(label, label_length) }?;
        let parsed = options.options.parse_label(label.as_bytes());
        parsed.map_err(|error| Failure::Mkfs(error.to_string()))
    })
}

/// Sets suboptions of mkfs.xfs by their text: letter 'b' and "size=4096", 'd' and
/// "agcount=4,su=64k", 'i', 'l', 'm', 'n', 'r', 's'.
///
/// Errors: EINVAL for a suboption that is invalid, unknown, refused or given twice. The message
/// names it.
///
/// # Safety
///
/// `suboptions` is NULL or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkfs_set(
    options: Option<&mut FerroxfsMkfsOptions>,
    letter: c_char,
    suboptions: *const c_char,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let options = options.ok_or(Failure::Argument("the options are NULL"))?;
        // SAFETY: A NUL ends the text.
        let text = unsafe { name(suboptions, usize::MAX) }?;
        let text = text.to_str().ok_or(Failure::Argument("the suboptions are no UTF-8"))?;
        let letter = char::from(letter.cast_unsigned());
        let parsed = options.options.parse(letter, text);
        parsed.map_err(|error| Failure::Mkfs(error.to_string()))
    })
}

/// Makes a volume in an image file or on a block device. `options` may be NULL.
///
/// Nothing is written before all options have passed their checks. The log and the realtime section
/// are on the same device.
///
/// Errors: EINVAL for options that are impossible on the device; EBUSY if another program uses it;
/// errors of the host. Without force, a device with a filesystem or a partition table gives EEXIST.
/// With a length, a file that exists gives EEXIST.
///
/// # Safety
///
/// `path` is NULL or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkfs(
    path: *const c_char,
    options: Option<&FerroxfsMkfsOptions>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        // SAFETY: A NUL ends the path.
        let path = unsafe { host_path(path) }?;
        let length = options.and_then(|options| options.length_bytes);
        if let Some(length) = length {
            fs::File::create_new(path)?.set_len(length)?;
        }
        let made = FileDevice::open(path, FileOptions::read_write())
            .map_err(|error| Failure::from(OpenError::from(error)))
            .and_then(|device| make(&device, options));
        if made.is_err() && length.is_some() {
            // This call has made the file, and it holds nothing.
            fs::remove_file(path)?;
        }
        made
    })
}

/// Makes a volume on a device of the caller. `options` may be NULL; a length in them is refused.
///
/// The library copies `device`. It calls `destroy` once, at the end of this call. Only an unknown
/// `size_bytes` prevents that.
///
/// Errors: those of `ferroxfs_mkfs`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_mkfs_device(
    device: Option<&FerroxfsDevice>,
    options: Option<&FerroxfsMkfsOptions>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let device = device_of(device)?;
        if options.is_some_and(|options| options.length_bytes.is_some()) {
            return Err(Failure::Argument("a device of the caller has a length already"));
        }
        make(&*device, options)
    })
}

fn make(device: &dyn BlockDevice, options: Option<&FerroxfsMkfsOptions>) -> Result<(), Failure> {
    let defaults = FerroxfsMkfsOptions::default();
    let options = options.unwrap_or(&defaults);
    let others = [
        (options.options.log.device.is_some(), "a log on another device"),
        (options.options.realtime.device.is_some(), "a realtime section on another device"),
        (options.options.data.name.is_some(), "the name of a device among suboptions"),
    ];
    if let Some((_, refused)) = others.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::Mkfs(format!("{refused} is not supported by this library")));
    }
    if !options.force
        && let Some(contents) = find_contents(device)?
    {
        return Err(Failure::Occupied(contents.to_string()));
    }
    let target = TargetDevice {
        data_bytes: device.length_bytes(),
        sector_size: device.sector_size(),
        log_bytes: None,
        realtime_bytes: None,
    };
    let plan = Plan::new(&options.options, &target, &Identity::random()?);
    let plan = plan.map_err(|error| Failure::Mkfs(error.to_string()))?;
    xfs_mkfs::write(&plan, Devices { data: device, log: None, realtime: None }, Discard::No)?;
    Ok(device.flush()?)
}
