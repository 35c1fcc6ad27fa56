//! How secrets are written where one process hands its clients to another, over a Unix socket between the two: never to a log or a file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Password;
use crate::scram::Verifier;

impl Serialize for Password {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Password, D::Error> {
        String::deserialize(from).map(Password::new)
    }
}

impl Serialize for Verifier {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Verifier {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Verifier, D::Error> {
        let text = String::deserialize(from)?;
        Verifier::parse(&text).ok_or_else(|| D::Error::custom("a SCRAM verifier cannot be read"))
    }
}
