//! AGI sectors made by hand.
