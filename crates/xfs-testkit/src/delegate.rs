//! A macro for devices that wrap another device and change only some of its methods.

/// Implements the listed methods of [`BlockDevice`](xfs_device::BlockDevice) by calling the same
/// methods of a field.
///
/// The macro is used inside an `impl BlockDevice` block, which defines the other methods itself.
/// The trait must be in scope.
///
/// ```
/// use std::io;
///
/// use xfs_device::{BlockDevice, SharedDevice};
/// use xfs_testkit::delegate_device;
///
/// /// A device that ignores flushes.
/// struct Unflushed {
///     inner: SharedDevice,
/// }
///
/// impl BlockDevice for Unflushed {
///     delegate_device!(inner: length_bytes, sector_size, read_at, write_at, discard);
///
///     fn is_read_only(&self) -> bool {
///         false
///     }
///
///     fn flush(&self) -> io::Result<()> {
///         Ok(())
///     }
/// }
/// ```
#[macro_export]
macro_rules! delegate_device {
    (@method $field:ident length_bytes) => {
        $crate::delegate_device!(@define $field length_bytes() -> u64);
    };
    (@method $field:ident sector_size) => {
        $crate::delegate_device!(@define $field sector_size() -> u32);
    };
    (@method $field:ident is_read_only) => {
        $crate::delegate_device!(@define $field is_read_only() -> bool);
    };
    (@method $field:ident read_at) => {
        $crate::delegate_device!(
            @define $field read_at(buffer: &mut [u8], offset: u64) -> ::std::io::Result<()>
        );
    };
    (@method $field:ident write_at) => {
        $crate::delegate_device!(
            @define $field write_at(
                bytes: &[u8], offset: u64, durability: $crate::xfs_device::Durability
            ) -> ::std::io::Result<()>
        );
    };
    (@method $field:ident flush) => {
        $crate::delegate_device!(@define $field flush() -> ::std::io::Result<()>);
    };
    (@method $field:ident discard) => {
        $crate::delegate_device!(
            @define $field discard(offset: u64, length: u64) -> ::std::io::Result<()>
        );
    };
    (@define $field:ident $method:ident($($name:ident: $kind:ty),*) -> $result:ty) => {
        fn $method(&self, $($name: $kind),*) -> $result {
            self.$field.$method($($name),*)
        }
    };
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::delegate_device!(@method $field $method);)+
    };
}
