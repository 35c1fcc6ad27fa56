//! Which applications of a pool call `currval` or `lastval`: only their sessions are pinned when they use `nextval`.
//!
//! An application is known by the part of `application_name` before the first digit, since many number their processes or
//! connections there. It is never forgotten: an application that called them once will call them again.
//!
//! //= pg18 functions-sequence

use std::collections::BTreeSet;

use units::limits;

#[derive(Debug, Default)]
pub struct CurrvalCallers {
    names: BTreeSet<Box<[u8]>>,
    /// There are more than are kept: every application counts.
    all: bool,
}

impl CurrvalCallers {
    /// A session of this application has called one of them.
    pub fn add(&mut self, application: Option<&[u8]>) {
        let name = kind(application);
        if self.all || self.names.contains(name) {
            return;
        }
        if self.names.len() < limits::CURRVAL_CALLERS_MAX {
            self.names.insert(name.into());
        } else {
            self.all = true;
        }
    }

    /// Whether any application has.
    pub fn any(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether this application has.
    pub fn has(&self, application: Option<&[u8]>) -> bool {
        self.all || self.names.contains(kind(application))
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
    fn applications_are_kept_apart_until_there_are_too_many() {
        let mut currval_callers = CurrvalCallers::default();
        assert!(!currval_callers.any() && !currval_callers.has(None));
        currval_callers.add(Some(b"worker-17 on 10.0.0.7"));
        currval_callers.add(Some(b"worker-18"));
        assert!(
            currval_callers.any() && currval_callers.has(Some(b"worker-19")) && currval_callers.has(Some(b"worker-"))
        );
        assert!(!currval_callers.has(Some(b"worker")) && !currval_callers.has(None));
        for letter in b'a'..=b'z' {
            currval_callers.add(Some(&[letter]));
        }
        assert!(currval_callers.names.len() == limits::CURRVAL_CALLERS_MAX && currval_callers.has(None));
    }
}
