//! A message buffer in which the contents of files start at a page boundary.
//!
//! The kernel copies page by page. If the pages of the kernel and of the buffer had different
//! boundaries, the kernel would copy two pieces for each page. The same holds for the host when it
//! writes the bytes to the image.

use super::session::PAGE_BYTES;

/// The message of a panic if a buffer starts after the end of its memory.
const HOLDS_START: &str = "the buffer starts in its memory";

/// A zero-initialised buffer in which the byte at a given offset starts a page.
#[derive(Debug, Default)]
pub(super) struct Pages {
    memory: Vec<u8>,
    start: usize,
}

impl Pages {
    /// Allocates `length` bytes. The byte at `offset` starts a page.
    pub(super) fn new(length: usize, offset: usize) -> Self {
        let page = PAGE_BYTES as usize;
        let memory = vec![0; length + page];
        // `align_offset` may decline. The memory then stays unaligned, which only costs time.
        let first = memory.as_ptr().align_offset(page) % page;
        Self { memory, start: (first + page - offset % page) % page }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..).expect(HOLDS_START)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..).expect(HOLDS_START)
    }
}

#[cfg(test)]
mod tests;
