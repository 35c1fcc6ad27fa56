//! What a decision means for other parts: noted here, and done before anything else in the step.

use std::borrow::Cow;
use std::sync::Arc;

use connections::databases::Address;
use link::end_reason::EndReason;
use link::permits::Permits;
use link::request_refusal::RequestRefusal;
use link::server::CloseReason;
use units::{ConnId, PoolId};
use wire::SqlState;
use wire::backend::ErrorResponse;

use crate::tables::limiters::{Before, Outcome};

/// One thing to be done.
#[derive(Debug)]
pub(crate) enum Followup {
    /// A session ends.
    End(ConnId, Box<SessionEnd>),
    /// A linked session's messages, which are kept, go on to its server.
    GoOn(ConnId),
    /// A transaction is over: its permits go back to their limits.
    Release(Box<Permits>),
    /// Sessions that wait for this limit may be able to go on.
    Admit(Before),
    /// Sessions that wait to be pinned in this pool may be able to go on.
    AdmitToPin(PoolId),
    /// A pool's listener is lost, and why.
    ListenerLost(PoolId, Box<CloseReason>),
    /// The state of a host is another one now.
    HostChanged(Arc<Address>),
    /// A transaction that has defined something is over; `lost`: its server is gone.
    Settle { pool: PoolId, server: ConnId, lost: bool },
}

/// A session waits in no queue of the limits any more.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) session: ConnId,
    /// It is in the queue that this ticket is for.
    pub(crate) ticket: Option<u64>,
    /// The outcome of its wait, if it still has to act on that.
    pub(crate) outcome: Option<Outcome>,
}

/// How a session ends.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// Its client has disconnected, or sent Terminate.
    Left(EndReason),
    /// Its client has got every message that it needs.
    Dismissed(EndReason),
    /// Its client gets a FATAL error.
    Refused(Fatal),
}

impl SessionEnd {
    pub(crate) fn why(&self) -> &EndReason {
        match self {
            SessionEnd::Left(why) | SessionEnd::Dismissed(why) => why,
            SessionEnd::Refused(fatal) => &fatal.why,
        }
    }
}

/// The last message of a session.
#[derive(Debug)]
pub(crate) struct Fatal {
    pub(crate) why: EndReason,
    pub(crate) code: SqlState,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Fatal {
    /// Takes over the fields of an error for the client's request.
    pub(crate) fn of(error: &RequestError) -> Fatal {
        Fatal {
            why: EndReason::Request { why: error.why.clone() },
            code: error.why.code(),
            detail: error.detail.clone(),
            hint: error.hint.as_deref().map(str::to_owned),
        }
    }

    /// `message`: the reason in words.
    pub(crate) fn error<'a>(&'a self, message: &'a str) -> ErrorResponse<'a> {
        ErrorResponse {
            severity: "FATAL",
            code: self.code,
            message,
            detail: self.detail.as_deref(),
            hint: self.hint.as_deref(),
        }
    }
}

/// The error for a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestError {
    pub(crate) why: RequestRefusal,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<Cow<'static, str>>,
}

impl RequestError {
    /// Without the hint that it can be sent again, if it belongs to a transaction block: alone it cannot.
    pub(crate) fn within_block(self, is_within: bool) -> RequestError {
        RequestError { hint: self.hint.filter(|_| !is_within), ..self }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (code, message, detail) = (self.why.code(), &self.why.to_string(), self.detail.as_deref());
        ErrorResponse { severity: "ERROR", code, message, detail, hint: self.hint.as_deref() }.encode(out);
    }
}
