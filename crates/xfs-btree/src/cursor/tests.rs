//! Btrees made by hand.
