//! Memory for messages, in which the contents of files begin where a page does.
//!
//! The kernel copies page by page: where its pages and ours are cut at different places, it copies two pieces
//! for each, and so does the host when the bytes go on to the image.

use super::session::PAGE_BYTES;

/// Bytes, zeros at first, of which one stands at the start of a page.
#[derive(Debug, Default)]
pub(super) struct Pages {
    memory: Vec<u8>,
    start: usize,
}

impl Pages {
    /// So many bytes, of which the one at `offset` starts a page.
    pub(super) fn new(length: usize, offset: usize) -> Self {
        let page = PAGE_BYTES as usize;
        let memory = vec![0; length + page];
        // `align_offset` may decline; memory is then where it is, which costs time and nothing else.
        let first = memory.as_ptr().align_offset(page) % page;
        Self { memory, start: (first + page - offset % page) % page }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
