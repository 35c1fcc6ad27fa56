//! What the program was built with: the methods of login that need libraries of the system are not part of everybody's.
//!
//! Promises that a file that asks for what is missing hears what to build.

/// The methods of login that need libraries of the system, and whether this program was built with them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    pub pam: bool,
    pub gssapi: bool,
}

impl Built {
    /// What stands in the way of PAM.
    pub(crate) fn without_pam(self) -> Option<&'static str> {
        (!self.pam).then_some("a pgweir that was built with `--features pam`: this one was not")
    }

    /// What stands in the way of tickets of Kerberos.
    pub(crate) fn without_gssapi(self) -> Option<&'static str> {
        (!self.gssapi).then_some("a pgweir that was built with `--features gssapi`: this one was not")
    }
}
