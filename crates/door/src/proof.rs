//! Authentication of clients: trust, clear password, md5, SCRAM-SHA-256 and -PLUS.
//!
//! Nothing here depends on whether a pool has servers. For an unknown user the messages are the same as for a wrong
//! password. SCRAM-SHA-256-PLUS is offered inside TLS where the certificate has a hash to bind to (`encryption`).
//!
//! //= pg18 sasl-authentication

use std::sync::Arc;

use auth::{Keys, Mock, Password, ScramError, Secret, ServerDone, ServerExchange, Verifier};
use machine::action::{Action, Actions};
use machine::observe::{Level, Topic};
use machine::work::{Done, Job};
use machine::{ReplicationKind, Settings, Verdict};
use settings::Words;
use units::deadline::Owner;
use units::names::shown;
use units::table::Table;
use units::{ConnId, Time, heap};
use wire::backend::Authentication;
use wire::frontend::{Password as PasswordMessage, SaslInitial, SaslResponse, tag};
use wire::{HEADER_LEN, Header, backend, frontend};

use super::lookup::{Begun, Turn};
use super::method::{Facts, Method};
use super::outside::{self, Exchange, Progress, Scene};
use super::penalties::Failure;
use super::secrets::{Source, is_known, is_lookup_needed, secret_of, settle, usable};
use super::startup::Wish;
use super::{Door, Login, Phase, Refused};

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
    /// Others check what the client shows.
    Outside(Exchange),
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
    /// A clear password of that many bytes, kept for its servers if it is text.
    Clear { len: usize, text: Option<Password> },
    /// The final message of a SCRAM exchange, to be checked against the derived verifier.
    Final { exchange: Box<ServerExchange>, words: Vec<u8> },
    /// The proof is wrong: the computation only makes the refusal take the same time for every user.
    WrongProof,
}

impl Given {
    fn weight(&self) -> usize {
        match self {
            Given::Clear { len, text } => heap::taken(*len) * if text.is_some() { 2 } else { 1 },
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
        match self {
            Proof::Computing { .. } => false,
            Proof::Outside(exchange) => exchange.is_waiting(),
            Proof::Clear | Proof::Md5 { .. } | Proof::Sasl | Proof::SaslFinal { .. } => true,
        }
    }

    /// The memory that it takes, including its part in a hashing thread.
    pub(super) fn weight(&self, user: &str) -> usize {
        match self {
            Proof::Computing { given, .. } => given.weight() + heap::taken(user.len()) + JOB,
            Proof::SaslFinal { exchange, verifier } => {
                let salt = verifier.as_ref().map_or(0, |verifier| heap::taken(verifier.salt.len()));
                heap::taken(size_of::<ServerExchange>()) + salt + exchange.kept_len()
            }
            Proof::Outside(exchange) => exchange.weight() + heap::taken(user.len()) + JOB,
            Proof::Clear | Proof::Md5 { .. } | Proof::Sasl => 0,
        }
    }
}

impl Door {
    /// Looks the user's secret up if it has to be, and sends the request for authentication by `auth_type`.
    pub(super) fn begin_proof(
        &mut self,
        now: Time,
        conn: ConnId,
        wish: Wish,
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let login = &mut self.logins[conn];
        let attempt = actions.logs(Level::Log, Topic::Connections).then(|| {
            let (database, user) = (shown(&wish.database), shown(&wish.user));
            let tls = login.encryption.facts().map_or_else(|| "no".to_owned(), |facts| facts.shown());
            let kind = ReplicationKind::logged(wish.replication.as_ref().map(|asked| asked.kind));
            format!("login attempt: db={database} user={user} tls={tls} replication={kind}")
        });
        login.wish = Some(Box::new(wish));
        if let Some(attempt) = attempt {
            self.tell(conn, Level::Log, Topic::Connections, &attempt, actions);
        }
        let Login { peer, wish, encryption, .. } = &self.logins[conn];
        let wish = wish.as_deref().expect("it has said who it is");
        if wish.trusted {
            // People look for it, since nobody was asked for a password.
            self.tell(conn, Level::Log, Topic::General, "pgbouncer access from unix socket", actions);
        } else {
            let Door { settings, system_users, .. } = self;
            let method = Facts {
                settings,
                system_users,
                peer: *peer,
                encryption: encryption.facts().map(|facts| &**facts),
                wish,
            }
            .method()?;
            self.logins[conn].method = method;
        }
        self.begin_lookup(now, now, conn, actions)
    }

    /// Has the user looked up if that is needed, or else sends the request for authentication. `since`: from when on the login
    /// waits for its lookup.
    pub(super) fn begin_lookup(
        &mut self,
        now: Time,
        since: Time,
        conn: ConnId,
        actions: &mut Actions,
    ) -> Result<(), Refused> {
        let Door { settings, random, outward, logins, .. } = self;
        let Login { wish, method, .. } = &logins[conn];
        let wish = wish.as_ref().expect("it has said who it is");
        if !is_lookup_needed(settings, wish, method) {
            return self.ask_for_proof(conn, actions);
        }
        match outward.lookups.begin(
            &mut Turn { now, settings, random, actions },
            (conn, since),
            &wish.database,
            &wish.user,
        ) {
            Begun::Waits => {
                self.logins[conn].phase = Phase::LookingUp { since };
                return Ok(());
            }
            Begun::NoLookup => {}
            Begun::Disabled(name) => {
                return Err(Refused::LookupDisabled { database: shown(&name).to_string() });
            }
            Begun::Now(outcome) => _ = settle(&mut self.logins[conn], outcome)?,
            Begun::Misconfigured(why) => {
                self.tell(conn, Level::Error, Topic::PoolerErrors, &why, actions);
                return Err(Refused::ConfigError);
            }
        }
        self.ask_for_proof(conn, actions)
    }

    /// Where the user's secret comes from is settled: sends the request for authentication.
    pub(super) fn ask_for_proof(&mut self, conn: ConnId, actions: &mut Actions) -> Result<(), Refused> {
        let login = &self.logins[conn];
        let wish = login.wish.as_ref().expect("it has said who it is");
        let secret = usable(secret_of(Some(login), &self.settings, &wish.user));
        let is_known = is_known(login, &self.settings, &wish.user);
        let (method, trusted) = (login.method.clone(), wish.trusted);
        // Only md5 has different requests for different users. For a name without a secret, choosing the request takes
        // hashing.
        let scram = match secret {
            _ if method != Method::Md5 => method == Method::Scram,
            Some(secret) => matches!(secret, Secret::Scram(_)),
            // The request is that for an existing user: otherwise it would show that this one does not exist.
            None => matches!(self.strangers.secret(&wish.user), Secret::Scram(_)),
        };
        let login = &mut self.logins[conn];
        let proof = match method {
            _ if trusted => return self.apply(conn, actions),
            Method::Any => return self.proved(conn, actions),
            Method::Trust if is_known => return self.proved(conn, actions),
            Method::Trust => {
                login.failure = Some(Failure { why: "no such user".into(), is_guess: false });
                let user = login.wish.as_ref().map_or("", |wish| &wish.user);
                return Err(match (self.settings.global.login.words, &login.source) {
                    (Words::PostgreSql, _) => Refused::NoSuchRole { user: shown(user).to_string() },
                    (Words::PgBouncer, Source::Nothing { .. }) => Refused::NoSuchUserTrusted,
                    (Words::PgBouncer, _) => Refused::TrustFailed,
                });
            }
            Method::Clear => Proof::Clear,
            Method::Outside(outside) => Proof::Outside(Exchange::begin(&outside)),
            Method::Md5 if !scram => Proof::Md5 { salt: self.random.bytes() },
            Method::Md5 | Method::Scram => Proof::Sasl,
        };
        actions.send_new(conn, |out| match &proof {
            Proof::Clear => Authentication::CleartextPassword.encode(out),
            Proof::Md5 { salt } => Authentication::Md5Password { salt: *salt }.encode(out),
            Proof::Outside(exchange) => exchange.request(out),
            _ => backend::encode_sasl(out, login.encryption.mechanisms()),
        });
        login.phase = Phase::Proving(proof);
        Ok(())
    }

    /// Reads one message of the client. False: it is not complete, or the login has left this state.
    pub(super) fn prove(&mut self, now: Time, conn: ConnId, actions: &mut Actions) -> Result<bool, Refused> {
        let login = &mut self.logins[conn];
        if let Some(&first) = login.inbox.first().filter(|first| **first != tag::PASSWORD) {
            return Err(match &login.phase {
                Phase::Proving(Proof::Outside(exchange)) => exchange.unexpected(first),
                _ => Refused::NoPasswordMessage,
            });
        }
        let Some(header) = Header::parse(&login.inbox)? else { return Ok(false) };
        let len_max = match login.phase {
            Phase::Proving(Proof::Clear | Proof::Outside(_)) => frontend::PASSWORD_LEN_MAX,
            _ => frontend::SASL_LEN_MAX,
        };
        // The length that a message declares counts itself, and not the tag.
        if header.total_len() - 1 > len_max {
            return Err(Refused::PasswordTooLong);
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
            Proof::Outside(exchange) => {
                let mut scene = Scene { settings: &self.settings, now, conn, actions };
                let next = exchange.hear(login, body, &mut scene)?;
                if let Some(until) = next.asked_until() {
                    self.deadlines.arm(Owner::Conn(conn), &mut login.armed, until);
                }
                login.phase = Phase::Proving(Proof::Outside(next));
            }
            Proof::Clear => self.check_clear(conn, &user, body, actions)?,
            Proof::Md5 { salt } => {
                let given = PasswordMessage::decode(body)?.password;
                let secret = usable(secret_of(self.logins.get(conn), &self.settings, &user));
                if !secret.is_some_and(|secret| auth::verify_md5(secret, &user, salt, given)) {
                    return Err(self.unproved(conn, Refused::PasswordFailed));
                }
                self.proved(conn, actions)?;
            }
            Proof::Sasl => self.sasl_first(conn, &user, body, actions)?,
            Proof::SaslFinal { exchange, verifier } => {
                self.sasl_final(conn, exchange, verifier, &user, body, actions)?
            }
            Proof::Computing { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// Authentication has failed: the reason is logged, and the client gets the same error in all cases. `pgbouncer`: PgBouncer's
    /// words, which depend on the method, and tell that auth_query does not know the user.
    fn unproved(&mut self, conn: ConnId, pgbouncer: Refused) -> Refused {
        // It was asked for a proof of what it has said; whoever has left hears nothing.
        let login = self.logins.get(conn);
        let user = login.and_then(|login| login.wish.as_ref()).map(|wish| Arc::clone(&wish.user)).unwrap_or_default();
        let is_unknown = login.is_some_and(|login| matches!(login.source, Source::Nothing { is_known: false, .. }));
        // With auth_type = md5, PgBouncer asks an unknown user for MD5.
        let is_md5 = login.is_some_and(|login| login.method == Method::Md5);
        let is_asked_for_md5 = is_md5 && secret_of(login, &self.settings, &user).is_none();
        let refused = match self.settings.global.login.words {
            Words::PostgreSql => Refused::WrongPassword { user: shown(&user).to_string() },
            Words::PgBouncer if is_unknown => Refused::NoSuchUser,
            Words::PgBouncer if is_asked_for_md5 => Refused::PasswordFailed,
            Words::PgBouncer => pgbouncer,
        };
        if let Some(login) = self.logins.get_mut(conn)
            && let Some(wish) = &login.wish
        {
            let secret = secret_of(Some(login), &self.settings, &wish.user);
            let failure = match (secret, &login.source) {
                (None, Source::Nothing { why, .. }) => why,
                (None, _) => "no such user",
                (secret, _) if usable(secret).is_none() => "the user has an empty password in auth_file",
                (Some(Secret::Md5(_)), _) if login.method == Method::Scram => {
                    "an md5 hash of the password is stored, which scram-sha-256 cannot use"
                }
                (Some(_), _) => "wrong password",
            };
            login.failure = Some(Failure { why: failure.into(), is_guess: true });
        }
        refused
    }

    /// An exchange has failed. All but a wrong proof says nothing about the user's secret, and is refused as PostgreSQL does.
    fn sasl_failed(&mut self, conn: ConnId, error: ScramError) -> Refused {
        if error == ScramError::WrongProof {
            return self.unproved(conn, Refused::SaslFailed);
        }
        if let Some(login) = self.logins.get_mut(conn) {
            login.failure = Some(Failure { why: error.detail().into(), is_guess: false });
        }
        Refused::Scram { error }
    }

    fn check_clear(&mut self, conn: ConnId, user: &str, body: &[u8], actions: &mut Actions) -> Result<(), Refused> {
        let given = PasswordMessage::decode(body)?.password.to_vec();
        if given.is_empty() {
            return Err(Refused::EmptyPassword);
        }
        let secret = usable(secret_of(self.logins.get(conn), &self.settings, user))
            .cloned()
            .unwrap_or_else(|| self.strangers.secret(user));
        if matches!(secret, Secret::Scram(_)) {
            let kept = Given::Clear { len: given.len(), text: text(&given) };
            let job = Job::CheckPlain { secret: Box::new(secret.clone()), user: user.to_owned(), given };
            actions.push(Action::Compute { conn, job });
            set_proof(&mut self.logins, conn, Proof::Computing { given: kept, of: secret });
            return Ok(());
        }
        if !auth::verify_plain(&secret, user, &given) {
            return Err(self.unproved(conn, Refused::PasswordFailed));
        }
        keep_shown(self.logins.get_mut(conn), text(&given));
        self.proved(conn, actions)
    }

    /// Answers the first message at once for every user, so that the time says nothing about the user.
    fn sasl_first(&mut self, conn: ConnId, user: &str, body: &[u8], actions: &mut Actions) -> Result<(), Refused> {
        let initial = SaslInitial::decode(body)?;
        let encryption = self.logins.get(conn).map(|login| login.encryption.clone()).unwrap_or_default();
        let Some(binding) = encryption.binding(initial.mechanism) else {
            return Err(Refused::WrongMechanism);
        };
        let client_first = initial.response.unwrap_or_default();
        let Mock { verifier: mut mock, .. } = self.strangers.mock(user);
        let verifier = match usable(secret_of(self.logins.get(conn), &self.settings, user)) {
            Some(Secret::Scram(verifier)) => Some(verifier.clone()),
            Some(Secret::Plain(_)) => {
                // The salt is the one that this name has without a secret. So a reload that adds a secret or draws a
                // new salt does not show that the user exists.
                mock.iterations = self.settings.global.login.scram_iterations;
                let known = self.verifiers.get(user).filter(|_| is_in_auth_file(self.logins.get(conn)));
                known.filter(|known| known.iterations == mock.iterations).cloned()
            }
            // SCRAM cannot check an md5 hash; treated as an unknown user.
            Some(Secret::Md5(_)) | None => Some(mock.clone()),
        };
        let nonce = self.random.bytes();
        let started = ServerExchange::start_in(binding, client_first, verifier.clone().unwrap_or(mock), &nonce);
        let (exchange, server_first) = started.map_err(|error| self.sasl_failed(conn, error))?;
        actions.send_new(conn, |out| Authentication::SaslContinue(&server_first).encode(out));
        set_proof(&mut self.logins, conn, Proof::SaslFinal { exchange: Box::new(exchange), verifier });
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
        // A broken message is refused before anything is computed, at once for every user.
        exchange.check(words).map_err(|error| self.sasl_failed(conn, error))?;
        let Some(verifier) = verifier else { return self.derive(conn, user, exchange, words.to_vec(), actions) };
        let finished = exchange.finish(words);
        if matches!(finished, Err(ScramError::WrongProof)) && self.strangers.has_plain_secrets() {
            // The refusal takes as long as for a password stored in the clear, and no longer: a stored verifier may
            // have any number of iterations.
            let (password, iterations) = (Password::new(""), self.settings.global.login.scram_iterations);
            let job = Job::DeriveVerifier { password: password.clone(), salt: verifier.salt.to_vec(), iterations };
            actions.push(Action::Compute { conn, job });
            set_proof(
                &mut self.logins,
                conn,
                Proof::Computing { given: Given::WrongProof, of: Secret::Plain(password) },
            );
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
        let Some(of @ Secret::Plain(password)) = usable(secret_of(self.logins.get(conn), &self.settings, user)) else {
            // A reload has taken the password away meanwhile.
            return Err(self.sasl_failed(conn, ScramError::WrongProof));
        };
        let (salt, iterations) = exchange.cost();
        let job = Job::DeriveVerifier { password: password.clone(), salt: salt.to_vec(), iterations };
        let of = of.clone();
        actions.push(Action::Compute { conn, job });
        set_proof(&mut self.logins, conn, Proof::Computing { given: Given::Final { exchange, words }, of });
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
        let user = login.wish.as_ref().map(|wish| wish.user.to_string()).unwrap_or_default();
        let Phase::Proving(proof @ Proof::Computing { .. }) = &mut login.phase else { return Ok(()) };
        let wrong = Secret::Plain(Password::new(""));
        let computing = std::mem::replace(proof, Proof::Computing { given: Given::WrongProof, of: wrong });
        let Proof::Computing { given, of } = computing else { return Ok(()) };
        let is_current =
            usable(secret_of(self.logins.get(conn), &self.settings, &user)).is_some_and(|secret| *secret == of);
        match (done, given) {
            (Done::Checked(true), Given::Clear { text, .. }) if is_current => {
                keep_shown(self.logins.get_mut(conn), text);
                self.proved(conn, actions)
            }
            (Done::Checked(_), _) => Err(self.unproved(conn, Refused::PasswordFailed)),
            // A reload has changed the secret meanwhile: results from the old one are not accepted.
            (Done::Verifier(verifier), Given::Final { mut exchange, words }) if is_current => {
                let is_in_auth_file = is_in_auth_file(self.logins.get(conn));
                exchange.set_verifier(Verifier::clone(&verifier));
                let finished = exchange.finish(&words);
                let outcome = self.sasl_done(conn, finished, &verifier, actions);
                if is_in_auth_file {
                    self.verifiers.insert(user, *verifier);
                }
                outcome
            }
            (Done::Verifier(_), Given::Final { exchange, words }) => self.derive(conn, &user, exchange, words, actions),
            (Done::Verifier(_), _) => Err(self.sasl_failed(conn, ScramError::WrongProof)),
            (Done::Keys(_), _) => Ok(()),
        }
    }

    /// Others have answered who the client is.
    pub(super) fn proof_answered(&mut self, now: Time, conn: ConnId, verdict: Verdict, actions: &mut Actions) {
        // Its client has left meanwhile, or was refused.
        let Some(login) = self.logins.get_mut(conn) else { return };
        let Phase::Proving(proof @ Proof::Outside(_)) = &mut login.phase else { return };
        if proof.is_waiting() {
            return;
        }
        let Proof::Outside(exchange) = std::mem::replace(proof, Proof::Clear) else { return };
        let mut scene = Scene { settings: &self.settings, now, conn, actions };
        let proved = match exchange.settle(login, verdict, &mut scene) {
            Ok(Progress::Proved) => self.proved(conn, actions),
            Ok(Progress::On(next)) => {
                login.phase = Phase::Proving(Proof::Outside(next));
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        self.resume(now, conn, proved, actions);
    }

    /// The client is authenticated: checks whether it may log in.
    fn proved(&mut self, conn: ConnId, actions: &mut Actions) -> Result<(), Refused> {
        let forbidden = self.logins.get(conn).and_then(|login| login.wish.as_ref()).is_some_and(|wish| wish.forbidden);
        if forbidden {
            return Err(Refused::NotAllowed);
        }
        if let Some(login) = self.logins.get(conn) {
            self.penalties.succeeded(login);
        }
        self.apply(conn, actions)
    }
}

/// What a login is told when its deadline comes; `None`: that was for something that is over.
pub(super) fn overdue(login: &mut Login, now: Time, settings: &Settings) -> Option<Refused> {
    if let Some(refused) = login.phase.delayed() {
        return Some(refused);
    }
    if matches!(login.phase, Phase::Cancelling) {
        return None;
    }
    if settings.global.waiting.client_login_timeout.is_some() {
        return Some(Refused::LoginTimeout);
    }
    let Phase::Proving(Proof::Outside(exchange)) = &login.phase else { return None };
    // Those who are asked may take no notice of time.
    let is_late = exchange.asked_until().is_some_and(|until| until <= now);
    is_late.then(|| outside::refused(login, "no answer in time", false))
}

fn set_proof(logins: &mut Table<Login>, conn: ConnId, proof: Proof) {
    // The client may have left meanwhile.
    if let Some(login) = logins.get_mut(conn) {
        login.phase = Phase::Proving(proof);
    }
}

/// The password that a client has shown is what its servers are logged in to with: it can do more than any other secret.
fn keep_shown(login: Option<&mut Login>, password: Option<Password>) {
    if let (Some(login), Some(password)) = (login, password) {
        login.source = Source::LookedUp(Secret::Plain(password));
    }
}

/// Bytes that are text, as a password.
fn text(bytes: &[u8]) -> Option<Password> {
    std::str::from_utf8(bytes).ok().map(Password::new)
}

fn is_in_auth_file(login: Option<&Login>) -> bool {
    login.is_none_or(|login| matches!(login.source, Source::AuthFile))
}

#[cfg(test)]
mod tests {
    use units::{DoorId, Kind};

    use super::*;
    use machine::Settings;
    use machine::mail::ToDoor;
    use settings::AuthType;

    /// The salt sent to a client with this user name.
    fn salt(door: &mut Door, user: &str) -> String {
        let (conn, mut actions) = (ConnId::new(Kind::Login, 0, 0, 0), Actions::default());
        let mut message = Vec::new();
        let initial = SaslInitial { mechanism: b"SCRAM-SHA-256", response: Some(b"n,,n=,r=nonce") };
        initial.encode(&mut message);
        let answered = door.sasl_first(conn, user, &message[HEADER_LEN..], &mut actions);
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
