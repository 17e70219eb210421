use rustix::io::Errno;

use super::{find_process, hides_server, namespace_of, number_in_its_own};

#[test]
fn mount_with_unreadable_root_can_be_unmounted() {
    for errno in [Errno::UCLEAN, Errno::IO, Errno::ACCESS] {
        assert!(hides_server(errno), "{errno}");
    }
    for errno in [Errno::NODATA, Errno::OPNOTSUPP, Errno::NOENT, Errno::NOTCONN] {
        assert!(!hides_server(errno), "{errno}");
    }
}

#[test]
fn process_number_of_another_namespace_is_not_found() {
    let own = namespace_of("self");
    let number = number_in_its_own("self").expect("a number");
    assert!(own.is_some());
    assert!(find_process(number, own).is_some());
    assert!(find_process(number, None).is_some());
    assert!(find_process(number, Some(1)).is_none());
}
