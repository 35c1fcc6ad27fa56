//! Authentication of clients: trust, clear password, md5, SCRAM-SHA-256.
//!
//! Nothing here depends on whether a pool has servers. For an unknown user the messages are the same as for a wrong
//! password.
//!
//! //= pg18 sasl-authentication

use std::sync::Arc;

use auth::{Keys, Mock, Password, ScramError, Secret, ServerDone, ServerExchange, Verifier};
use machine::Settings;
use machine::action::{Action, Actions};
use machine::observe::{Level, Topic};
use machine::work::{Done, Job};
use settings::AuthType;
use units::names::shown;
use units::{ConnId, Time, heap};
use wire::backend::Authentication;
use wire::frontend::{Password as PasswordMessage, SaslInitial, SaslResponse, tag};
use wire::{HEADER_LEN, Header, backend, frontend, sqlstate};

use super::startup::Wish;
use super::{Door, Phase, Refused};

/// The state of an authentication.
#[derive(Debug)]
pub(super) enum Proof {
    Clear,
    Md5 {
        salt: [u8; 4],
    },
    /// SASLInitialResponse is awaited.
    Sasl,
    /// A hashing thread checks the client's answer. `of`: the secret that it uses, which a reload may change meanwhile.
    Computing {
        given: Given,
        of: Secret,
    },
    /// SASLResponse is awaited.
    SaslFinal {
        exchange: Box<ServerExchange>,
        /// None: the password is stored in the clear, and its verifier is derived once the client has answered.
        verifier: Option<Verifier>,
    },
}

/// About the memory of a job for a hashing thread: two secrets and its place in the queue.
const JOB: usize = 768;

/// The answer that a computation is for.
#[derive(Debug)]
pub(super) enum Given {
    /// A clear password of that many bytes.
    Clear(usize),
    /// The final message of a SCRAM exchange, to be checked against the derived verifier.
    Final { exchange: Box<ServerExchange>, words: Vec<u8> },
    /// The proof is wrong: the computation only makes the refusal take the same time for every user.
    WrongProof,
}

impl Given {
    fn weight(&self) -> usize {
        match self {
            Given::Clear(len) => heap::taken(*len),
            Given::Final { exchange, words } => {
                heap::taken(size_of::<ServerExchange>()) + exchange.kept_len() + heap::taken(words.len())
            }
            Given::WrongProof => 0,
        }
    }
}

impl Proof {
    /// Whether it waits for the client.
    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self, Proof::Computing { .. })
    }

    /// The memory that it takes, including its part in a hashing thread.
    pub(super) fn weight(&self, user: &str) -> usize {
        match self {
            Proof::Computing { given, .. } => given.weight() + heap::taken(user.len()) + JOB,
            Proof::SaslFinal { exchange, verifier } => {
                let salt = verifier.as_ref().map_or(0, |verifier| heap::taken(verifier.salt.len()));
                heap::taken(size_of::<ServerExchange>()) + salt + exchange.kept_len()
            }
            Proof::Clear | Proof::Md5 { .. } | Proof::Sasl => 0,
        }
    }
}

fn wrong_password() -> Refused {
    Refused(sqlstate::INVALID_PASSWORD, "password authentication failed".to_owned())
}

/// Why a login failed, for the log only.
fn no_such_user(settings: &Settings, wish: &Wish) -> &'static str {
    let database = settings.database(&wish.database);
    match database.is_some_and(|database| database.auth_user.is_some()) || settings.global.login.auth_user.is_some() {
        true => "no such user in auth_file, and auth_query is not supported yet",
        false => "no such user",
    }
}

const MALFORMED: &str = "the client broke the rules of SCRAM";

impl Door {
    /// Sends the request for authentication by `auth_type`.
    pub(super) fn begin_proof(
        &mut self,
        _now: Time,
        conn: ConnId,
        wish: Wish,
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let secret = usable(self.settings.secrets.get(&*wish.user));
        let known = self.settings.secrets.contains_key(&*wish.user);
        let (auth_type, trusted) = (self.settings.global.login.auth_type, wish.trusted);
        // Only md5 has different requests for different users. For a name without a secret, choosing the request takes
        // hashing.
        let scram = match secret {
            _ if auth_type != AuthType::Md5 => auth_type == AuthType::Scram,
            Some(secret) => matches!(secret, Secret::Scram(_)),
            // The request is that for an existing user: otherwise it would show that this one does not exist.
            None => matches!(self.strangers.secret(&wish.user), Secret::Scram(_)),
        };
        let attempt = actions
            .logs(Level::Log, Topic::Connections)
            .then(|| (shown(&wish.database), shown(&wish.user)))
            .map(|(database, user)| format!("login attempt: db={database} user={user} tls=no replication=no"));
        self.logins[conn].wish = Some(Box::new(wish));
        if let Some(attempt) = attempt {
            self.tell(conn, Level::Log, Topic::Connections, &attempt, actions);
        }
        let login = &mut self.logins[conn];
        let proof = match auth_type {
            _ if trusted => return self.apply(conn, actions),
            AuthType::Any => return self.proved(conn, actions),
            AuthType::Trust if known => return self.proved(conn, actions),
            AuthType::Trust => {
                login.failure = login.wish.as_deref().map(|wish| no_such_user(&self.settings, wish));
                let text = "\"trust\" authentication failed".to_owned();
                return Err(Refused(sqlstate::INVALID_AUTHORIZATION, text));
            }
            AuthType::Plain => Proof::Clear,
            AuthType::Md5 if !scram => Proof::Md5 { salt: self.random.bytes() },
            AuthType::Md5 | AuthType::Scram => Proof::Sasl,
        };
        actions.send_new(conn, |out| match &proof {
            Proof::Clear => Authentication::CleartextPassword.encode(out),
            Proof::Md5 { salt } => Authentication::Md5Password { salt: *salt }.encode(out),
            _ => backend::encode_sasl(out, &[auth::scram::MECHANISM.as_bytes()]),
        });
        login.phase = Phase::Proving(proof);
        Ok(())
    }

    /// Reads one message of the client. False: it is not complete, or the login has left this state.
    pub(super) fn prove(&mut self, conn: ConnId, actions: &mut Actions) -> Result<bool, Refused> {
        let login = &mut self.logins[conn];
        if login.inbox.first().is_some_and(|&first| first != tag::PASSWORD) {
            let text = "expected a password response".to_owned();
            return Err(Refused(sqlstate::PROTOCOL_VIOLATION, text));
        }
        let Some(header) = Header::parse(&login.inbox)? else { return Ok(false) };
        let body_len_max = match login.phase {
            Phase::Proving(Proof::Clear) => frontend::PASSWORD_LEN_MAX,
            _ => frontend::SASL_LEN_MAX,
        };
        if header.body_len() > body_len_max {
            return Err(Refused(sqlstate::PROTOCOL_VIOLATION, "password message is too long".to_owned()));
        }
        if login.inbox.len() < header.total_len() {
            return Ok(false);
        }
        let message: Vec<u8> = login.inbox.drain(..header.total_len()).collect();
        let body = &message[HEADER_LEN..];
        let Phase::Proving(proof) = std::mem::replace(&mut login.phase, Phase::Greeting) else {
            unreachable!("a proof is read of who was asked for one");
        };
        let wish = login.wish.as_ref().expect("it was asked for a proof of what it has said");
        let user = Arc::clone(&wish.user);
        match proof {
            Proof::Clear => self.check_clear(conn, &user, body, actions)?,
            Proof::Md5 { salt } => {
                let given = PasswordMessage::decode(body)?.password;
                let secret = usable(self.settings.secrets.get(&*user));
                if !secret.is_some_and(|secret| auth::verify_md5(secret, &user, salt, given)) {
                    return Err(self.unproved(conn, wrong_password()));
                }
                self.proved(conn, actions)?;
            }
            Proof::Sasl => self.sasl_first(conn, &user, first_words(body)?, actions)?,
            Proof::SaslFinal { exchange, verifier } => {
                self.sasl_final(conn, exchange, verifier, &user, body, actions)?
            }
            Proof::Computing { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// Authentication has failed: the reason is logged, and the client gets the same error in all cases.
    fn unproved(&mut self, conn: ConnId, refused: Refused) -> Refused {
        if let Some(login) = self.logins.get_mut(conn)
            && let Some(wish) = &login.wish
        {
            login.failure = Some(match self.settings.secrets.get(&*wish.user) {
                None => no_such_user(&self.settings, wish),
                secret if usable(secret).is_none() => "the user has an empty password in auth_file",
                Some(Secret::Md5(_)) if self.settings.global.login.auth_type == AuthType::Scram => {
                    "auth_file has an md5 hash of the password, which scram-sha-256 cannot use"
                }
                Some(_) => "wrong password",
            });
        }
        refused
    }

    fn sasl_failed(&mut self, conn: ConnId, error: ScramError) -> Refused {
        let refused = self.unproved(conn, Refused(sqlstate::INVALID_PASSWORD, "SASL authentication failed".to_owned()));
        if error != ScramError::WrongProof
            && let Some(login) = self.logins.get_mut(conn)
        {
            login.failure = Some(MALFORMED);
        }
        refused
    }

    fn set_proof(&mut self, conn: ConnId, proof: Proof) {
        if let Some(login) = self.logins.get_mut(conn) {
            login.phase = Phase::Proving(proof);
        }
    }

    fn check_clear(&mut self, conn: ConnId, user: &str, body: &[u8], actions: &mut Actions) -> Result<(), Refused> {
        let given = PasswordMessage::decode(body)?.password.to_vec();
        let secret = usable(self.settings.secrets.get(user)).cloned().unwrap_or_else(|| self.strangers.secret(user));
        if matches!(secret, Secret::Scram(_)) {
            let len = given.len();
            let job = Job::CheckPlain { secret: Box::new(secret.clone()), user: user.to_owned(), given };
            actions.push(Action::Compute { conn, job });
            self.set_proof(conn, Proof::Computing { given: Given::Clear(len), of: secret });
            return Ok(());
        }
        if !auth::verify_plain(&secret, user, &given) {
            return Err(self.unproved(conn, wrong_password()));
        }
        self.proved(conn, actions)
    }

    /// Answers the first message at once for every user, so that the time says nothing about the user.
    fn sasl_first(
        &mut self,
        conn: ConnId,
        user: &str,
        client_first: &[u8],
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let Mock { verifier: mut mock, .. } = self.strangers.mock(user);
        let verifier = match usable(self.settings.secrets.get(user)) {
            Some(Secret::Scram(verifier)) => Some(verifier.clone()),
            Some(Secret::Plain(_)) => {
                // The salt is the one that this name has without a secret. So a reload that adds a secret or draws a
                // new salt does not show that the user exists.
                mock.iterations = self.settings.global.login.scram_iterations;
                self.verifiers.get(user).filter(|known| known.iterations == mock.iterations).cloned()
            }
            // SCRAM cannot check an md5 hash; treated as an unknown user.
            Some(Secret::Md5(_)) | None => Some(mock.clone()),
        };
        let nonce = self.random.bytes();
        let started = ServerExchange::start(client_first, verifier.clone().unwrap_or(mock), &nonce);
        let (exchange, server_first) = started.map_err(|error| self.sasl_failed(conn, error))?;
        actions.send_new(conn, |out| Authentication::SaslContinue(&server_first).encode(out));
        self.set_proof(conn, Proof::SaslFinal { exchange: Box::new(exchange), verifier });
        Ok(())
    }

    /// Checks the client's final message. For a password stored in the clear the verifier is derived first.
    fn sasl_final(
        &mut self,
        conn: ConnId,
        exchange: Box<ServerExchange>,
        verifier: Option<Verifier>,
        user: &str,
        body: &[u8],
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let words = SaslResponse::decode(body)?.response;
        let Some(verifier) = verifier else { return self.derive(conn, user, exchange, words.to_vec(), actions) };
        let finished = exchange.finish(words);
        if matches!(finished, Err(ScramError::WrongProof)) && self.strangers.has_plain_secrets() {
            // The refusal takes as long as for a password stored in the clear, and no longer: a stored verifier may
            // have any number of iterations.
            let (password, iterations) = (Password::new(""), self.settings.global.login.scram_iterations);
            let job = Job::DeriveVerifier { password: password.clone(), salt: verifier.salt.to_vec(), iterations };
            actions.push(Action::Compute { conn, job });
            self.set_proof(conn, Proof::Computing { given: Given::WrongProof, of: Secret::Plain(password) });
            return Ok(());
        }
        self.sasl_done(conn, finished, &verifier, actions)
    }

    /// Derives the verifier for the check of the client's final message.
    fn derive(
        &mut self,
        conn: ConnId,
        user: &str,
        exchange: Box<ServerExchange>,
        words: Vec<u8>,
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let Some(of @ Secret::Plain(password)) = usable(self.settings.secrets.get(user)) else {
            // A reload has taken the password away meanwhile.
            return Err(self.sasl_failed(conn, ScramError::WrongProof));
        };
        let (salt, iterations) = exchange.cost();
        let job = Job::DeriveVerifier { password: password.clone(), salt: salt.to_vec(), iterations };
        let of = of.clone();
        actions.push(Action::Compute { conn, job });
        self.set_proof(conn, Proof::Computing { given: Given::Final { exchange, words }, of });
        Ok(())
    }

    fn sasl_done(
        &mut self,
        conn: ConnId,
        finished: Result<ServerDone, ScramError>,
        verifier: &Verifier,
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let done = finished.map_err(|error| self.sasl_failed(conn, error))?;
        actions.send_new(conn, |out| Authentication::SaslFinal(&done.server_final).encode(out));
        if let Some(login) = self.logins.get_mut(conn) {
            login.keys = Some(Keys::from_verifier(verifier, done.client_key));
        }
        self.proved(conn, actions)
    }

    /// A hashing thread is done.
    pub(super) fn proof_computed(&mut self, conn: ConnId, done: Done, actions: &mut Actions) -> Result<(), Refused> {
        // Its client has left meanwhile, or was refused.
        let Some(login) = self.logins.get_mut(conn) else { return Ok(()) };
        let Phase::Proving(Proof::Computing { given, of }) = &mut login.phase else { return Ok(()) };
        let given = std::mem::replace(given, Given::WrongProof);
        let user = login.wish.as_ref().map(|wish| wish.user.to_string()).unwrap_or_default();
        let is_current = usable(self.settings.secrets.get(&*user)).is_some_and(|secret| secret == of);
        match (done, given) {
            (Done::Checked(true), _) if is_current => self.proved(conn, actions),
            (Done::Checked(_), _) => Err(self.unproved(conn, wrong_password())),
            // A reload has changed the secret meanwhile: results from the old one are not accepted.
            (Done::Verifier(verifier), Given::Final { mut exchange, words }) if is_current => {
                exchange.set_verifier(Verifier::clone(&verifier));
                let finished = exchange.finish(&words);
                let outcome = self.sasl_done(conn, finished, &verifier, actions);
                self.verifiers.insert(user, *verifier);
                outcome
            }
            (Done::Verifier(_), Given::Final { exchange, words }) => self.derive(conn, &user, exchange, words, actions),
            (Done::Verifier(_), _) => Err(self.sasl_failed(conn, ScramError::WrongProof)),
            (Done::Keys(_), _) => Ok(()),
        }
    }

    /// The client is authenticated: checks whether it may log in.
    fn proved(&mut self, conn: ConnId, actions: &mut Actions) -> Result<(), Refused> {
        let forbidden = self.logins.get(conn).and_then(|login| login.wish.as_ref()).is_some_and(|wish| wish.forbidden);
        if forbidden {
            return Err(Refused(sqlstate::INVALID_AUTHORIZATION, "not allowed".to_owned()));
        }
        self.apply(conn, actions)
    }
}

/// The client-first message in a SASLInitialResponse.
fn first_words(body: &[u8]) -> Result<&[u8], Refused> {
    let initial = SaslInitial::decode(body)?;
    if initial.mechanism != auth::scram::MECHANISM.as_bytes() {
        let text = "client selected an invalid SASL authentication mechanism".to_owned();
        return Err(Refused(sqlstate::PROTOCOL_VIOLATION, text));
    }
    Ok(initial.response.unwrap_or_default())
}

/// An empty password in the file means that there is none.
fn usable(secret: Option<&Secret>) -> Option<&Secret> {
    secret.filter(|secret| !matches!(secret, Secret::Plain(password) if password.as_str().is_empty()))
}

#[cfg(test)]
mod tests {
    use units::{DoorId, Kind};

    use super::*;
    use machine::mail::ToDoor;

    /// The salt sent to a client with this user name.
    fn salt(door: &mut Door, user: &str) -> String {
        let (conn, mut actions) = (ConnId::new(Kind::Login, 0, 0, 0), Actions::default());
        let answered = door.sasl_first(conn, user, b"n,,n=,r=nonce", &mut actions);
        assert!(answered.is_ok());
        let [Action::Send { piece, .. }] = actions.as_slice() else { panic!("{actions:?}") };
        let told = String::from_utf8_lossy(actions.bytes(*piece, &[])).into_owned();
        let (_, salt) = told.split_once(",s=").expect("server-first has a salt");
        salt.to_owned()
    }

    #[test]
    fn a_name_keeps_its_salt_whether_or_not_it_has_a_password() {
        let settings = |users: &[&str]| {
            let mut settings = Settings::default();
            settings.global.login.auth_type = AuthType::Scram;
            let secrets = users.iter().map(|user| ((*user).to_owned(), Secret::Plain(Password::new("secret"))));
            settings.secrets = secrets.collect();
            Arc::new(settings)
        };
        let mut door = Door::new(DoorId(0), settings(&["ann"]), [7; 32]);
        let before = ["ann", "bob", "eve"].map(|user| salt(&mut door, user));
        let now = Time::default();
        door.delivered(now, ToDoor::Configure(settings(&["ann", "bob"])), &mut Actions::default());
        assert_eq!(["ann", "bob", "eve"].map(|user| salt(&mut door, user)), before);
        assert_ne!(before[0], before[1]);
    }
}
