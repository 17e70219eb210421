use super::{Call, NoCall, Unanswered};
use crate::users::RpcCaller;
use crate::xdr::{Decoder, Encoder};

/// Returns a call with credentials of this kind.
fn call(rpc_version: u32, flavor: u32, credentials: &[u8]) -> Encoder {
    let mut call = Encoder::default();
    call.u32(5).u32(0).u32(rpc_version).u32(100_003).u32(3).u32(1);
    call.u32(flavor).bytes(credentials).u32(0).bytes(&[]).u32(77);
    call
}

/// Returns credentials of AUTH_SYS with this number of groups.
fn credentials(groups: u32) -> Encoder {
    let mut credentials = Encoder::default();
    credentials.u32(0).bytes(b"machine").u32(1000).u32(100).u32(groups);
    for group in 0..groups {
        credentials.u32(group);
    }
    credentials
}

/// Returns the words of the reply to a call that is denied.
fn denial(record: &Encoder) -> Vec<u32> {
    let Err(NoCall::Denied(reply)) = Call::decode(record.as_slice()) else {
        panic!("not denied");
    };
    let mut words = Decoder::new(reply.as_slice());
    std::iter::from_fn(|| words.u32().ok()).collect()
}

#[test]
fn call_has_its_program_its_caller_and_its_arguments() {
    let credentials = credentials(3);
    let record = call(2, 1, credentials.as_slice());
    let mut call = Call::decode(record.as_slice()).unwrap();
    assert_eq!((call.program, call.version, call.procedure), (100_003, 3, 1));
    assert_eq!(call.caller, RpcCaller::decode(credentials.as_slice()).unwrap());
    assert_eq!(call.caller.uid, 1000);
    assert_eq!(call.arguments.u32(), Ok(77));
}

#[test]
fn caller_without_credentials_is_nobody() {
    let record = call(2, 0, &[]);
    assert_eq!(Call::decode(record.as_slice()).unwrap().caller, RpcCaller::nobody());
}

#[test]
fn other_version_and_other_credentials_are_denied() {
    assert_eq!(denial(&call(3, 0, &[])), [5, 1, 1, 0, 2, 2]);
    assert_eq!(denial(&call(2, 6, &[])), [5, 1, 1, 1, 5]);
    assert_eq!(denial(&call(2, 1, &[0; 8])), [5, 1, 1, 1, 1]);
    assert_eq!(denial(&call(2, 1, credentials(17).as_slice())), [5, 1, 1, 1, 1]);
    assert_eq!(denial(&call(2, 0, &[0; 404])), [5, 1, 1, 1, 1]);
}

#[test]
fn record_of_another_kind_is_no_call() {
    for bytes in [&[][..], &[0; 7], &[0, 0, 0, 1, 0, 0, 0, 1], &[0; 12]] {
        let decoded = Call::decode(bytes);
        assert!(decoded.is_err(), "{bytes:?}");
    }
}

#[test]
fn results_are_left_out_of_a_reply_that_has_none() {
    let record = call(2, 0, &[]);
    let call = Call::decode(record.as_slice()).unwrap();
    let reply = call.reply(|reply| {
        reply.u64(99);
        Err(Unanswered::NoProcedure)
    });
    let mut words = Decoder::new(reply.as_slice());
    let words: Vec<u32> = std::iter::from_fn(|| words.u32().ok()).collect();
    assert_eq!(words, [5, 1, 0, 0, 0, 3]);
}
