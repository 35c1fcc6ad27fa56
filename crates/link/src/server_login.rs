//! The login at a server: its messages, and the pooler's answers.
//!
//! Timeouts and retries are up to the caller.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
//! //= pg18 sasl-authentication

use std::sync::Arc;

use auth::{ClientExchange, Keys, Md5Hash, Secret};
use connections::databases::Database;
use connections::server::{Login, Server};
use machine::action::Action;
use machine::work::Job;
use machine::{Settings, Step};
use session_state::login_report::LoginReport;
use units::random::Random;
use units::{ConnId, limits};
use wire::backend::{Authentication, BackendKeyData, ParameterStatus, ReadyForQuery, Status, tag};
use wire::frontend::{Password, SaslInitial, SaslResponse};
use wire::{HEADER_LEN, Header};

use crate::caches::Caches;
use crate::findings::Broken;
use crate::pool::Pool;

/// At most so many reported parameters are kept, so that a hostile server cannot fill memory.
const REPORTED_MAX: usize = 1000;

/// A server that is logging in, while its bytes are read.
#[derive(Debug)]
pub struct ServerLogin<'a, 't> {
    pub step: &'a mut Step<'t>,
    pub conn: ConnId,
    pub server: &'a mut Server,
    pub pool: &'a Pool,
    pub settings: &'a Settings,
    /// For nonces.
    pub random: &'a mut Random,
}

/// The state of a login after reading.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End<'b> {
    /// It is not complete yet.
    Open,
    /// ReadyForQuery.
    Ready,
    /// The body of an ErrorResponse.
    Refused(&'b [u8]),
}

impl<'a> ServerLogin<'a, '_> {
    /// Reads complete messages from `at` on, up to the end of the login or of the bytes. `at` is moved past them.
    ///
    /// # Errors
    /// The server has broken the protocol, or the login is not possible.
    pub fn read<'b>(&mut self, bytes: &'b [u8], at: &mut usize) -> Result<End<'b>, Broken> {
        loop {
            let rest = &bytes[*at..];
            let Some(header) = Header::parse(rest)? else { return Ok(End::Open) };
            if header.body_len() > limits::SERVER_MESSAGE_LEN_MAX {
                return Err(Broken("message from server is too long".to_owned()));
            }
            if rest.len() < header.total_len() {
                return Ok(End::Open);
            }
            *at += header.total_len();
            match self.message(header.tag, &rest[HEADER_LEN..header.total_len()])? {
                End::Open => {}
                end => return Ok(end),
            }
        }
    }

    fn message<'b>(&mut self, tag: u8, body: &'b [u8]) -> Result<End<'b>, Broken> {
        let login = logging_in(self.server);
        match tag {
            tag::AUTHENTICATION => self.authenticate(Authentication::decode(body)?)?,
            tag::ERROR => return Ok(End::Refused(body)),
            tag::NOTICE | tag::NEGOTIATE_VERSION => {}
            _ if !login.authenticated => {
                return Err(Broken(format!("unexpected message before authentication: {}", tag.escape_ascii())));
            }
            tag::PARAMETER_STATUS => {
                let status = ParameterStatus::decode(body)?;
                if login.reported.len() < REPORTED_MAX {
                    login.reported.push((status.name.into(), status.value.into()));
                }
            }
            tag::BACKEND_KEY_DATA => {
                let key = BackendKeyData::decode(body)?;
                (self.server.backend.pid, self.server.backend.secret) = (key.pid, key.secret.into());
            }
            tag::READY_FOR_QUERY => {
                let ready = ReadyForQuery::decode(body)?;
                if ready.status != Status::Idle {
                    return Err(Broken("server starts inside a transaction".to_owned()));
                }
                return Ok(End::Ready);
            }
            other => return Err(Broken(format!("unexpected message during login: {}", other.escape_ascii()))),
        }
        Ok(End::Open)
    }

    fn authenticate(&mut self, request: Authentication<'_>) -> Result<(), Broken> {
        let nonce = self.random.bytes();
        let (conn, pool) = (self.conn, self.pool);
        let login = logging_in(self.server);
        if login.authenticated {
            return Err(Broken("authentication request after AuthenticationOk".to_owned()));
        }
        let secret = own_secret(pool, self.settings);
        match request {
            Authentication::Ok => {
                if login.scram.is_some() && !login.verified {
                    return Err(Broken("server skipped its part of the SCRAM exchange".to_owned()));
                }
                login.authenticated = true;
            }
            Authentication::CleartextPassword => {
                let Some(Secret::Plain(password)) = secret else { return Err(wrong_password_type()) };
                let text = password.as_str().as_bytes();
                self.step.actions.send_new(conn, |out| Password { password: text }.encode(out));
            }
            Authentication::Md5Password { salt } => {
                let hash = match secret {
                    Some(Secret::Plain(password)) => Md5Hash::of(password.as_str(), &pool.key.user),
                    Some(Secret::Md5(hash)) => hash.clone(),
                    _ => return Err(wrong_password_type()),
                };
                let text = auth::md5::response(&hash, salt);
                self.step.actions.send_new(conn, |out| Password { password: text.as_bytes() }.encode(out));
            }
            Authentication::Sasl { mechanisms } => {
                if !mechanisms.offers(auth::scram::MECHANISM.as_bytes()) || login.scram.is_some() {
                    return Err(Broken("server offers no SASL mechanism we know".to_owned()));
                }
                let (exchange, first) = ClientExchange::start(&nonce);
                login.scram = Some(exchange);
                let initial = SaslInitial { mechanism: auth::scram::MECHANISM.as_bytes(), response: Some(&first) };
                self.step.actions.send_new(conn, |out| initial.encode(out));
            }
            Authentication::SaslContinue(data) => return self.challenged(data),
            Authentication::SaslFinal(data) => {
                let scram = login.scram.as_mut().ok_or_else(|| Broken("SASL message out of order".to_owned()))?;
                scram.verify(data).map_err(|error| Broken(error.to_string()))?;
                login.verified = true;
            }
            Authentication::Other(method) => {
                return Err(Broken(format!("server asks for an unknown authentication method: {method}")));
            }
        }
        Ok(())
    }

    fn challenged(&mut self, data: &[u8]) -> Result<(), Broken> {
        let (conn, pool) = (self.conn, self.pool);
        let login = logging_in(self.server);
        let scram = login.scram.as_mut().ok_or_else(|| Broken("SASL message out of order".to_owned()))?;
        let challenge = scram.challenge(data).map_err(|error| Broken(error.to_string()))?;
        let cached = pool.opening.keys.as_ref().filter(|(known, _)| *known == challenge).map(|(_, keys)| keys);
        let keys = match (cached, own_secret(pool, self.settings)) {
            (Some(keys), _) => keys.clone(),
            (None, Some(Secret::Plain(password))) => {
                let (salt, iterations) = (challenge.salt.clone(), challenge.iterations);
                let job = Job::DeriveKeys { password: password.clone(), salt, iterations };
                login.computing = Some(challenge);
                self.step.actions.push(Action::Compute { conn, job });
                return Ok(());
            }
            (None, _) => pool.opening.client_keys.clone().ok_or_else(wrong_password_type)?,
        };
        respond(self.step, conn, scram, &keys)
    }
}

/// The login of a server that is logging in.
fn logging_in(server: &mut Server) -> &mut Login {
    server.login_mut().expect("whoever reads a login has seen that the server logs in")
}

/// The keys that a login waits for have been derived.
///
/// # Errors
/// The exchange has failed.
pub fn go_on_with(
    step: &mut Step<'_>,
    conn: ConnId,
    server: &mut Server,
    pool: &mut Pool,
    keys: Keys,
) -> Result<(), Broken> {
    // A server that sends a second challenge gets the answer to the last one; by then the login may be complete.
    let Some(login) = server.login_mut() else { return Ok(()) };
    let (Some(challenge), Some(scram)) = (login.computing.take(), login.scram.as_mut()) else { return Ok(()) };
    let end = respond(step, conn, scram, &keys);
    pool.opening.keys = Some((challenge, keys));
    end
}

/// The parameters that a server has reported at login become those that its pool's sessions begin with.
pub fn note_reported(server: &mut Server, pool: &mut Pool, caches: &mut Caches) {
    let login = logging_in(server);
    let reported = std::mem::take(&mut login.reported);
    let mut parameters = caches.tracked.empty();
    for (name, value) in &reported {
        let known = caches.tracked.index(name).and_then(|index| parameters.with(index, value));
        parameters = known.unwrap_or(parameters);
    }
    let parameters = caches.interned.intern(parameters);
    server.kept.parameters = Arc::clone(&parameters);
    pool.welcome.report = Some(Arc::new(LoginReport::new(reported, parameters, &caches.tracked)));
}

/// The secret that this pool logs in to PostgreSQL with.
fn own_secret<'a>(pool: &'a Pool, settings: &'a Settings) -> Option<&'a Secret> {
    let database: &Database = &pool.database;
    database.password.as_ref().or_else(|| settings.secrets.get(&*pool.key.user))
}

fn respond(step: &mut Step<'_>, conn: ConnId, scram: &mut ClientExchange, keys: &Keys) -> Result<(), Broken> {
    let last = scram.respond(keys).map_err(|error| Broken(error.to_string()))?;
    step.actions.send_new(conn, |out| SaslResponse { response: &last }.encode(out));
    Ok(())
}

/// The pool's secret is not of the kind that the server requires.
pub const WRONG_PASSWORD_TYPE: &str = "wrong password type";

fn wrong_password_type() -> Broken {
    Broken(WRONG_PASSWORD_TYPE.to_owned())
}
