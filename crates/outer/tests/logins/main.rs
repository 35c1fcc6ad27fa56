//! Authentication of clients, the errors of those who fail, and the limits of attackers: passwords, directories, tickets, tokens,
//! certificates, TLS.

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
