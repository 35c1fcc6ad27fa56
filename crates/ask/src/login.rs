//! The client's side of a login: trust, a password in the clear, md5, SCRAM.
//!
//! Promises: SCRAM's slow key derivation happens once for a salt, not once a login, so that thousands of logins measure the
//! server and not this program. Does not offer TLS.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};

use auth::{Challenge, ClientExchange, Keys, Md5Hash};
use client::{frontend, put};

/// Who logs in, and where.
pub struct Account {
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    /// The name that the connection goes by; a pooler hands it on.
    pub application: String,
    keys: Mutex<HashMap<Challenge, Arc<Keys>>>,
}

impl Account {
    #[must_use]
    pub fn new(user: &str, password: Option<&str>, database: &str, application: &str) -> Self {
        let [user, database, application] = [user, database, application].map(str::to_owned);
        Self { user, password: password.map(str::to_owned), database, application, keys: Mutex::default() }
    }

    /// The startup packet that a login begins with.
    #[must_use]
    pub fn startup(&self) -> Vec<u8> {
        let Self { user, database, application, .. } = self;
        frontend::startup(&[("user", user), ("database", database), ("application_name", application)])
    }

    fn keys(&self, challenge: Challenge) -> Result<Arc<Keys>, String> {
        let password = self.password()?;
        let mut known = self.keys.lock().expect("nobody panics with it");
        let derive = || Arc::new(Keys::derive(password, &challenge.salt, challenge.iterations));
        Ok(Arc::clone(known.entry(challenge.clone()).or_insert_with(derive)))
    }

    fn password(&self) -> Result<&str, String> {
        self.password.as_deref().ok_or_else(|| "a password is asked for, and there is none".to_owned())
    }
}

/// One login under way.
pub struct Login {
    account: Arc<Account>,
    scram: Option<ClientExchange>,
    kind: &'static str,
    is_answered: bool,
}

/// The two kinds that poolers ask for, in words.
pub const MD5: &str = "md5";
pub const SCRAM: &str = "SCRAM";

impl Login {
    /// Nothing has been sent yet.
    #[must_use]
    pub fn new(account: &Arc<Account>) -> Self {
        Self { account: Arc::clone(account), scram: None, kind: "trust", is_answered: false }
    }

    /// Whether the server has sent an authentication request. If it is silent after that, it may wait for a directory server.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// How the server has been proved who it is that logs in.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }
}

impl client::Login for Login {
    //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
    fn step(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.is_answered = true;
        let (code, rest) = body.split_first_chunk::<4>().ok_or("a short authentication message")?;
        let words = |error: auth::ScramError| format!("SCRAM: {error}");
        let under_way = "SCRAM goes on, but has not begun";
        match u32::from_be_bytes(*code) {
            0 => {}
            3 => {
                self.kind = "a password in the clear";
                put(out, b'p', &[self.account.password()?.as_bytes(), b"\0"]);
            }
            5 => {
                self.kind = MD5;
                let salt = rest.first_chunk::<4>().ok_or("md5 without a salt")?;
                let hash = Md5Hash::of(self.account.password()?, &self.account.user);
                put(out, b'p', &[auth::md5::response(&hash, *salt).as_bytes(), b"\0"]);
            }
            10 => {
                self.kind = SCRAM;
                let (exchange, first) = ClientExchange::start(&nonce()?);
                let length = u32::try_from(first.len()).expect("a few dozen bytes").to_be_bytes();
                put(out, b'p', &[auth::scram::MECHANISM.as_bytes(), b"\0", &length, &first]);
                self.scram = Some(exchange);
            }
            11 => {
                let exchange = self.scram.as_mut().ok_or(under_way)?;
                let challenge = exchange.challenge(rest).map_err(words)?;
                let keys = self.account.keys(challenge)?;
                put(out, b'p', &[&exchange.respond(&keys).map_err(words)?]);
            }
            12 => self.scram.as_ref().ok_or(under_way)?.verify(rest).map_err(words)?,
            code => return Err(format!("the server asks for a login by {}, which pgweir cannot do", method(code))),
        }
        Ok(())
    }
}

/// The name of a kind of login, by its code.
//= pg18 protocol-message-formats#AuthenticationKerberosV5
//= pg18 protocol-message-formats#AuthenticationGSS
//= pg18 protocol-message-formats#AuthenticationSSPI
fn method(code: u32) -> String {
    match code {
        2 => "Kerberos V5".to_owned(),
        7 => "GSSAPI".to_owned(),
        9 => "SSPI".to_owned(),
        code => format!("a method of code {code}"),
    }
}

/// From the kernel: whoever could guess it could pretend to be the server.
fn nonce() -> Result<[u8; auth::scram::NONCE_LEN], String> {
    let mut bytes = [0; auth::scram::NONCE_LEN];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| format!("no randomness: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Login as _;

    #[test]
    fn a_login_is_called_by_what_the_server_asked_for() {
        let account = Arc::new(Account::new("u", Some("p"), "d", "a"));
        let table: [(&[u8], &str); 4] = [
            (&[0, 0, 0, 0], "trust"),
            (&[0, 0, 0, 3], "a password in the clear"),
            (&[0, 0, 0, 5, 1, 2, 3, 4], MD5),
            (b"\0\0\0\x0aSCRAM-SHA-256\0\0", SCRAM),
        ];
        for (asked, kind) in table {
            let mut login = Login::new(&account);
            login.step(asked, &mut Vec::new()).expect("a kind that we know");
            assert_eq!(login.kind(), kind);
        }
    }

    #[test]
    fn a_login_that_we_cannot_do_is_called_by_its_name() {
        let account = Arc::new(Account::new("u", Some("p"), "d", "a"));
        let mut login = Login::new(&account);
        let error = login.step(&[0, 0, 0, 7], &mut Vec::new()).expect_err("GSSAPI");
        assert_eq!(error, "the server asks for a login by GSSAPI, which pgweir cannot do");
    }
}
