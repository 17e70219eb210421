//! Reads the file PATH on behalf of the user UID. The permissions of the file and of the
//! directories on the path decide whether the user may read it.
//!
//! `cargo run -p ferroxfs --example user -- IMAGE UID PATH`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ferroxfs::{Access, Credentials, PosixError, Volume};

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("user: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [image, uid, path] = arguments.as_slice() else {
        return Err("usage: user IMAGE UID PATH".into());
    };
    println!("{}", run(image.as_ref(), uid.parse()?, path.as_ref())?);
    Ok(())
}

pub(crate) fn run(image: &Path, uid: u32, path: &Path) -> Result<String, Box<dyn Error>> {
    // A new volume acts as root, which may do everything.
    let volume = Volume::open(image)?;
    let user = volume.as_user(Credentials::new(uid, uid).groups([100]));

    // The check is made where the file is opened, as on Linux. An open file stays open.
    match user.read(path) {
        Ok(contents) => Ok(format!("may read its {} bytes", contents.len())),
        // An error is a case to match on, and also has an errno. `user.read` returns an
        // `io::Error`, as `std::fs::read` does, with the kind of that errno.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let asked = user.access(path, Access::READ).map_err(|error| error.errno());
            assert_eq!(asked, Err(PosixError::AccessDenied.errno()), "both ask the same file");
            Ok("may not read it".to_owned())
        }
        Err(error) => Err(error.into()),
    }
}
