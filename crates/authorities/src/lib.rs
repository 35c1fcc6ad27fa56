//! Asks others who a client is: directory servers, PAM, GSSAPI, and the keys of identity providers.
//!
//! ```text
//!   Office::ask ─► queue (bounded) ─► threads, as many as auth_threads at most ─► ldap, token, pam, gss
//!                                       └─ the verdict goes to whoever asked
//! ```
//!
//! Promises that `ask` returns at once, that nothing here is done on a thread of somebody else's, that a question whose asker
//! has gone is not passed on, and that whoever cannot be asked lets nobody in. Passwords are in no verdict.
//!
//! Deliberately does not do: deciding what a verdict means (the door), knowing which method a client has to use (`config`,
//! `hba`), keeping verdicts.

#[cfg(feature = "gssapi")]
mod gss;
mod keys;
mod ldap;
mod office;
#[cfg(feature = "pam")]
mod pam;
mod token;
mod trust;

pub use office::Office;

/// Whether PAM can be asked.
pub const HAS_PAM: bool = cfg!(feature = "pam");
/// Whether tickets of Kerberos can be checked.
pub const HAS_GSSAPI: bool = cfg!(feature = "gssapi");
