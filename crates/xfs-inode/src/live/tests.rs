//! Files on volumes in memory, against models of them.

mod crashes;
mod files;
mod forms;
mod volume;
