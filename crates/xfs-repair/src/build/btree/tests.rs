//! Tests of the bulk loader.
