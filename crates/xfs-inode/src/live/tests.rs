//! Files on volumes in memory, compared with models of the files.

mod copies;
mod crashes;
mod faults;
mod files;
mod forms;
mod ranges;
mod threads;
mod volume;
