//! Passwords that PAM checks: the modules that `/etc/pam.d` names for a service say whether they are right and whether the account
//! may be used.
//!
//! Promises that whatever a module asks for without showing it is answered by the password that the client has shown, and
//! nothing else is; that both questions, who it is and whether it may come in, have to be answered with yes; and that a
//! module hears which address the client comes from. No words of a module's reach the client.
//!
//! A module takes the time that it takes: it cannot be interrupted, and holds its thread until it is done. The client is told before,
//! by the deadline of its login.
//!
//! //= pg18 auth-pam

use machine::{Inquiry, Verdict};
use nonstick::conv::Exchange;
use nonstick::items::ItemsMut;
use nonstick::{AuthnFlags, Conversation, ErrorCode, PamShared, Transaction, TransactionBuilder};

/// Whether the service's modules let the user in with this password.
pub(crate) fn check(service: &str, inquiry: &Inquiry) -> Verdict {
    if inquiry.given.text().is_empty() {
        return Verdict::Denied("the password is empty".to_owned());
    }
    // PAM is C's: a NUL would end what it reads. None comes in a message of the protocol.
    if [&*inquiry.user, inquiry.given.text(), service].iter().any(|text| text.contains('\0')) {
        return Verdict::Denied("a NUL is in the name or the password".to_owned());
    }
    let failed = |what: &str, error: ErrorCode| format!("{what} of PAM's service \"{service}\" failed: {error}");
    let begun = TransactionBuilder::new_with_service(service).username(&*inquiry.user).build(Answers(inquiry));
    let mut transaction = match begun {
        Ok(transaction) => transaction,
        Err(error) => return Verdict::Unreachable(failed("pam_start", error)),
    };
    // As in PostgreSQL, nothing stands for a Unix socket.
    let host = inquiry.address.map(|address| address.to_string());
    if let Some(Err(error)) = host.map(|host| transaction.items_mut().set_remote_host(Some(host.as_ref()))) {
        return Verdict::Unreachable(failed("pam_set_item", error));
    }
    if let Err(error) = transaction.authenticate(AuthnFlags::empty()) {
        return Verdict::Denied(failed("pam_authenticate", error));
    }
    match transaction.account_management(AuthnFlags::empty()) {
        Ok(()) => Verdict::Confirmed,
        Err(error) => Verdict::Denied(failed("pam_acct_mgmt", error)),
    }
}

/// What modules are answered.
struct Answers<'a>(&'a Inquiry);

impl Conversation for Answers<'_> {
    fn communicate(&self, messages: &[Exchange]) {
        for message in messages {
            match message {
                Exchange::MaskedPrompt(prompt) => prompt.set_answer(Ok(self.0.given.text().into())),
                // Nobody is there to read these.
                Exchange::Info(text) => text.set_answer(Ok(())),
                Exchange::Error(text) => text.set_answer(Ok(())),
                other => other.set_error(ErrorCode::ConversationError),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::Duration;

    use auth::Password;
    use machine::{Evidence, Outside};
    use nonstick::conv::{ErrorMsg, InfoMsg, MaskedQAndA, QAndA};

    use super::*;

    fn inquiry(user: &str, password: &str) -> Inquiry {
        Inquiry {
            outside: Outside::Pam("weir".into()),
            user: user.into(),
            database: "shop".into(),
            given: Evidence::Text(Password::new(password)),
            address: None,
            ca_file: None,
            within: Duration::from_secs(1),
            asker: Weak::new(),
        }
    }

    #[test]
    fn only_hidden_questions_are_answered() {
        let inquiry = inquiry("ann", "secret");
        let (hidden, open) = (MaskedQAndA::new("Password: ".as_ref()), QAndA::new("Code: ".as_ref()));
        let (error, news) = (ErrorMsg::new("no".as_ref()), InfoMsg::new("hello".as_ref()));
        Answers(&inquiry).communicate(&[hidden.exchange(), open.exchange(), error.exchange(), news.exchange()]);
        assert_eq!(hidden.answer().as_deref(), Ok("secret".as_ref()));
        assert_eq!(open.answer(), Err(ErrorCode::ConversationError));
        assert_eq!((error.answer(), news.answer()), (Ok(()), Ok(())));
    }

    #[test]
    fn what_c_would_read_otherwise_is_refused() {
        for (user, password) in [("ann\0", "secret"), ("ann", "sec\0ret"), ("ann", "")] {
            assert!(matches!(check("weir", &inquiry(user, password)), Verdict::Denied(_)), "{user:?} {password:?}");
        }
    }
}
