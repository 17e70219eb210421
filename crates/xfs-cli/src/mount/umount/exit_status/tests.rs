use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{exit_status, unheard};

#[test]
fn exit_status_of_another_process_is_read() {
    for (script, status) in [("exit 5", 5 << 8), ("kill -9 $$", 9)] {
        let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let number = Pid::from_raw(child.id().cast_signed()).expect("a number");
        let process = pidfd_open(number, PidfdFlags::empty()).expect("a descriptor");
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        assert_eq!(poll(&mut ended, None), Ok(1));
        assert_eq!(unheard(process.as_fd()).map(ExitStatus::into_raw), Some(status), "{script}");
        let seen = child.wait().expect("its end");
        // Linux before 6.15 may return no status, but must not return a wrong one.
        let Some(told) = exit_status(&process) else { continue };
        assert_eq!((told.into_raw(), told), (status, seen), "{script}");
    }
}
