//! Files on volumes in memory, against models of them.

mod files;
mod forms;
mod volume;
