//! Locks and atomics that can be counted by scope: slot, object, allocation group, volume.
