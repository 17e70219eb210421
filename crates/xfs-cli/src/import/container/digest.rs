//! Digests of contents, such as `sha256:…`.

use std::fmt;
use std::io::{self, Read};

use ring::digest::{Algorithm, Context, SHA256, SHA512, digest};

use super::{invalid, refused};
use crate::failure::Failure;
use crate::import::decompress::Input;
use crate::terminal::names;
use crate::text::hexadecimal;

/// The algorithms, their names, and the lengths of their digests in hexadecimal digits.
const ALGORITHMS: [(&str, &Algorithm, usize); 2] =
    [("sha256", &SHA256, 64), ("sha512", &SHA512, 128)];

/// A digest with its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest {
    name: &'static str,
    algorithm: &'static Algorithm,
    hexadecimal: String,
}

impl Digest {
    /// Parses `ALGORITHM:HEXADECIMAL`. An unknown algorithm is an error, which names it.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let shown = || names::printable(text).into_owned();
        let Some((algorithm, hexadecimal)) = text.split_once(':') else {
            return Err(invalid(format!("{:?} is not a digest", shown())));
        };
        let known = ALGORITHMS.iter().find(|(name, _, _)| *name == algorithm);
        let Some((name, algorithm, length)) = known else {
            return Err(refused(format!(
                "the algorithm of the digest {} is not supported",
                shown()
            )));
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match hexadecimal.len() == *length && hexadecimal.bytes().all(is_digit) {
            true => Ok(Self { name, algorithm, hexadecimal: hexadecimal.to_owned() }),
            false => Err(invalid(format!("{:?} is not a digest", shown()))),
        }
    }

    /// Returns the path of the contents with this digest in the layout of the OCI.
    pub(super) fn blob_path(&self) -> String {
        format!("blobs/{}/{}", self.name, self.hexadecimal)
    }

    /// Returns whether the bytes have this digest.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        self.is_equal(digest(self.algorithm, bytes).as_ref())
    }

    fn is_equal(&self, found: &[u8]) -> bool {
        hexadecimal::digits(found) == self.hexadecimal
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.hexadecimal)
    }
}

/// A reader that compares everything it has read with a digest. At the end of the input, it returns
/// an error if the digests differ.
pub(super) struct VerifyingReader {
    input: Input,
    /// The state of the algorithm; `None` after the end.
    context: Option<Context>,
    expected: Digest,
}

impl VerifyingReader {
    pub(super) fn new(input: Input, expected: Digest) -> Self {
        let context = Some(Context::new(expected.algorithm));
        Self { input, context, expected }
    }
}

impl Read for VerifyingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if let Some(context) = &mut self.context {
            context.update(buffer.get(..read).unwrap_or_default());
        }
        // I2 of `container`: the end of other contents is an error.
        if read == 0
            && !buffer.is_empty()
            && let Some(context) = self.context.take()
            && !self.expected.is_equal(context.finish().as_ref())
        {
            let message = format!("the contents of {} differ from their digest", self.expected);
            return Err(io::Error::other(message));
        }
        Ok(read)
    }
}
