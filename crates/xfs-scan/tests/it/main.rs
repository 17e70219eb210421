//! Scans of the golden image: intact, without parent pointers, and damaged.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
