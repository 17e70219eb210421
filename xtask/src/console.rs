//! Keeps kernel messages off the console while the tests run.
//!
//! Tests let the kernel mount volumes after power cuts and with damage. The kernel prints thousands
//! of lines about them, with dumps of blocks. A virtual machine often has a serial console, which
//! takes milliseconds for each line: a test of power cuts took 22 s with it, and 8 s without. All
//! messages stay in the kernel's log, where dmesg shows them.

use std::fs;
use std::path::Path;

/// The file with the levels of the kernel's messages. The first number is that of the console.
const LEVELS: &str = "/proc/sys/kernel/printk";

/// The level at which only a kernel that ends prints to the console.
const QUIET: u32 = 1;

/// Sets the console to its former level when it is dropped.
pub(crate) struct QuietConsole {
    former: Option<u32>,
}

impl QuietConsole {
    /// Sets the console to the quietest level. Does nothing where that is not possible: the tests
    /// only take longer.
    pub(crate) fn new() -> Self {
        let path = Path::new(LEVELS);
        let former = fs::read_to_string(path).ok().as_deref().and_then(first_level);
        let former = former.filter(|level| *level > QUIET && set(path, QUIET));
        if let Some(level) = former {
            println!("console: level {QUIET} instead of {level} until the tests end");
        }
        Self { former }
    }
}

impl Drop for QuietConsole {
    fn drop(&mut self) {
        if self.former.is_some_and(|level| !set(Path::new(LEVELS), level)) {
            println!("console: its level could not be set again; see dmesg(1), --console-level");
        }
    }
}

/// Sets the level of the console. Returns whether the kernel accepted it.
fn set(path: &Path, level: u32) -> bool {
    fs::write(path, level.to_string()).is_ok()
}

/// Returns the first of the numbers in `text`, which is the level of the console.
fn first_level(text: &str) -> Option<u32> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::first_level;

    #[test]
    fn first_number_is_the_level_of_the_console() {
        assert_eq!(first_level("4\t4\t1\t7\n"), Some(4));
        assert_eq!(first_level(""), None);
    }
}
