//! How far a pool has come with its database's names, for whoever looks at it.

/// How far a pool has come with its database's names.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// Nobody asks: texts are not read here.
    #[default]
    Off,
    Read,
    /// Not read yet: every text is suspect.
    Reading,
    /// Asking has failed: texts count by their own words. It is asked again.
    Unreadable,
}

impl Names {
    /// As SHOW FIDELITY says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Names::Off => "off",
            Names::Reading => "reading",
            Names::Read => "read",
            Names::Unreadable => "unreadable",
        }
    }
}
