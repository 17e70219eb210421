use rustix::io::Errno;

use super::hides_server;

#[test]
fn a_root_that_cannot_be_read_is_unmounted() {
    for errno in [Errno::NOTCONN, Errno::UCLEAN, Errno::IO] {
        assert!(hides_server(errno), "{errno}");
    }
    for errno in [Errno::NODATA, Errno::OPNOTSUPP, Errno::NOENT, Errno::ACCESS] {
        assert!(!hides_server(errno), "{errno}");
    }
}
