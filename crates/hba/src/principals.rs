//! Principals of Kerberos and the system users that they stand for: what the options of `gss` come to.
//!
//! ```text
//!   ann@EXAMPLE.ORG ─┬─ krb_realm: of another realm ─▶ nobody
//!                    └─ include_realm ─┬─ 1 ─▶ ann@EXAMPLE.ORG ─┬─▶ a map of pg_ident.conf
//!                                      └─ 0 ─▶ ann ─────────────┘   or the user's name
//! ```
//!
//! Promises that a name keeps its realm unless the line says otherwise: in another realm somebody else may have it.
//!
//! //= pg18 gssapi-auth

use crate::options::Options;

/// Which principals may come in, and under which name the map knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principals {
    /// Whether the realm is a part of the name.
    pub keeps_realm: bool,
    /// The only realm that is let in, letter by letter. `None`: any whose tickets are good.
    pub realm: Option<String>,
    /// The map of pg_ident.conf. `None`: the name must be the user's.
    pub map: Option<String>,
}

impl Principals {
    #[must_use]
    pub fn new(options: &Options) -> Principals {
        Principals {
            keeps_realm: options.include_realm != Some(false),
            realm: options.krb_realm.clone(),
            map: options.map.clone(),
        }
    }

    /// The system user that a principal stands for.
    ///
    /// # Errors
    /// It is of another realm, in words for the log.
    pub fn system_user<'a>(&self, principal: &'a str) -> Result<&'a str, String> {
        let (name, realm) = match principal.split_once('@') {
            Some((name, realm)) => (name, Some(realm)),
            None => (principal, None),
        };
        match (&self.realm, realm) {
            (Some(_), None) => return Err("GSSAPI has told no realm, but one was asked for".to_owned()),
            (Some(wanted), Some(realm)) if wanted != realm => {
                return Err(format!("the ticket's realm \"{realm}\" is not krb_realm, \"{wanted}\""));
            }
            _ => {}
        }
        Ok(if self.keeps_realm { principal } else { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms_as_in_postgresql() {
        let table = [
            // include_realm, krb_realm, principal, system user
            (None, None, "ann@A.ORG", Some("ann@A.ORG")),
            (Some(true), None, "ann@A.ORG", Some("ann@A.ORG")),
            (Some(false), None, "ann@A.ORG", Some("ann")),
            (Some(false), Some("A.ORG"), "ann@A.ORG", Some("ann")),
            (Some(false), Some("a.org"), "ann@A.ORG", None),
            (None, Some("A.ORG"), "ann@A.ORG", Some("ann@A.ORG")),
            (Some(false), Some("A.ORG"), "ann@B.ORG", None),
            (None, Some("A.ORG"), "ann@A.ORG@B.ORG", None),
            (Some(false), Some("A.ORG"), "ann", None),
            (Some(false), None, "ann", Some("ann")),
            (Some(false), None, "ann/admin@A.ORG", Some("ann/admin")),
        ];
        for (include_realm, realm, principal, expected) in table {
            let options =
                Options { include_realm, krb_realm: realm.map(str::to_owned), map: None, ..Options::default() };
            let found = Principals::new(&options).system_user(principal).ok();
            assert_eq!(found, expected, "{include_realm:?} {realm:?} {principal}");
        }
    }
}
