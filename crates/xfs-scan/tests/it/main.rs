//! Scans of the golden image, intact, rearranged and damaged.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
