//! Tests of verifiers and decoders on blocks of the golden image, which the kernel wrote, and on
//! the same blocks with changed fields and recomputed checksums.

#[cfg(test)]
mod attributes;
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod directories;
