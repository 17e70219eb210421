//! The journal: finding head and tail, and the log's state.
