//! The password exchange of a process with a client that logs in.

use auth::{Md5Hash, Secret, ServerExchange, Verifier};
use wire::backend::{self, Authentication};
use wire::frontend::{Password, SaslInitial, SaslResponse, tag};

use super::LoginRefusal;
use crate::plan::{Login, PASSWORD, UserPlan};
use crate::random::Random;

const WRONG: LoginRefusal = ("28P01", "password authentication failed for user");

/// The expected answer.
#[derive(Debug)]
pub(super) enum Proof {
    Clear,
    Md5([u8; 4]),
    Sasl,
    SaslFinal(Box<ServerExchange>),
}

impl Proof {
    /// Requests the password; `None` with trust.
    pub(super) fn ask(login: Login, random: &mut Random, out: &mut Vec<u8>) -> Option<Proof> {
        match login {
            Login::Trust => None,
            Login::Clear => {
                Authentication::CleartextPassword.encode(out);
                Some(Proof::Clear)
            }
            Login::Md5 => {
                let salt = (random.next() as u32).to_be_bytes();
                Authentication::Md5Password { salt }.encode(out);
                Some(Proof::Md5(salt))
            }
            Login::Scram => {
                backend::encode_sasl(out, &[auth::scram::MECHANISM.as_bytes()]);
                Some(Proof::Sasl)
            }
        }
    }

    /// Checks an answer. Returns the next expected one; `None`: the password is right. `number` makes this process's
    /// nonce.
    ///
    /// # Errors
    /// The password is wrong.
    pub(super) fn judge(
        self,
        user: &UserPlan,
        number: u32,
        (message, body): (u8, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Option<Proof>, LoginRefusal> {
        let broken = |_| ("08P01", "bad password message");
        if message != tag::PASSWORD {
            return Err(("08P01", "expected password response"));
        }
        let right = match self {
            Proof::Clear => Password::decode(body).map_err(broken)?.password == PASSWORD.as_bytes(),
            Proof::Md5(salt) => {
                let given = Password::decode(body).map_err(broken)?.password;
                let secret = Secret::Md5(Md5Hash::of(PASSWORD, &user.name));
                auth::verify_md5(&secret, &user.name, salt, given)
            }
            Proof::Sasl => {
                let initial = SaslInitial::decode(body).map_err(broken)?;
                let nonce = std::array::from_fn(|at| (at as u32 + number) as u8);
                let verifier = Verifier::clone(&user.verifier);
                let started = ServerExchange::start(initial.response.unwrap_or_default(), verifier, &nonce);
                let (exchange, first) = started.map_err(|_| WRONG)?;
                Authentication::SaslContinue(&first).encode(out);
                return Ok(Some(Proof::SaslFinal(Box::new(exchange))));
            }
            Proof::SaslFinal(exchange) => {
                let response = SaslResponse::decode(body).map_err(broken)?;
                let done = exchange.finish(response.response).map_err(|_| WRONG)?;
                Authentication::SaslFinal(&done.server_final).encode(out);
                true
            }
        };
        if right { Ok(None) } else { Err(WRONG) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(proof: Proof, message: u8, body: &[u8]) -> Result<bool, &'static str> {
        let verifier = Verifier::derive(PASSWORD, b"salt", 1);
        let user = UserPlan { name: "user0".to_owned(), verifier, login: Login::Clear };
        let judged = proof.judge(&user, 1, (message, body), &mut Vec::new());
        judged.map(|more| more.is_none()).map_err(|(code, _)| code)
    }

    #[test]
    fn only_the_password_is_the_proof() {
        assert_eq!(judge(Proof::Clear, tag::PASSWORD, format!("{PASSWORD}\0").as_bytes()), Ok(true));
        assert_eq!(judge(Proof::Clear, tag::PASSWORD, b"another\0"), Err("28P01"));
        assert_eq!(judge(Proof::Md5(*b"salt"), tag::PASSWORD, format!("{PASSWORD}\0").as_bytes()), Err("28P01"));
        assert_eq!(judge(Proof::Clear, tag::QUERY, b"select 1\0"), Err("08P01"));
        assert_eq!(judge(Proof::Sasl, tag::PASSWORD, b"no exchange"), Err("08P01"));
    }
}
