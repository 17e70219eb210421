//! AGF sectors made by hand.
