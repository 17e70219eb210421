//! Calls and replies of RPC, as RFC 5531 describes them.

use crate::users::RpcCaller;
use crate::xdr::{Decoder, Encoder, Garbage};

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const SUCCESS: u32 = 0;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
/// The most bytes of credentials.
const MOST_AUTH_BYTES: usize = 400;

/// A call of a procedure of a program.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    pub(crate) caller: RpcCaller,
    pub(crate) arguments: Decoder<'a>,
}

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There is no such program.
    NoProgram,
    /// The program has only this version.
    OtherVersion(u32),
    /// The program has no such procedure.
    NoProcedure,
    /// The arguments do not have the encoding of their types.
    Garbage,
}

impl From<Garbage> for Unanswered {
    fn from(_: Garbage) -> Self {
        Self::Garbage
    }
}

/// A record that is not a call that can be answered by a program.
#[derive(Debug)]
pub(crate) enum NoCall {
    /// It is no call at all: the connection is closed.
    NotRpc,
    /// It is refused with this reply.
    Denied(Encoder),
}

impl From<Garbage> for NoCall {
    fn from(_: Garbage) -> Self {
        Self::NotRpc
    }
}

fn denied(xid: u32, reason: &[u32]) -> NoCall {
    let mut reply = Encoder::default();
    reply.u32(xid).u32(REPLY).u32(DENIED);
    for word in reason {
        reply.u32(*word);
    }
    NoCall::Denied(reply)
}

impl<'a> Call<'a> {
    /// Decodes the header of a call.
    pub(crate) fn decode(record: &'a [u8]) -> Result<Self, NoCall> {
        /// The reason of [`DENIED`] for another version of RPC.
        const RPC_MISMATCH: u32 = 0;
        /// The reason of [`DENIED`] for credentials.
        const AUTH_ERROR: u32 = 1;
        /// The credentials do not have the encoding of their kind.
        const BAD_CREDENTIALS: u32 = 1;
        /// Credentials of this kind are not accepted.
        const TOO_WEAK: u32 = 5;
        let mut record = Decoder::new(record);
        let (xid, kind) = (record.u32()?, record.u32()?);
        if kind != CALL {
            return Err(NoCall::NotRpc);
        }
        if record.u32()? != RPC_VERSION {
            return Err(denied(xid, &[RPC_MISMATCH, RPC_VERSION, RPC_VERSION]));
        }
        let (program, version, procedure) = (record.u32()?, record.u32()?, record.u32()?);
        let (flavor, credentials) = (record.u32()?, record.bytes()?);
        let (_verifier_flavor, verifier) = (record.u32()?, record.bytes()?);
        if credentials.len().max(verifier.len()) > MOST_AUTH_BYTES {
            return Err(denied(xid, &[AUTH_ERROR, BAD_CREDENTIALS]));
        }
        let caller = match flavor {
            AUTH_NONE => RpcCaller::nobody(),
            AUTH_SYS => RpcCaller::decode(credentials)
                .map_err(|Garbage| denied(xid, &[AUTH_ERROR, BAD_CREDENTIALS]))?,
            _ => return Err(denied(xid, &[AUTH_ERROR, TOO_WEAK])),
        };
        Ok(Self { xid, program, version, procedure, caller, arguments: record })
    }

    /// Returns the reply with the results that `answer` encodes, or with the reason why there are
    /// none.
    pub(crate) fn reply(
        &self,
        answer: impl FnOnce(&mut Encoder) -> Result<(), Unanswered>,
    ) -> Encoder {
        let mut reply = self.accepted();
        reply.u32(SUCCESS);
        let Err(unanswered) = answer(&mut reply) else { return reply };
        let mut reply = self.accepted();
        match unanswered {
            Unanswered::NoProgram => reply.u32(1),
            Unanswered::OtherVersion(version) => reply.u32(2).u32(version).u32(version),
            Unanswered::NoProcedure => reply.u32(3),
            Unanswered::Garbage => reply.u32(4),
        };
        reply
    }

    /// Returns the start of the reply to an accepted call. The server sends no verifier.
    fn accepted(&self) -> Encoder {
        let mut reply = Encoder::default();
        reply.u32(self.xid).u32(REPLY).u32(ACCEPTED).u32(AUTH_NONE).bytes(&[]);
        reply
    }
}

#[cfg(test)]
mod tests;
