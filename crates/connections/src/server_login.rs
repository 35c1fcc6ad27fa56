//! The login at a server after the startup packet: its messages, and the pooler's answers.
//!
//! A value that takes bytes and writes answers, for every kind of connection to PostgreSQL. It promises that a server that
//! asks for SCRAM has proved that it knows the keys before the login counts as complete, and, where channel binding is
//! required, that it has the certificate that we have seen (`channel`). Timeouts, retries, where secrets
//! come from and the computation of keys are up to the caller.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
//! //= pg18 sasl-authentication

use auth::{Challenge, ClientExchange, Keys, Mark, Md5Hash, Password, Secret};
use session_state::parameters::Reported;
use units::limits;
use units::random::Random;
use wire::backend::{
    Authentication, BackendKeyData, NegotiateVersion, Negotiated, ParameterStatus, ReadyForQuery, Status, tag,
};
use wire::frontend::{Password as PasswordMessage, SaslInitial, SaslResponse};
use wire::{HEADER_LEN, Header};

use crate::channel::Channel;
use crate::{Broken, MessageType};

/// At most so many reported parameters are kept, so that a hostile server cannot fill memory.
const REPORTED_MAX: usize = 1000;

/// The newest minor version of the protocol that servers may be asked for.
pub const MINOR_MAX: u16 = 2;

/// A login in progress.
#[derive(Debug, Default)]
pub struct ServerLogin {
    scram: Option<ClientExchange>,
    /// The challenge that a hashing thread works on; its answer continues the exchange.
    computing: Option<(Challenge, Password)>,
    /// The server has proved that it knows the keys too.
    verified: bool,
    authenticated: bool,
    /// The server has sent a message.
    answered: bool,
    /// The ParameterStatus messages, in their order.
    pub reported: Reported,
    /// Valid once the login is complete.
    pub key: BackendKey,
    /// Of what a client has proved, if the server was shown that.
    pub mark: Option<Mark>,
}

/// The backend's process id, and the secret to cancel its queries.
#[derive(Debug, Default)]
pub struct BackendKey {
    pub pid: i32,
    pub secret: Box<[u8]>,
}

/// What the pooler proves its identity with.
#[derive(Copy, Clone, Debug)]
pub struct Credentials<'a> {
    pub user: &'a str,
    pub secret: Option<&'a Secret>,
    /// A client has shown the secret, or it was looked up for one.
    pub is_clients: bool,
    /// Keys that were derived before.
    pub derived: Option<&'a Derived>,
    /// Keys from a client's own SCRAM proof, used where the secret is no password.
    pub client_keys: Option<&'a Keys>,
    /// What SCRAM can be bound to.
    pub channel: Channel<'a>,
}

impl Credentials<'_> {
    /// Of the secret, if it is a client's.
    fn mark(&self) -> Option<Mark> {
        self.secret.filter(|_| self.is_clients).map(Mark::of_secret)
    }
}

/// Keys that were derived from a password for a challenge: good for both of them, and for no other.
#[derive(Clone, Debug)]
pub struct Derived {
    challenge: Challenge,
    password: Password,
    keys: Keys,
}

impl Derived {
    fn fits(&self, challenge: &Challenge, secret: Option<&Secret>) -> bool {
        self.challenge == *challenge && matches!(secret, Some(Secret::Plain(password)) if *password == self.password)
    }
}

/// The state of a login after reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<'b> {
    /// It is not complete yet.
    Open,
    /// These keys have to be derived for [`ServerLogin::go_on_with`]. Reading can go on.
    Derive { password: Password, salt: Vec<u8>, iterations: u32 },
    /// ReadyForQuery.
    Ready,
    /// The body of an ErrorResponse.
    Refused(&'b [u8]),
}

impl ServerLogin {
    /// Whether the server has sent a message.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Reads complete messages from `at` on, up to something that the caller has to act on or to the end of the bytes. `at`
    /// is moved past them. Answers are appended to `out`.
    ///
    /// # Errors
    /// The server has broken the protocol, or the login is not possible.
    pub fn read<'b>(
        &mut self,
        bytes: &'b [u8],
        at: &mut usize,
        credentials: Credentials<'_>,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Broken> {
        loop {
            let rest = &bytes[*at..];
            let Some(header) = Header::parse(rest)? else { return Ok(Progress::Open) };
            if header.body_len() > limits::SERVER_MESSAGE_LEN_MAX {
                return Err(Broken::TooLong);
            }
            if rest.len() < header.total_len() {
                return Ok(Progress::Open);
            }
            *at += header.total_len();
            self.answered = true;
            match self.message(header.tag, &rest[HEADER_LEN..header.total_len()], credentials, random, out)? {
                Progress::Open => {}
                other => return Ok(other),
            }
        }
    }

    fn message<'b>(
        &mut self,
        tag: u8,
        body: &'b [u8],
        credentials: Credentials<'_>,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Broken> {
        match tag {
            tag::AUTHENTICATION => {
                return self.authenticate(Authentication::decode(body)?, credentials, &random.bytes(), out);
            }
            tag::ERROR => return Ok(Progress::Refused(body)),
            tag::NOTICE => {}
            tag::NEGOTIATE_VERSION => negotiated(NegotiateVersion::decode(body)?)?,
            _ if !self.authenticated => {
                return Err(Broken::BeforeAuthentication { message: MessageType(tag) });
            }
            tag::PARAMETER_STATUS => {
                let status = ParameterStatus::decode(body)?;
                if self.reported.len() < REPORTED_MAX {
                    self.reported.push((status.name.into(), status.value.into()));
                }
            }
            tag::BACKEND_KEY_DATA => {
                let key = BackendKeyData::decode(body)?;
                self.key = BackendKey { pid: key.pid, secret: key.secret.into() };
            }
            tag::READY_FOR_QUERY => {
                let ready = ReadyForQuery::decode(body)?;
                if ready.status != Status::Idle {
                    return Err(Broken::InTransaction);
                }
                return Ok(Progress::Ready);
            }
            other => return Err(Broken::DuringLogin { message: MessageType(other) }),
        }
        Ok(Progress::Open)
    }

    fn authenticate<'b>(
        &mut self,
        request: Authentication<'_>,
        credentials: Credentials<'_>,
        nonce: &[u8; auth::scram::NONCE_LEN],
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Broken> {
        if self.authenticated {
            return Err(Broken::AuthenticatedTwice);
        }
        match request {
            Authentication::Ok => {
                if self.scram.is_some() && !self.verified {
                    return Err(Broken::ScramSkipped);
                }
                credentials.channel.accept(self.scram.as_ref().is_some_and(ClientExchange::is_bound))?;
                self.authenticated = true;
            }
            Authentication::CleartextPassword => {
                credentials.channel.allow_unbound()?;
                let Some(Secret::Plain(password)) = credentials.secret else { return Err(Broken::WrongPasswordType) };
                self.mark = credentials.mark();
                PasswordMessage { password: password.as_str().as_bytes() }.encode(out);
            }
            Authentication::Md5Password { salt } => {
                credentials.channel.allow_unbound()?;
                let hash = match credentials.secret {
                    Some(Secret::Plain(password)) => Md5Hash::of(password.as_str(), credentials.user),
                    Some(Secret::Md5(hash)) => hash.clone(),
                    _ => return Err(Broken::WrongPasswordType),
                };
                self.mark = credentials.mark();
                PasswordMessage { password: auth::md5::response(&hash, salt).as_bytes() }.encode(out);
            }
            Authentication::Sasl { mechanisms } => {
                if self.scram.is_some() {
                    return Err(Broken::SaslOutOfOrder);
                }
                let (mechanism, binding) = credentials.channel.choose(mechanisms)?;
                let (exchange, first) = ClientExchange::start_in(binding, nonce);
                self.scram = Some(exchange);
                SaslInitial { mechanism: mechanism.as_bytes(), response: Some(&first) }.encode(out);
            }
            Authentication::SaslContinue(data) => return self.challenged(data, credentials, out),
            Authentication::SaslFinal(data) => {
                let scram = self.scram.as_mut().ok_or(Broken::SaslOutOfOrder)?;
                scram.verify(data)?;
                self.verified = true;
            }
            // A pool has no tickets.
            Authentication::Gss | Authentication::GssContinue(_) => {
                return Err(Broken::Gss);
            }
            Authentication::Other(method) => {
                return Err(Broken::UnknownMethod { method });
            }
        }
        Ok(Progress::Open)
    }

    fn challenged<'b>(
        &mut self,
        data: &[u8],
        credentials: Credentials<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Broken> {
        let scram = self.scram.as_mut().ok_or(Broken::SaslOutOfOrder)?;
        let challenge = scram.challenge(data)?;
        let derived = credentials.derived.filter(|derived| derived.fits(&challenge, credentials.secret));
        let keys = match (derived, credentials.secret) {
            (Some(derived), _) => &derived.keys,
            (None, Some(Secret::Plain(password))) => {
                let (salt, iterations) = (challenge.salt.clone(), challenge.iterations);
                self.computing = Some((challenge, password.clone()));
                self.mark = credentials.mark();
                return Ok(Progress::Derive { password: password.clone(), salt, iterations });
            }
            (None, _) => credentials.client_keys.ok_or(Broken::WrongPasswordType)?,
        };
        self.mark = match derived {
            Some(_) => credentials.mark(),
            None => Some(Mark::of_keys(keys)),
        };
        respond(scram, keys, out)?;
        Ok(Progress::Open)
    }

    /// The keys of [`Progress::Derive`] have been derived. Returns them with what they are good for; `None`: the login does
    /// not wait for keys, because the server has sent a second challenge, which the first keys have answered.
    ///
    /// # Errors
    /// The exchange has failed.
    pub fn go_on_with(&mut self, keys: Keys, out: &mut Vec<u8>) -> Result<Option<Derived>, Broken> {
        let (Some((challenge, password)), Some(scram)) = (self.computing.take(), self.scram.as_mut()) else {
            return Ok(None);
        };
        respond(scram, &keys, out)?;
        Ok(Some(Derived { challenge, password, keys }))
    }
}

fn respond(scram: &mut ClientExchange, keys: &Keys, out: &mut Vec<u8>) -> Result<(), Broken> {
    let last = scram.respond(keys)?;
    SaslResponse { response: &last }.encode(out);
    Ok(())
}

/// A server that speaks an older version than we have asked for may say so. Which one it is makes no difference here: keys are
/// taken in any length.
///
/// # Errors
/// It names a version that we have not asked for, or an extension: we ask for none.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-NEGOTIATEPROTOCOLVERSION
fn negotiated(told: Negotiated<'_>) -> Result<(), Broken> {
    if told.minor > i32::from(MINOR_MAX) {
        return Err(Broken::HigherVersion);
    }
    if told.count() > 0 { Err(Broken::UnknownParameter) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use auth::{ServerExchange, Verifier};
    use wire::frontend;

    use super::*;

    const PASSWORD: &str = "pencil";

    fn plain() -> Secret {
        Secret::Plain(Password::new(PASSWORD))
    }

    fn with(secret: Option<&Secret>) -> Credentials<'_> {
        Credentials {
            user: "ann",
            secret,
            is_clients: false,
            derived: None,
            client_keys: None,
            channel: Channel::default(),
        }
    }

    fn message(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        bytes
    }

    fn request(authentication: Authentication<'_>) -> Vec<u8> {
        message(|out| authentication.encode(out))
    }

    fn sasl() -> Vec<u8> {
        message(|out| wire::backend::encode_sasl(out, &[auth::scram::MECHANISM.as_bytes()]))
    }

    /// Reads bytes that end with the message to be acted on. The answer is returned.
    fn read(
        login: &mut ServerLogin,
        bytes: &[u8],
        credentials: Credentials<'_>,
    ) -> Result<(Progress<'static>, Vec<u8>), Broken> {
        let (mut at, mut out) = (0, Vec::new());
        let progress = login.read(bytes, &mut at, credentials, &mut Random::seeded(1), &mut out)?;
        assert_eq!(at, bytes.len());
        let progress = match progress {
            Progress::Refused(_) => Progress::Refused(b""),
            Progress::Open => Progress::Open,
            Progress::Ready => Progress::Ready,
            Progress::Derive { password, salt, iterations } => Progress::Derive { password, salt, iterations },
        };
        Ok((progress, out))
    }

    /// The server's part of an exchange, up to its challenge, which is read with these credentials.
    fn challenged(
        login: &mut ServerLogin,
        credentials: Credentials<'_>,
    ) -> (ServerExchange, Result<(Progress<'static>, Vec<u8>), Broken>) {
        let (_, first) = read(login, &sasl(), credentials).expect("SCRAM is known");
        let initial = frontend::SaslInitial::decode(&first[HEADER_LEN..]).expect("ours");
        let verifier = Verifier::derive(PASSWORD, b"0123456789abcdef", 4);
        let (exchange, first) =
            ServerExchange::start(initial.response.expect("client-first"), verifier, &[3; 18]).expect("ours");
        (exchange, read(login, &request(Authentication::SaslContinue(&first)), credentials))
    }

    #[test]
    fn keys_are_derived_once_and_the_server_proves_itself_too() {
        let secret = plain();
        let mut login = ServerLogin::default();
        let (exchange, progress) = challenged(&mut login, with(Some(&secret)));
        let Ok((Progress::Derive { password, salt, iterations }, out)) = progress else { panic!("{progress:?}") };
        assert!(out.is_empty(), "nothing is sent before the keys are there");
        let keys = Keys::derive(password.as_str(), &salt, iterations);
        let mut out = Vec::new();
        let derived = login.go_on_with(keys.clone(), &mut out).expect("a challenge").expect("it was asked for");
        assert!(login.go_on_with(keys, &mut out).is_ok_and(|again| again.is_none()), "keys answer one challenge");
        let last = SaslResponse::decode(&out[HEADER_LEN..]).expect("ours");
        let done = exchange.finish(last.response).expect("the password is right");
        let early = read(&mut login, &request(Authentication::Ok), with(None));
        assert_eq!(early, Err(Broken::ScramSkipped));
        let final_message = request(Authentication::SaslFinal(&done.server_final));
        assert_eq!(read(&mut login, &final_message, with(None)), Ok((Progress::Open, Vec::new())));
        assert_eq!(read(&mut login, &request(Authentication::Ok), with(None)), Ok((Progress::Open, Vec::new())));
        let ready = message(|out| ReadyForQuery { status: Status::Idle }.encode(out));
        assert_eq!(read(&mut login, &ready, with(None)), Ok((Progress::Ready, Vec::new())));
        // The next login with the same challenge has the keys already.
        let credentials = Credentials { derived: Some(&derived), ..with(Some(&secret)) };
        let (exchange, progress) = challenged(&mut ServerLogin::default(), credentials);
        let (progress, out) = progress.expect("keys are at hand");
        assert_eq!(progress, Progress::Open);
        let last = SaslResponse::decode(&out[HEADER_LEN..]).expect("ours");
        assert!(exchange.finish(last.response).is_ok());
        // Another password needs its own, whatever the challenge.
        let other = Secret::Plain(Password::new("another"));
        let credentials = Credentials { derived: Some(&derived), ..with(Some(&other)) };
        let (_, progress) = challenged(&mut ServerLogin::default(), credentials);
        assert!(matches!(progress, Ok((Progress::Derive { .. }, _))), "{progress:?}");
    }

    #[test]
    fn a_clients_keys_stand_in_for_a_password() {
        let keys = Keys::derive(PASSWORD, b"0123456789abcdef", 4);
        let credentials = Credentials { client_keys: Some(&keys), ..with(None) };
        let (exchange, progress) = challenged(&mut ServerLogin::default(), credentials);
        let (_, out) = progress.expect("keys are at hand");
        assert!(exchange.finish(SaslResponse::decode(&out[HEADER_LEN..]).expect("ours").response).is_ok());
    }

    #[test]
    fn a_secret_of_another_kind_is_never_sent() {
        let hash = Secret::Md5(Md5Hash::of(PASSWORD, "ann"));
        let verifier = Secret::Scram(Verifier::derive(PASSWORD, b"0123456789abcdef", 4));
        let wrong = Err(Broken::WrongPasswordType);
        for secret in [None, Some(&hash), Some(&verifier)] {
            let clear = read(&mut ServerLogin::default(), &request(Authentication::CleartextPassword), with(secret));
            assert_eq!(clear, wrong, "{secret:?}");
            assert_eq!(challenged(&mut ServerLogin::default(), with(secret)).1, wrong, "{secret:?}");
        }
        for secret in [None, Some(&verifier)] {
            let md5 = request(Authentication::Md5Password { salt: [1; 4] });
            assert_eq!(read(&mut ServerLogin::default(), &md5, with(secret)), wrong, "{secret:?}");
        }
    }

    #[test]
    fn md5_is_answered_from_a_password_and_from_its_hash() {
        let (password, hash) = (plain(), Secret::Md5(Md5Hash::of(PASSWORD, "ann")));
        for secret in [&password, &hash] {
            let bytes = request(Authentication::Md5Password { salt: [1; 4] });
            let (_, out) = read(&mut ServerLogin::default(), &bytes, with(Some(secret))).expect("fine");
            let given = PasswordMessage::decode(&out[HEADER_LEN..]).expect("ours");
            assert!(auth::verify_md5(&password, "ann", [1; 4], given.password));
        }
    }

    #[test]
    fn what_a_server_may_not_send_breaks_the_login() {
        let status = message(|out| ParameterStatus { name: b"a", value: b"b" }.encode(out));
        let refused =
            |login: &mut ServerLogin, bytes: &[u8]| read(login, bytes, with(None)).expect_err("refused").to_string();
        let early = refused(&mut ServerLogin::default(), &status);
        assert_eq!(early, "unexpected message before authentication: S");
        let mut login = ServerLogin::default();
        assert_eq!(refused(&mut login, &request(Authentication::SaslContinue(b"r=x"))), "SASL message out of order");
        assert_eq!(refused(&mut login, &request(Authentication::SaslFinal(b"v=x"))), "SASL message out of order");
        read(&mut login, &request(Authentication::Ok), with(None)).expect("trusted");
        let again = refused(&mut login, &request(Authentication::Ok));
        assert_eq!(again, "authentication request after AuthenticationOk");
        let within = message(|out| ReadyForQuery { status: Status::InTransaction }.encode(out));
        assert_eq!(refused(&mut login, &within), "server starts inside a transaction");
        let long = [&b"S"[..], &(limits::SERVER_MESSAGE_LEN_MAX as i32 + 5).to_be_bytes()].concat();
        let told = login.read(&long, &mut 0, with(None), &mut Random::seeded(1), &mut Vec::new());
        assert_eq!(told, Err(Broken::TooLong));
    }

    #[test]
    fn a_negotiated_version_is_none_that_was_not_asked_for() {
        let told = |minor: i32, unknown: &[&[u8]]| {
            let bytes = message(|out| NegotiateVersion { minor, unknown }.encode(out));
            read(&mut ServerLogin::default(), &bytes, with(None)).map_err(|why| why.to_string())
        };
        let invalid = |why: &str| Err(format!("received invalid protocol negotiation message: {why}"));
        for minor in 0..=2 {
            assert_eq!(told(minor, &[]), Ok((Progress::Open, Vec::new())), "3.{minor}");
        }
        let higher = "server requested downgrade to a higher-numbered version";
        assert_eq!(told(3, &[]), invalid(higher));
        assert_eq!(told(9999, &[]), invalid(higher));
        let extension = "server reported an unsupported parameter that was not requested";
        assert_eq!(told(0, &[b"_pq_.command_tags"]), invalid(extension));
    }

    #[test]
    fn half_a_message_waits_and_a_hostile_server_fills_no_memory() {
        let mut login = ServerLogin::default();
        read(&mut login, &request(Authentication::Ok), with(None)).expect("trusted");
        let status = message(|out| ParameterStatus { name: b"a", value: b"b" }.encode(out));
        for len in 0..status.len() {
            let mut at = 0;
            let told = login.read(&status[..len], &mut at, with(None), &mut Random::seeded(1), &mut Vec::new());
            assert_eq!((told, at), (Ok(Progress::Open), 0), "{len} bytes");
        }
        for _ in 0..2 * REPORTED_MAX {
            read(&mut login, &status, with(None)).expect("fine");
        }
        assert_eq!(login.reported.len(), REPORTED_MAX);
    }
}
