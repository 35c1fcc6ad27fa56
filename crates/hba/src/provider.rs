//! An identity provider and which of its tokens let a user in: what the options of OAuth come to.
//!
//! ```text
//!   issuer="https://id.example" audience=shop jwks="/etc/pgweir/keys.json" scope="openid pg" claim=sub map=ids
//! ```
//!
//! Promises that a provider has all that a token has to be checked against: a token made for somebody else lets nobody in,
//! and keys do not come in the clear. Does not read tokens or keys.

use crate::mistake::{Wrong, quoted};
use crate::text;

/// Whose tokens are good, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Letter by letter what its tokens say.
    pub issuer: String,
    /// One of these has to be among those that the token is made for.
    pub audience: Vec<String>,
    /// A file, or a URL that begins with `https://`: the keys that tokens are signed with.
    pub jwks: String,
    /// What the token has to allow, all of it.
    pub scope: String,
    /// Which of its claims says who the user is.
    pub claim: String,
    /// The map of pg_ident.conf. `None`: the claim must be the user's name.
    pub map: Option<String>,
}

const NAMES: &str = "issuer, audience, jwks, scope, claim or map";

/// Reads a provider from its options.
///
/// # Errors
/// What was found and what was expected.
pub fn read_provider(text: &str) -> Result<Provider, (String, String)> {
    read(text).map_err(|Wrong { found, expected }| (found, expected))
}

fn read(text: &str) -> Result<Provider, Wrong> {
    let (mut issuer, mut audience, mut jwks, mut scope, mut claim, mut map) = Default::default();
    for word in text::words_of(text)? {
        let Some((name, value)) = word.text.split_once('=') else {
            return Err(Wrong::new(quoted(&word.text), "options as name=value, in double quotes if blanks are in it"));
        };
        let place: &mut Option<String> = match name {
            "issuer" => &mut issuer,
            "audience" => &mut audience,
            "jwks" => &mut jwks,
            "scope" => &mut scope,
            "claim" => &mut claim,
            "map" => &mut map,
            _ => return Err(Wrong::new(format!("option {}", quoted(name)), NAMES)),
        };
        *place = Some(value.to_owned()).filter(|value| !value.is_empty());
    }
    let needed = |name: &str, value: Option<String>| {
        value.ok_or_else(|| Wrong::new(format!("no {name}="), "issuer=, audience= and jwks= at least"))
    };
    let jwks = needed("jwks", jwks)?;
    if jwks.contains("://") && !jwks.starts_with("https://") {
        return Err(Wrong::new(quoted(&jwks), "a file, or a URL that begins with https://"));
    }
    Ok(Provider {
        issuer: needed("issuer", issuer)?,
        audience: needed("audience", audience)?.split_ascii_whitespace().map(str::to_owned).collect(),
        jwks,
        scope: scope.unwrap_or_default(),
        claim: claim.unwrap_or_else(|| "sub".to_owned()),
        map,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_no_weaker_meaning() {
        let whole = "issuer=https://a audience=\"b c\" jwks=/keys";
        let provider = read_provider(whole).expect("it is one");
        let names = ["b", "c"].map(str::to_owned).to_vec();
        assert_eq!((provider.audience, provider.claim, provider.map), (names, "sub".to_owned(), None));
        let table = [
            ("issuer=https://a jwks=/keys", "no audience="),
            ("audience=b jwks=/keys", "no issuer="),
            ("issuer=https://a audience=b", "no jwks="),
            ("issuer=https://a audience= jwks=/keys", "no audience="),
            ("issuer=https://a audience=b jwks=http://a/keys", "\"http://a/keys\""),
            ("issuer=https://a audience=b jwks=/keys colour=blue", "option \"colour\""),
            ("issuer", "\"issuer\""),
        ];
        for (text, expected) in table {
            assert_eq!(read_provider(text).map_err(|(found, _)| found), Err(expected.to_owned()), "{text}");
        }
    }
}
