//! Files as the commands see them.

pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod source;
