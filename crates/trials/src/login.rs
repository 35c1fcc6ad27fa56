//! The client's side of a login: trust, a password in the clear, md5, SCRAM.
//!
//! Promises: SCRAM's slow key derivation happens once for a salt, not once a login, so that thousands of logins measure the
//! server and not this program. Does not offer TLS.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

use auth::{Challenge, ClientExchange, Keys, Md5Hash};
use client::{frontend, put};

/// The name that all of this program's connections go by; a pooler hands its clients' on.
pub(crate) const APPLICATION: &str = "pgweir bench";

/// Who logs in, and where.
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    keys: RefCell<HashMap<Challenge, Rc<Keys>>>,
}

impl Account {
    pub(crate) fn new(user: &str, password: Option<&str>, database: &str) -> Self {
        let (user, database) = (user.to_owned(), database.to_owned());
        Self { user, password: password.map(str::to_owned), database, keys: RefCell::default() }
    }

    fn keys(&self, challenge: Challenge) -> Result<Rc<Keys>, String> {
        let password = self.password()?;
        let mut known = self.keys.borrow_mut();
        let derive = || Rc::new(Keys::derive(password, &challenge.salt, challenge.iterations));
        Ok(Rc::clone(known.entry(challenge.clone()).or_insert_with(derive)))
    }

    fn password(&self) -> Result<&str, String> {
        self.password.as_deref().ok_or_else(|| "a password is asked for, and there is none".to_owned())
    }
}

/// One login under way.
pub(crate) struct Login {
    account: Rc<Account>,
    scram: Option<ClientExchange>,
    kind: &'static str,
}

/// The two kinds that a run's poolers may ask for, in words.
pub(crate) const MD5: &str = "md5";
pub(crate) const SCRAM: &str = "SCRAM";

impl Login {
    /// Nothing has been sent yet.
    pub(crate) fn new(account: &Rc<Account>) -> Self {
        Self { account: Rc::clone(account), scram: None, kind: "trust" }
    }

    /// The startup packet that it begins with.
    pub(crate) fn startup(account: &Account) -> Vec<u8> {
        frontend::startup(&[
            ("user", &account.user),
            ("database", &account.database),
            ("application_name", APPLICATION),
        ])
    }

    /// Begins with the startup packet.
    pub(crate) fn start(account: &Rc<Account>, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&Self::startup(account));
        Self::new(account)
    }

    /// How the server has been proved who it is that logs in.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }
}

impl client::Login for Login {
    //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
    fn step(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
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
        let account = Rc::new(Account::new("u", Some("p"), "d"));
        let table: [(&[u8], &str); 4] = [
            (&[0, 0, 0, 0], "trust"),
            (&[0, 0, 0, 3], "a password in the clear"),
            (&[0, 0, 0, 5, 1, 2, 3, 4], MD5),
            (b"\0\0\0\x0aSCRAM-SHA-256\0\0", SCRAM),
        ];
        for (asked, kind) in table {
            let mut login = Login::start(&account, &mut Vec::new());
            login.step(asked, &mut Vec::new()).expect("a kind that we know");
            assert_eq!(login.kind(), kind);
        }
    }

    #[test]
    fn a_login_that_we_cannot_do_is_called_by_its_name() {
        let account = Rc::new(Account::new("u", Some("p"), "d"));
        let mut login = Login::start(&account, &mut Vec::new());
        let error = login.step(&[0, 0, 0, 7], &mut Vec::new()).expect_err("GSSAPI");
        assert_eq!(error, "the server asks for a login by GSSAPI, which pgweir cannot do");
    }
}
