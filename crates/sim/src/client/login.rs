//! A model client's login, by every method, with the right password or a wrong one.

use auth::{ClientExchange, Keys, Md5Hash};
use settings::AuthType;
use wire::backend::{Authentication, BackendKeyData, NegotiateVersion, ParameterStatus, tag};
use wire::frontend::{self, Password, STARTUP_LEN_MAX, SaslInitial, SaslResponse};

use super::{Client, ClientPhase, Nowhere};
use crate::course::Finding;
use crate::parameters::{self, APPLICATION_NAME};
use crate::plan::{PASSWORD, Plan};
use crate::random::Random;
use crate::secret::Secret;

impl Client {
    /// Sends the startup packet, sometimes an SSLRequest first.
    pub fn greet(&mut self, plan: &Plan, random: &mut Random) {
        if random.chance(100) {
            self.phase = ClientPhase::Starting { asked_for_tls: true };
            if random.chance(500) {
                frontend::encode_ssl_request(self.talk.socket.outbox());
            } else {
                frontend::encode_gss_request(self.talk.socket.outbox());
            }
        }
        let mut values = self.talk.twin.session().values();
        let mut chosen: Vec<usize> = Vec::new();
        for (parameter, value) in values.iter_mut().enumerate() {
            // PostgreSQL has no startup default for standard_conforming_strings in common use; clients may send it.
            if random.chance(plan.manners.sets / 2) {
                *value = random.below(u64::from(parameters::choices(parameter))) as u8;
                chosen.push(parameter);
            }
        }
        if let Some(contest) = &plan.purpose.contest {
            values[APPLICATION_NAME] = parameters::of_class(contest.crowd_of(self.who.number));
            chosen = vec![APPLICATION_NAME];
        }
        self.talk.twin.begin(values);
        self.who.wishes = chosen;
        if matches!(self.phase, ClientPhase::Starting { asked_for_tls: false }) {
            self.start(plan);
        }
    }

    fn start(&mut self, plan: &Plan) {
        let (mut database, mut user) = (self.who.name.as_str(), plan.users[self.who.user].name.as_str());
        match self.habits.lost {
            Some(Nowhere::Database) => database = "nowhere",
            Some(Nowhere::User) => user = "nobody",
            None => {}
        }
        if self.console.is_some() {
            database = connections::databases::CONSOLE_DATABASE;
        }
        let values = self.talk.twin.session().values();
        let mut pairs: Vec<(&[u8], &[u8])> = vec![(b"user", user.as_bytes()), (b"database", database.as_bytes())];
        for &parameter in &self.who.wishes {
            let value = parameters::value(parameter, values[parameter]);
            pairs.push((parameters::NAMES[parameter].as_bytes(), value.as_bytes()));
        }
        if self.replica.is_some() {
            pairs.push((b"replication", b"database"));
        }
        if self.habits.hostile && self.who.number.is_multiple_of(2) {
            // Its parameters many times: the pooler must keep them once.
            let len: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
            pairs = pairs.repeat(STARTUP_LEN_MAX / len - 1);
        }
        let minor = plan.promises.minor(self.who.number);
        frontend::encode_startup_version(self.talk.socket.outbox(), minor, pairs);
    }

    /// The one byte that answers an encryption request.
    pub(super) fn encryption_answered(&mut self, plan: &Plan) -> Result<(), Finding> {
        if self.talk.socket.inbox[0] != b'N' {
            return Err((11, format!("an encryption request was answered by byte {}", self.talk.socket.inbox[0])));
        }
        self.talk.socket.inbox.remove(0);
        self.phase = ClientPhase::Starting { asked_for_tls: false };
        self.start(plan);
        Ok(())
    }

    /// One message before the first ReadyForQuery, other than errors and notices.
    pub(super) fn login_message(&mut self, message: u8, body: &[u8], plan: &Plan) -> Result<(), Finding> {
        match message {
            tag::NEGOTIATE_VERSION => self.negotiated(body, plan),
            tag::AUTHENTICATION => {
                let request = Authentication::decode(body).map_err(|error| (11, error.to_string()))?;
                self.authenticate(request, plan)
            }
            _ if !matches!(self.phase, ClientPhase::Welcoming) => {
                Err((11, format!("message {:?} came before AuthenticationOk", char::from(message))))
            }
            tag::PARAMETER_STATUS => self.parameter(body),
            tag::BACKEND_KEY_DATA => {
                let key = BackendKeyData::decode(body).map_err(|error| (11, error.to_string()))?;
                let len = if plan.promises.minor(self.who.number) < 2 { 4 } else { 32 };
                let secret = Secret::read(key.secret).filter(|_| key.secret.len() == len);
                let secret = secret.ok_or_else(|| (11, format!("a cancel secret has {} bytes", key.secret.len())))?;
                self.cancels.key = Some((key.pid, secret));
                self.talk.twin.set_pid(key.pid);
                Ok(())
            }
            tag::READY_FOR_QUERY => {
                if self.cancels.key.is_none() {
                    return Err((11, "no BackendKeyData before the first ReadyForQuery".to_owned()));
                }
                self.phase = ClientPhase::Ready;
                Ok(())
            }
            other => Err((11, format!("message {:?} came during login", char::from(other)))),
        }
    }

    /// Only a version that is newer than 3.2 is negotiated.
    fn negotiated(&self, body: &[u8], plan: &Plan) -> Result<(), Finding> {
        let told = NegotiateVersion::decode(body).map_err(|error| (11, error.to_string()))?;
        let asked = plan.promises.minor(self.who.number);
        if asked > 2 && told.minor == 2 && told.count() == 0 {
            return Ok(());
        }
        Err((11, format!("a client that asks for 3.{asked} is told a version")))
    }

    fn parameter(&self, body: &[u8]) -> Result<(), Finding> {
        let status = ParameterStatus::decode(body).map_err(|error| (11, error.to_string()))?;
        if self.console.is_some() {
            // The client has not asked for the console's parameters.
            return Ok(());
        }
        let (name, value) = (String::from_utf8_lossy(status.name), String::from_utf8_lossy(status.value));
        let Some(parameter) = parameters::index(&name) else { return Ok(()) };
        let wanted = parameters::value(parameter, self.talk.twin.session().values()[parameter]);
        if value != wanted {
            return Err((9, format!("login reports {name} = {value:?}, the session's is {wanted:?}")));
        }
        Ok(())
    }

    fn authenticate(&mut self, request: Authentication<'_>, plan: &Plan) -> Result<(), Finding> {
        let password = if self.habits.wrong_password { "a wrong password" } else { PASSWORD };
        let user = if self.habits.lost == Some(Nowhere::User) { "nobody" } else { &plan.users[self.who.user].name };
        match request {
            Authentication::Ok => {
                let any = plan.settings.global.login.auth_type == AuthType::Any;
                if self.habits.lost == Some(Nowhere::User) && !any {
                    return Err((8, "a user who does not exist was let in".to_owned()));
                }
                let tested = !matches!(plan.settings.global.login.auth_type, AuthType::Trust | AuthType::Any);
                if self.habits.wrong_password && tested {
                    return Err((8, "a wrong password was accepted".to_owned()));
                }
                self.phase = ClientPhase::Welcoming;
            }
            Authentication::CleartextPassword => {
                Password { password: password.as_bytes() }.encode(self.talk.socket.outbox());
                self.phase = ClientPhase::Proving(None);
            }
            Authentication::Md5Password { salt } => {
                let answer = auth::md5::response(&Md5Hash::of(password, user), salt);
                Password { password: answer.as_bytes() }.encode(self.talk.socket.outbox());
                self.phase = ClientPhase::Proving(None);
            }
            Authentication::Sasl { .. } => {
                let mut nonce = [7; auth::scram::NONCE_LEN];
                nonce[..4].copy_from_slice(&self.who.number.to_be_bytes());
                let (exchange, first) = ClientExchange::start(&nonce);
                let mechanism = auth::scram::MECHANISM.as_bytes();
                SaslInitial { mechanism, response: Some(&first) }.encode(self.talk.socket.outbox());
                self.phase = ClientPhase::Proving(Some(Box::new(exchange)));
            }
            Authentication::SaslContinue(data) => {
                let ClientPhase::Proving(Some(exchange)) = &mut self.phase else {
                    return Err((11, "SASLContinue out of order".to_owned()));
                };
                let challenge = exchange.challenge(data).map_err(|error| (11, error.to_string()))?;
                let keys = Keys::derive(password, &challenge.salt, challenge.iterations);
                let last = exchange.respond(&keys).map_err(|error| (11, error.to_string()))?;
                SaslResponse { response: &last }.encode(self.talk.socket.outbox());
            }
            Authentication::SaslFinal(data) => {
                let ClientPhase::Proving(Some(exchange)) = &self.phase else {
                    return Err((11, "SASLFinal out of order".to_owned()));
                };
                exchange.verify(data).map_err(|error| (11, error.to_string()))?;
            }
            Authentication::Gss | Authentication::GssContinue(_) => return Err((11, "asked for GSSAPI".to_owned())),
            Authentication::Other(method) => return Err((11, format!("asked for method {method}"))),
        }
        Ok(())
    }
}
