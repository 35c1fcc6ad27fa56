//! A session that stays after the loss of its server: between two transactions, or in a block that the pooler answers in the server's place until the
//! client ends it.

use connections::databases::{Address, Host};
use link::loss::{Failure, Loss};
use link::lost_block::{LostBlock, Read, Reader, is_loss, write_refusal};
use link::parameter_reports::{before, roll_back};
use link::pool::Rules;
use link::request_refusal::RequestRefusal;
use link::server::{Before, CloseReason, Server};
use link::session::SessionState;
use machine::Settings;
use machine::sabotage::{Fault, does};
use settings::LossCode;
use units::ConnId;
use units::deadline::Owner;
use wire::backend::ErrorResponse;
use wire::{SqlState, sqlstate};

use crate::limits::{permits, pin_queue};
use crate::servers::listener;
use crate::tables::backpressure;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// The DETAIL of 08007.
const DOUBT: &str = "It may have been committed. Look at the data before you send it again.";

/// Why a server is lost, as its client is told, and what its session has again.
pub(crate) struct Cause {
    code: SqlState,
    why: CloseReason,
    host: String,
    before: Option<Before>,
    shows_own: bool,
    /// A planted fault: a request that may have been committed gets the error of one that was not.
    denies: bool,
}

impl Cause {
    /// `code`: PostgreSQL's own, or the pooler's.
    pub(crate) fn new(server: &Server, rules: &Rules, settings: &Settings, code: SqlState, why: CloseReason) -> Cause {
        let shows_own = rules.loss_code() == LossCode::Server;
        let denies = does(settings, Fault::DenyCommits);
        Cause { shows_own, denies, code, why, host: words_of_host(server.identity().host()), before: before(server) }
    }

    /// The SQLSTATE where something may have been committed: the outcome is unknown, so no other code is true. An answer that is too long for the
    /// pooler has a code of its own.
    pub(crate) fn code_in_doubt(&self) -> SqlState {
        let is_own = self.code == sqlstate::PROGRAM_LIMIT_EXCEEDED || self.denies;
        if is_own { self.code } else { sqlstate::TRANSACTION_RESOLUTION_UNKNOWN }
    }

    pub(crate) fn code(&self) -> SqlState {
        self.code
    }

    /// The state that its session has again, if that was changed.
    pub(crate) fn before(&self) -> Option<&Before> {
        self.before.as_ref()
    }

    /// The error for a block that is lost.
    pub(crate) fn error_of_block(&self) -> Vec<u8> {
        let mut error = Vec::new();
        self.write(Failure::Block, &mut error);
        error
    }

    fn write(&self, failure: Failure, out: &mut Vec<u8>) {
        let own = |code, out: &mut Vec<u8>| {
            let message = &self.why.to_string();
            let detail = (code == sqlstate::TRANSACTION_RESOLUTION_UNKNOWN).then_some(DOUBT);
            ErrorResponse { severity: "ERROR", code, message, detail, hint: None }.encode(out);
        };
        match failure {
            Failure::Alone => own(self.code, out),
            Failure::Unknown => own(self.code_in_doubt(), out),
            Failure::Aborted => write_refusal(&RequestRefusal::AbortedBlock, out),
            Failure::Block if is_loss(self.code) && !self.shows_own => {
                let (lost, detail) = (RequestRefusal::LostBlock, format!("{}: {}", self.host, self.why));
                let (code, message) = (lost.code(), &lost.to_string());
                ErrorResponse { severity: "ERROR", code, message, detail: Some(&detail), hint: None }.encode(out);
            }
            Failure::Block => own(self.code, out),
        }
    }
}

fn words_of_host(address: &Address) -> String {
    let Address { host, port } = address;
    match host {
        Host::Unix(folder) => format!("PostgreSQL in {folder}, port {port}"),
        Host::Ip(ip) => format!("PostgreSQL at {ip}, port {port}"),
        Host::Name(name) => format!("PostgreSQL at {name}, port {port}"),
    }
}

/// A session stays without its server. `cause`: `None` where nothing is lost.
pub(crate) fn go_on(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    (loss, cause): (&Loss, Option<&Cause>),
) {
    // Its transaction is over, or never began.
    permits::leave_limits(sessions, step, conn);
    let session = &mut sessions[conn];
    let before = cause.and_then(|cause| cause.before.as_ref());
    let mut reports = before.map(|before| roll_back(session, before, &step.caches.tracked)).unwrap_or_default();
    if let Some(cause) = cause
        && !loss.answers.is_empty()
    {
        step.actions.send_new(conn, |out| {
            for answer in &loss.answers {
                answer.write(out, &mut reports, |failure, out| cause.write(failure, out));
            }
        });
    }
    match (loss.block, cause) {
        (Some(told), Some(cause)) if !does(&step.plan.settings, Fault::ForgetLostBlock) => {
            session.lose_block(step.now);
            sessions.lost_blocks.insert(conn, LostBlock::new(told, cause.error_of_block(), reports));
        }
        _ => session.unlink(step.now),
    }
    let session = &mut sessions[conn];
    session.end_retries();
    session.statements_mut().server_lost(!loss.answers.is_empty());
    session.incoming_mut().forward_no_more();
    if loss.skips() {
        session.incoming_mut().discard_batch();
    }
    if let Some(tracker) = session.tracker_mut() {
        tracker.lost();
    }
    if !session.incoming().inbox().is_empty() {
        step.agenda.reconsider(conn);
    }
    pin_queue::return_pin_permit(sessions, pools, step, conn);
    listener::send_notifications(sessions, servers, step, conn);
    step.agenda.arm(Owner::Conn(conn));
    backpressure::balance_if_paused(sessions, servers, step, conn);
}

/// A session in a lost block has bytes in its inbox.
pub(crate) fn answer(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    // The session has ended in this step.
    let Some(block) = sessions.lost_blocks.get_mut(&conn) else { return };
    let session = &mut sessions.table[conn];
    debug_assert!(
        matches!(session.state(), SessionState::LostBlock { .. }),
        "any other session's bytes may need a server"
    );
    session.note_within_lost_block(step.now);
    let mut inbox = session.incoming_mut().take_inbox();
    let pool = &mut pools[session.pool()];
    let keeps_savepoints = does(&step.plan.settings, Fault::KeepSavepoints);
    let mut reader =
        Reader { conn, session, block, pool, caches: step.caches, actions: step.machine.actions, keeps_savepoints };
    let read = reader.read(&mut inbox);
    match read {
        Ok(Read::Incomplete(at) | Read::Over(at)) => _ = inbox.drain(..at),
        Err(ending) => return step.agenda.end_by_request(conn, ending),
    }
    let is_over = matches!(read, Ok(Read::Over(_)));
    let goes_on = is_over && !inbox.is_empty();
    let session = &mut sessions[conn];
    if inbox.is_empty() {
        step.caches.buffers.put_back(inbox);
    } else {
        session.incoming_mut().put_back(inbox);
    }
    if is_over {
        session.end_block(step.now);
        sessions.lost_blocks.remove(&conn);
        listener::send_notifications(sessions, servers, step, conn);
    }
    if goes_on {
        step.agenda.reconsider(conn);
    }
    step.agenda.arm(Owner::Conn(conn));
    backpressure::balance_session(sessions, servers, step, conn);
}
