use zerocopy::{FromZeros, IntoBytes};

use super::{InHeader, MAX_WRITE_BYTES, PAGE_BYTES, Request, WriteIn, request_pages};

#[test]
fn what_is_written_to_a_file_arrives_at_the_start_of_a_page() {
    let mut pages = request_pages();
    let length = size_of::<InHeader>() + size_of::<WriteIn>() + MAX_WRITE_BYTES as usize;
    let header = InHeader { length: length as u32, ..InHeader::new_zeroed() };
    let message = pages.bytes_mut().get_mut(..length).expect("room for the largest request");
    header.write_to_prefix(message).expect("room for the header");
    let request = Request::decode(message).expect("a request");
    let (_, written) = request.argument::<WriteIn>().expect("the arguments of a write");
    assert_eq!(written.len(), MAX_WRITE_BYTES as usize);
    assert_eq!(written.as_ptr().addr() % PAGE_BYTES as usize, 0);
}
