//! Files in the form in which the commands use them: the facts of a file, a file as a source of
//! copies, and the conversion from the library's nodes.

pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod source;
