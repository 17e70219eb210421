//! AGFL sectors made by hand.
