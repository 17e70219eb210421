//! The free space of a volume whose size is chosen to fit its files: `-d size=auto` and `--free`.

use ferroxfs::Space;

use crate::cli::MkfsArguments;
use crate::failure::Failure;
use crate::text::size;

const AUTO: &str = "size=auto";

/// The free space that a volume has after it was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreeSpace {
    Bytes(u64),
    /// A percentage of the volume.
    Percent(u64),
}

/// Returns whether the size of the volume follows from its files, unless the options give it.
fn chooses_size(arguments: &MkfsArguments) -> bool {
    arguments.minimize || is_automatic(arguments)
}

/// Returns whether the options for data contain `size=auto`.
pub(super) fn is_automatic(arguments: &MkfsArguments) -> bool {
    arguments.data.iter().any(|text| text.split(',').any(|part| part == AUTO))
}

/// Takes `size=auto` out of the options for data. Returns the other options, and the free space
/// that is asked for; `None` if the size is not chosen here.
pub(super) fn split_automatic(
    arguments: &MkfsArguments,
) -> Result<(Vec<String>, Option<FreeSpace>), Failure> {
    if !chooses_size(arguments) {
        return match arguments.free {
            Some(_) => Err(Failure::usage("--free is for -d size=auto and --minimize")),
            None => Ok((arguments.data.clone(), None)),
        };
    }
    let rest = arguments.data.iter().filter_map(|text| {
        let parts: Vec<&str> = text.split(',').filter(|part| *part != AUTO).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    });
    let free = arguments.free.as_deref().map_or(Ok(FreeSpace::Bytes(0)), parse_free)?;
    Ok((rest.collect(), Some(free)))
}

fn parse_free(text: &str) -> Result<FreeSpace, Failure> {
    let invalid = || {
        Failure::usage(format!("--free: {text} is neither a size, such as 100m, nor a percentage"))
    };
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse().ok().filter(|percent| *percent < 100);
            percent.map(FreeSpace::Percent).ok_or_else(invalid)
        }
        None => size::parse(text).map(FreeSpace::Bytes).map_err(|_| invalid()),
    }
}

impl FreeSpace {
    /// Returns the bytes by which a volume must grow that lacks `short` bytes. If the free space is
    /// a percentage, only a part of each further byte is for the files.
    pub(super) fn step(self, short: u64) -> u64 {
        match self {
            Self::Bytes(_) => short,
            Self::Percent(percent) => {
                assert!(percent < 100, "parsing has refused all of the volume");
                short.saturating_mul(100) / (100 - percent)
            }
        }
    }

    /// Returns the blocks that must be free in a volume.
    pub(super) fn blocks(self, space: &Space) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.div_ceil(space.block_size.into()),
            Self::Percent(percent) => {
                (u128::from(space.total_blocks) * u128::from(percent)).div_ceil(100) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FreeSpace, parse_free};

    #[test]
    fn free_space_is_a_size_or_a_percentage() {
        assert_eq!(parse_free("10%").unwrap(), FreeSpace::Percent(10));
        assert_eq!(parse_free("1g").unwrap(), FreeSpace::Bytes(1 << 30));
        for text in ["", "%", "100%", "-1%", "x"] {
            assert!(parse_free(text).is_err(), "{text}");
        }
    }
}
