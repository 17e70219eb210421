//! Test devices, seeded randomness, image makers and oracles for the tests of the workspace.
