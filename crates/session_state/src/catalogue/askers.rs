//! Which applications of a pool call `currval` or `lastval`: their sessions alone are kept on the servers where they draw.
//!
//! Told apart by what stands before the first digit in `application_name`, since many number their processes or connections
//! there. Does not forget: an application that called them once will call them again.
//!
//! //= pg18 functions-sequence

use std::collections::BTreeSet;

use units::limits;

#[derive(Debug, Default)]
pub struct Askers {
    names: BTreeSet<Box<[u8]>>,
    /// More than are kept.
    everybody: bool,
}

impl Askers {
    /// A session of this application asks.
    pub fn add(&mut self, application: Option<&[u8]>) {
        let name = kind(application);
        if self.everybody || self.names.contains(name) {
            return;
        }
        if self.names.len() < limits::ASKERS_MAX {
            self.names.insert(name.into());
        } else {
            self.everybody = true;
        }
    }

    /// Whether anybody does.
    pub fn any(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether a session of this application may.
    pub fn has(&self, application: Option<&[u8]>) -> bool {
        self.everybody || self.names.contains(kind(application))
    }
}

fn kind(application: Option<&[u8]>) -> &[u8] {
    let name = application.unwrap_or_default();
    let digit = name.iter().position(u8::is_ascii_digit);
    &name[..digit.unwrap_or(name.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_told_apart_until_they_are_too_many() {
        let mut askers = Askers::default();
        assert!(!askers.any() && !askers.has(None));
        askers.add(Some(b"worker-17 on 10.0.0.7"));
        askers.add(Some(b"worker-18"));
        assert!(askers.any() && askers.has(Some(b"worker-19")) && askers.has(Some(b"worker-")));
        assert!(!askers.has(Some(b"worker")) && !askers.has(None));
        for letter in b'a'..=b'z' {
            askers.add(Some(&[letter]));
        }
        assert!(askers.names.len() == limits::ASKERS_MAX && askers.has(None));
    }
}
