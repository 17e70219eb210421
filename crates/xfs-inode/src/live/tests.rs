//! Files on volumes in memory, against models of them.

mod copies;
mod crashes;
mod faults;
mod files;
mod forms;
mod threads;
mod volume;
