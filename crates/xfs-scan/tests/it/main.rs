//! Scans of the golden image, whole, rearranged and damaged.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
