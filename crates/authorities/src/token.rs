//! Tokens that an identity provider has signed: JSON Web Tokens, checked against its keys.
//!
//! Promises that a token lets somebody in only if one of the provider's keys has signed it, by the algorithm of that key, and if
//! its issuer, audience, times and scope are what they have to be. `none` and algorithms with a shared secret are never
//! taken: with these a public key would do for signing.
//!
//! //= rfc7519#section-7.2
//! //= rfc8725#section-3

use std::time::Instant;

use hba::Provider;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use machine::{Inquiry, Verdict};
use serde_json::{Map, Value};

use crate::keys::Keys;

/// How far clocks may be apart, in seconds.
const LEEWAY: u64 = 5;
/// As PostgreSQL: a message of SASL has no more.
const LEN_MAX: usize = 65_535;
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// Whether the token is good, and who it says that the client is.
pub(crate) fn check(provider: &Provider, inquiry: &Inquiry, until: Instant, keys: &Keys) -> Verdict {
    let token = inquiry.given.text();
    if token.len() > LEN_MAX {
        return Verdict::Denied("the token is too long".to_owned());
    }
    let header = match decode_header(token) {
        Ok(header) => header,
        Err(error) => return Verdict::Denied(format!("this is no JSON Web Token: {error}")),
    };
    if !ALGORITHMS.contains(&header.alg) {
        return Verdict::Denied(format!("the token is signed by {:?}: RS256, ES256 or EdDSA are taken", header.alg));
    }
    if header.crit.is_some() {
        return Verdict::Denied("the token has extensions that have to be understood".to_owned());
    }
    let source = (&*provider.jwks, inquiry.ca_file.as_ref());
    let key = match keys.find(source, header.kid.as_deref(), header.alg, until) {
        Ok(Some(key)) => key,
        Ok(None) => {
            return Verdict::Denied("the token is signed with a key that the provider does not have".to_owned());
        }
        Err(why) => return Verdict::Unreachable(format!("the provider's keys cannot be had: {why}")),
    };
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    validation.set_issuer(&[&provider.issuer]);
    validation.set_audience(&provider.audience);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    match decode::<Map<String, Value>>(token, &key, &validation) {
        Ok(good) => by_claims(provider, &good.claims),
        Err(error) => Verdict::Denied(format!("the token is not good: {error}")),
    }
}

/// What the claims of a good token come to.
fn by_claims(provider: &Provider, claims: &Map<String, Value>) -> Verdict {
    // A list of issuers is no issuer.
    if claims.get("iss").and_then(Value::as_str) != Some(&provider.issuer) {
        return Verdict::Denied("the token is not good: InvalidIssuer".to_owned());
    }
    let granted = scopes(claims);
    if let Some(missing) = provider.scope.split_ascii_whitespace().find(|scope| !granted.contains(scope)) {
        return Verdict::Denied(format!("the token does not allow \"{missing}\""));
    }
    match claims.get(&provider.claim).and_then(Value::as_str).filter(|name| !name.is_empty()) {
        Some(name) => Verdict::Known(name.to_owned()),
        None => Verdict::Denied(format!("the token has no claim \"{}\" with a name", provider.claim)),
    }
}

/// What the token allows: `scope`, or `scp` as some providers have it, as words or as a list.
fn scopes(claims: &Map<String, Value>) -> Vec<&str> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(words)) => words.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
