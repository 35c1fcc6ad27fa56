//! How clients prove who they are, what they are told if they cannot, and what an attacker gets: passwords, directories, tickets, tokens, certificates, TLS.

mod before_login;
mod certificates;
mod channel_binding;
mod encrypted;
mod gss;
mod guessing;
mod ldap;
mod login_table;
mod lookups;
mod oauth;
mod pam;
mod passwords;
mod proxies;
mod rules_of_login;
mod secrets;
