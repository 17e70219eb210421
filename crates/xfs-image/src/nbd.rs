//! A client of network block devices: an export of an NBD server as a device.
//!
//! Owns: the addresses, the handshake and the requests. Does **not** own what the export holds.
//! With `nbdkit` and `qemu-nbd` as servers, the client reaches disks that ferroxfs has no code for.
//!
//! ```text
//! client                               server
//!    |   <-- NBDMAGIC IHAVEOPT flags      |   fixed newstyle
//!    |   flags -->                        |
//!    |   GO, export name -->              |   handshake.rs
//!    |   <-- size, flags, block sizes     |
//!    |   READ, WRITE, FLUSH ... -->       |   connection.rs: any number in flight
//!    |   <-- replies in any order         |
//! ```
//!
//! # Invariants
//!
//! - **I1** A connection that has failed once stays failed: every later request fails. A new
//!   connection could reach a server that has lost unflushed writes without an error.
//! - **I2** An export is opened for writing only if the server offers FLUSH. Without it no write
//!   would ever be durable.
//! - **I3** No length from the server decides an allocation: a reply has the length that the
//!   request asked for, and texts are bounded.

mod address;
mod connection;
mod device;
mod error;
mod handshake;

#[cfg(test)]
mod tests;

pub use error::NbdError;

pub(crate) use address::{Address, is_address};
pub(crate) use device::NbdDevice;
