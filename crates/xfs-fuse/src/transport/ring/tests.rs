#![allow(unsafe_code, reason = "submissions may name memory by address")]

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::time::Duration;

use io_uring::{opcode, types};

use super::{Device, IdleRing, count};

#[test]
fn processor_list_is_counted() {
    assert_eq!(count("0"), Some(1));
    assert_eq!(count("0-3"), Some(4));
    assert_eq!(count("0-3,8,10-11"), Some(7));
    for bad in ["", "x", "3-0", "0-", "0-18446744073709551615"] {
        assert_eq!(count(bad), None, "{bad}");
    }
}

/// Checks I2 of `xfs_fuse::transport::ring`: through its ring, a compromised worker can neither
/// open files nor start other operations.
#[test]
fn ring_refuses_everything_but_fuse_commands() {
    let IdleRing(mut ring) = match IdleRing::open() {
        Ok(ring) => ring,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            eprintln!("skipped: io_uring is not allowed here: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    ring.submitter().register_enable_rings().unwrap();
    let open = opcode::OpenAt::new(types::Fd(rustix::fs::CWD.as_raw_fd()), c"/".as_ptr()).build();
    // SAFETY: the name is static.
    unsafe { ring.submission().push(&open.into()) }.unwrap();
    ring.submit_and_wait(1).unwrap();
    let refused = ring.completion().next().unwrap();
    assert_eq!(refused.result(), -rustix::io::Errno::ACCESS.raw_os_error());
    let refused = ring.submitter().register_files(&[0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

/// Checks that `wait` returns at once for a ring that the kernel refuses to register. The kernel
/// refuses a ring whose connection has ended or was never mounted.
#[test]
fn ring_that_is_refused_at_once_does_not_wait() {
    const PATIENCE: Duration = Duration::from_secs(20);
    let Ok(device) = Device::open() else {
        eprintln!("skipped: /dev/fuse cannot be opened here");
        return;
    };
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // The device was never mounted.
        let outcome = IdleRing::open().and_then(|ring| {
            let mut ring = ring.connect(device, 0);
            ring.enable()?;
            ring.begin()?;
            ring.wait()
        });
        tell.send(outcome)
    });
    match told.recv_timeout(PATIENCE).expect("the outcome within the timeout") {
        Ok(continues) => assert!(!continues),
        Err(error) => eprintln!("skipped: {error}"),
    }
}
