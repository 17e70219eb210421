//! Files as the commands see them: their facts, sources of copies, and conversion from nodes of the
//! library.

pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod source;
