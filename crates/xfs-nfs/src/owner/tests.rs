use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{find, of_client, shown};

#[test]
fn owner_of_a_connection_from_here_is_this_user() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, address) = listener.accept().unwrap();
    assert_eq!(address, client.local_addr().unwrap());
    let us = rustix::process::geteuid().as_raw();
    assert_eq!(of_client(address, server.local_addr().unwrap()), Some(us));
}

#[test]
fn other_connections_are_not_taken_for_this_one() {
    let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
        0: 0100007F:0801 0100007F:A0F0 01 00000000:00000000 00:00000000 00000000     0        0 1\n   \
        1: 0100007F:A0F0 0100007F:0801 01 00000000:00000000 00:00000000 00000000  1000        0 2\n";
    let client: SocketAddr = "127.0.0.1:41200".parse().unwrap();
    let server: SocketAddr = "127.0.0.1:2049".parse().unwrap();
    assert_eq!(find(list, client, server), Some(1000));
    assert_eq!(find(list, server, client), Some(0));
    assert_eq!(find(list, "127.0.0.1:41201".parse().unwrap(), server), None);
    assert_eq!(find("", client, server), None);
}

#[test]
fn addresses_are_shown_as_by_the_kernel() {
    assert_eq!(shown("127.0.0.1:2049".parse().unwrap()), "0100007F:0801");
    assert_eq!(shown("[::1]:2049".parse().unwrap()), "00000000000000000000000001000000:0801");
}
