//! The verifiers and decoders on blocks that the kernel wrote, taken from the golden image, and on
//! the same blocks with fields changed and the checksum mended.

#[cfg(test)]
mod attributes;
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod directories;
