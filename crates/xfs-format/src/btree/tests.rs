//! Btree blocks made by hand.
