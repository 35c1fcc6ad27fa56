//! Passwords that stand or travel in the clear.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::Pooler;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut mend = Vec::new();
    let mut weight = Weight::Notice;
    if let Some(pooler) = &facts.pooler {
        if travels(pooler) {
            weight = Weight::Warning;
            evidence.push(format!(
                "auth_type = {}, client_tls_sslmode = {}, listen_addr = {}",
                pooler.setting("auth_type"),
                pooler.setting("client_tls_sslmode"),
                pooler.setting("listen_addr")
            ));
            mend.push("client_tls_sslmode = require -- in the pooler's file, or auth_type = scram-sha-256".to_owned());
        }
        stored(pooler, &mut weight, &mut evidence, &mut mend);
    }
    let encryption = facts.postgres.as_ref().map_or("", |postgres| postgres.setting("password_encryption"));
    if encryption == "md5" {
        evidence.push("password_encryption = md5 in PostgreSQL".to_owned());
        mend.push("ALTER SYSTEM SET password_encryption = 'scram-sha-256'; SELECT pg_reload_conf(); -- then set each password anew".to_owned());
    }
    if evidence.is_empty() {
        return None;
    }
    Some(Finding {
        rule: "plain-passwords",
        weight,
        title: "passwords stand or travel where others may read them".to_owned(),
        evidence,
        reason: "A password in the clear, and an md5 hash almost as well, is all that somebody needs to log in. A SCRAM verifier lets the pooler check \
                 clients, and pass their proof on to PostgreSQL."
            .to_owned(),
        source: "PostgreSQL manual, Password Authentication",
        mend,
    })
}

/// Whether clients say their password over a network without TLS.
fn travels(pooler: &Pooler) -> bool {
    let says_it = matches!(pooler.setting("auth_type"), "plain" | "pam" | "ldap");
    let may_be_plain = !matches!(pooler.setting("client_tls_sslmode"), "require" | "verify-ca" | "verify-full");
    let here = |address: &str| matches!(address.trim(), "" | "localhost" | "127.0.0.1" | "::1");
    says_it && may_be_plain && !pooler.setting("listen_addr").split(',').all(here)
}

fn stored(pooler: &Pooler, weight: &mut Weight, evidence: &mut Vec<String>, mend: &mut Vec<String>) {
    let Some(secrets) = pooler.secrets.as_ref().filter(|secrets| !secrets.plain.is_empty()) else { return };
    if !secrets.is_open {
        // The pooler needs some in the clear to log in itself; that its file is closed is what can be asked of it.
        return;
    }
    *weight = Weight::Warning;
    let names = super::first(secrets.plain.iter().cloned()).join(", ");
    evidence.push(format!(
        "{} holds passwords in the clear ({names}), and everybody on the machine may read it",
        secrets.file
    ));
    mend.push(format!("chmod 640 {}", secrets.file));
    mend.push(
        "SELECT rolpassword FROM pg_authid WHERE rolname = '…'; -- the verifier, to stand there instead".to_owned(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::Secrets;
    use crate::rules::example::{check, pooler, postgres};

    #[test]
    fn on_the_way_and_in_files() {
        let set = |facts: &mut Facts, pairs: &[(&str, &str)]| {
            for (name, value) in pairs {
                pooler(facts).settings.insert((*name).to_owned(), (*value).to_owned());
            }
        };
        let plain = |facts: &mut Facts| set(facts, &[("auth_type", "plain"), ("client_tls_sslmode", "prefer")]);
        let by_tls = |facts: &mut Facts| set(facts, &[("auth_type", "plain"), ("client_tls_sslmode", "require")]);
        let here = |facts: &mut Facts| {
            plain(facts);
            set(facts, &[("listen_addr", "127.0.0.1, ::1")]);
        };
        let file = |is_open: bool, plain: &'static [&'static str]| {
            move |facts: &mut Facts| {
                let plain = plain.iter().map(|name| (*name).to_owned()).collect();
                pooler(facts).secrets = Some(Secrets { file: "/etc/users.txt".to_owned(), plain, is_open });
            }
        };
        let md5 =
            |facts: &mut Facts| _ = postgres(facts).settings.insert("password_encryption".to_owned(), "md5".to_owned());
        check(
            find,
            &[
                ("over the network", &plain, Some(Weight::Warning)),
                ("over TLS", &by_tls, None),
                ("on this machine", &here, None),
                ("a file for all", &file(true, &["app"]), Some(Weight::Warning)),
                ("a file of verifiers for all", &file(true, &[]), None),
                ("a closed file", &file(false, &["app"]), None),
                ("md5", &md5, Some(Weight::Notice)),
            ],
        );
    }
}
