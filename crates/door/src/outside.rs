//! Logins that others decide: the client's password goes to a directory server or to PAM, its token to whoever has its
//! provider's keys, its ticket to whoever has this machine's, and the verdict comes back.
//!
//! ```text
//!   password ─► Action::Ask ─► Asking ─► Event::Answered ─┬─ Confirmed ─────────────────► on to the coordinator
//!   token ────────┘   └ none ─┐                           ├─ Known, and the map lets it ─►
//!                             │                           ├─ Exchanged ─► its next message of GSSAPI's, or whose ticket it is
//!                             ▼                           └─ Denied, Unreachable ─► refused; of a token:
//!                           Refused ◄── where tokens are to be had ◄─────────────────────────┘
//!                             └─ the client's ^A ─► refused
//! ```
//!
//! Promises that nobody comes in while those who know cannot be asked, that an empty password is never shown to them (to a
//! directory it means nobody, and is always right), and that the client learns no more than PostgreSQL would tell it. A
//! client who leaves takes its question back.
//!
//! The user need not be known otherwise. A password that the client has shown is also what its pool can log in to servers with;
//! a token or a ticket is not.
//!
//! //= pg18 auth-ldap
//! //= pg18 auth-oauth
//! //= pg18 auth-pam
//! //= pg18 gssapi-auth

use std::sync::Arc;
use std::time::Duration;

use auth::bearer::{self, BearerError, Shown};
use auth::{Password, Secret};
use machine::action::{Action, Actions};
use machine::{Evidence, Inquiry, Outside, Settings, Verdict};
use units::names::shown;
use units::{ConnId, Time, heap, limits};
use wire::backend::{self, Authentication};
use wire::frontend::{Password as PasswordMessage, SaslInitial, SaslResponse};

use super::method::{Method, address};
use super::penalties::Failure;
use super::secrets::Source;
use super::{Login, Refused};

/// How long an answer is waited for where `client_login_timeout` is off: as long as its default is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why somebody is refused is cut after so many characters.
const WHY_MAX: usize = 400;

/// What a client and those who are asked have said so far.
#[derive(Debug)]
pub(super) enum Exchange {
    /// A password is awaited.
    Password,
    /// A token is awaited, with the name of the mechanism or, if the client has sent that alone, without.
    Token { is_first: bool },
    /// A message of GSSAPI's is awaited.
    Message(Negotiation),
    /// The answer of others about such a message is awaited.
    Negotiating { negotiation: Negotiation, until: Time },
    /// The answer of others is awaited.
    Asking {
        /// While it lives, the answer is waited for.
        _asker: Arc<()>,
        given: Password,
        /// Until then: those who are asked may take no notice of time.
        until: Time,
    },
    /// The client was told where tokens are to be had, and has to answer that before it is refused. Why it is, for the log.
    Refused(String),
}

/// An exchange of messages of GSSAPI's. Its state is kept by those who are asked, for as long as this is there.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    asker: Arc<()>,
    /// How many messages the client has sent, and their bytes: of some of them the state may be made.
    messages: u32,
    bytes: usize,
}

impl Negotiation {
    fn weight(&self) -> usize {
        heap::taken(limits::GSS_CONTEXT_WEIGHT) + 2 * heap::taken(self.bytes)
    }
}

/// What a step of an exchange has led to.
#[derive(Debug)]
pub(super) enum Progress {
    On(Exchange),
    Proved,
}

/// Where a step of an exchange is made.
pub(super) struct Scene<'a> {
    pub(super) settings: &'a Settings,
    pub(super) now: Time,
    pub(super) conn: ConnId,
    pub(super) actions: &'a mut Actions,
}

impl Exchange {
    pub(super) fn begin(outside: &Outside) -> Exchange {
        match outside {
            Outside::Ldap(_) | Outside::Pam(_) => Exchange::Password,
            Outside::OAuth(_) => Exchange::Token { is_first: true },
            Outside::Gss(_) => Exchange::Message(Negotiation::default()),
        }
    }

    /// Appends the request for what is awaited first.
    pub(super) fn request(&self, out: &mut Vec<u8>) {
        match self {
            Exchange::Token { .. } => backend::encode_sasl(out, &[bearer::MECHANISM.as_bytes()]),
            Exchange::Message(_) => Authentication::Gss.encode(out),
            _ => Authentication::CleartextPassword.encode(out),
        }
    }

    /// Whether it waits for the client.
    pub(super) fn is_waiting(&self) -> bool {
        self.asked_until().is_none()
    }

    /// Until when others are waited for; `None`: they are not.
    pub(super) fn asked_until(&self) -> Option<Time> {
        match self {
            Exchange::Asking { until, .. } | Exchange::Negotiating { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// What is said to a message of another kind.
    pub(super) fn unexpected(&self, tag: u8) -> Refused {
        match self {
            Exchange::Message(_) => Refused::NoGssMessage { type_byte: tag },
            _ => Refused::NoPasswordMessage,
        }
    }

    /// The memory that it takes, with the question's.
    pub(super) fn weight(&self) -> usize {
        match self {
            Exchange::Asking { given, .. } => 2 * heap::taken(given.as_str().len()) + heap::taken(size_of::<Inquiry>()),
            Exchange::Message(negotiation) => negotiation.weight(),
            Exchange::Negotiating { negotiation, .. } => negotiation.weight() + heap::taken(size_of::<Inquiry>()),
            Exchange::Refused(why) => heap::taken(why.capacity()),
            Exchange::Password | Exchange::Token { .. } => 0,
        }
    }

    /// Takes a message of the client's.
    ///
    /// # Errors
    /// The client is refused.
    pub(super) fn hear(self, login: &mut Login, body: &[u8], scene: &mut Scene<'_>) -> Result<Exchange, Refused> {
        match self {
            Exchange::Password => {
                let given = PasswordMessage::decode(body)?.password;
                if given.is_empty() {
                    return Err(Refused::EmptyPassword);
                }
                match std::str::from_utf8(given) {
                    Ok(given) => Ok(about(login, Password::new(given), scene)),
                    Err(_) => Err(refused(login, "the password is no text in UTF-8", true)),
                }
            }
            Exchange::Token { is_first } => {
                let message = if is_first {
                    let initial = SaslInitial::decode(body)?;
                    if initial.mechanism != bearer::MECHANISM.as_bytes() {
                        return Err(Refused::WrongMechanism);
                    }
                    initial.response
                } else {
                    Some(SaslResponse::decode(body)?.response)
                };
                let Some(message) = message else {
                    scene.actions.send_new(scene.conn, |out| Authentication::SaslContinue(b"").encode(out));
                    return Ok(Exchange::Token { is_first: false });
                };
                match bearer::read_first(message).map_err(|error| broken(login, error))? {
                    Shown::Token(token) => Ok(about(login, token, scene)),
                    Shown::Nothing => Ok(say_where(login, "the client has shown no token", scene)),
                    Shown::Unlike(why) => Ok(say_where(login, why, scene)),
                }
            }
            Exchange::Refused(why) => {
                bearer::read_answer(body).map_err(|error| broken(login, error))?;
                // Nobody guesses a token.
                Err(refused(login, &why, false))
            }
            Exchange::Message(negotiation) => negotiate(login, negotiation, body, scene),
            Exchange::Asking { .. } | Exchange::Negotiating { .. } => {
                unreachable!("nothing is read of a client that is asked about")
            }
        }
    }

    /// Others have answered.
    ///
    /// # Errors
    /// The client is refused.
    pub(super) fn settle(
        self,
        login: &mut Login,
        verdict: Verdict,
        scene: &mut Scene<'_>,
    ) -> Result<Progress, Refused> {
        if verdict == Verdict::Busy {
            return Err(Refused::TooManyAsked);
        }
        let given = match self {
            Exchange::Asking { given, .. } => given,
            Exchange::Negotiating { negotiation, .. } => return negotiated(login, negotiation, verdict, scene),
            _ => unreachable!("only who was asked about is answered about"),
        };
        let (why, is_guess) = match (verdict, &login.method) {
            (Verdict::Confirmed, Method::Outside(Outside::Ldap(_) | Outside::Pam(_))) => {
                login.source = Source::LookedUp(Secret::Plain(given));
                return Ok(Progress::Proved);
            }
            (Verdict::Known(name), Method::Outside(Outside::OAuth(provider))) => {
                let user = login.wish.as_ref().map_or("", |wish| &wish.user);
                if scene.settings.ident.allow(provider.map.as_deref(), &name, user) {
                    return Ok(Progress::Proved);
                }
                (format!("the token is \"{}\"'s", shown(&name)), false)
            }
            (Verdict::Denied(why), _) => (why, true),
            (Verdict::Unreachable(why), _) => (why, false),
            (_, _) => ("this is no answer to what was asked".to_owned(), false),
        };
        match login.method {
            Method::Outside(Outside::OAuth(_)) => Ok(Progress::On(say_where(login, &why, scene))),
            _ => Err(refused(login, &why, is_guess)),
        }
    }
}

/// Asks others about a client that has shown a password or a token.
fn about(login: &Login, given: Password, scene: &mut Scene<'_>) -> Exchange {
    let asker = Arc::new(());
    let until = ask(login, &asker, Evidence::Text(given.clone()), scene);
    Exchange::Asking { _asker: asker, given, until }
}

/// Asks others about the client's next message of GSSAPI's.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-GSSRESPONSE
fn negotiate(
    login: &mut Login,
    mut negotiation: Negotiation,
    body: &[u8],
    scene: &mut Scene<'_>,
) -> Result<Exchange, Refused> {
    negotiation.messages += 1;
    negotiation.bytes += body.len();
    if negotiation.messages > limits::GSS_MESSAGES_MAX {
        return Err(refused(login, "its exchange of messages does not come to an end", false));
    }
    let until = ask(login, &negotiation.asker, Evidence::Message(body.to_vec()), scene);
    Ok(Exchange::Negotiating { negotiation, until })
}

/// Others have answered about a message of GSSAPI's.
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
fn negotiated(
    login: &mut Login,
    negotiation: Negotiation,
    verdict: Verdict,
    scene: &mut Scene<'_>,
) -> Result<Progress, Refused> {
    let (reply, principal) = match verdict {
        Verdict::Exchanged { reply, principal } => (reply, principal),
        // Nobody guesses a ticket.
        Verdict::Denied(why) | Verdict::Unreachable(why) => return Err(refused(login, &why, false)),
        _ => return Err(refused(login, "this is no answer to what was asked", false)),
    };
    if !reply.is_empty() {
        scene.actions.send_new(scene.conn, |out| Authentication::GssContinue(&reply).encode(out));
    }
    let Some(principal) = principal else { return Ok(Progress::On(Exchange::Message(negotiation))) };
    let Outside::Gss(principals) = outside(login) else { unreachable!("only tickets are negotiated about") };
    let user = login.wish.as_ref().map_or("", |wish| &wish.user);
    let why = match principals.system_user(&principal) {
        Ok(name) if scene.settings.ident.allow(principals.map.as_deref(), name, user) => return Ok(Progress::Proved),
        Ok(_) => format!("the ticket is \"{}\"'s", shown(&principal)),
        Err(why) => why,
    };
    Err(refused(login, &why, false))
}

/// Asks others about a client that has shown something. Returns until when their answer is waited for.
fn ask(login: &Login, asker: &Arc<()>, given: Evidence, scene: &mut Scene<'_>) -> Time {
    let wish = login.wish.as_ref().expect("it was asked for a proof of what it has said");
    let patience = scene.settings.global.waiting.client_login_timeout.unwrap_or(PATIENCE);
    let within = patience.saturating_sub(scene.now.since(login.since));
    let ca_file = &scene.settings.global.login.auth_tls_ca_file;
    let inquiry = Inquiry {
        outside: outside(login).clone(),
        user: Arc::clone(&wish.user),
        database: Arc::clone(&wish.database),
        given,
        address: address(login.peer),
        ca_file: (!ca_file.is_empty()).then(|| ca_file.as_str().into()),
        within,
        asker: Arc::downgrade(asker),
    };
    scene.actions.push(Action::Ask { conn: scene.conn, inquiry: Box::new(inquiry) });
    scene.now + within
}

/// Tells a client where tokens are to be had; it is refused for this reason once it has answered.
fn say_where(login: &Login, why: &str, scene: &mut Scene<'_>) -> Exchange {
    if let Outside::OAuth(provider) = outside(login) {
        let words = bearer::refusal(&provider.issuer, &provider.scope);
        scene.actions.send_new(scene.conn, |out| Authentication::SaslContinue(&words).encode(out));
    }
    Exchange::Refused(why.chars().take(WHY_MAX).collect())
}

fn outside(login: &Login) -> &Outside {
    let Method::Outside(outside) = &login.method else { unreachable!("only these logins are asked about") };
    outside
}

/// A message breaks the rules of the mechanism.
fn broken(login: &mut Login, error: BearerError) -> Refused {
    login.failure = Some(Failure { why: error.detail().into(), is_guess: false });
    Refused::Bearer { error }
}

/// PostgreSQL's words; what is really wrong is for the log.
pub(super) fn refused(login: &mut Login, why: &str, is_guess: bool) -> Refused {
    let user = login.wish.as_ref().map_or("", |wish| &wish.user);
    let refused = Refused::NotConfirmed { method: outside(login).as_str(), user: shown(user).to_string() };
    let why: String = why.chars().take(WHY_MAX).map(|c| if c.is_control() { '?' } else { c }).collect();
    login.failure = Some(Failure { why: why.into(), is_guess });
    refused
}
