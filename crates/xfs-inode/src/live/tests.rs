//! Files on volumes in memory, against models of them.

mod crashes;
mod faults;
mod files;
mod forms;
mod ranges;
mod threads;
mod volume;
