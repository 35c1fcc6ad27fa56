//! How far a pool has come in reading its database's catalogue, as SHOW has it.

/// How far a pool has come with its database's names.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CatalogueProgress {
    /// Nobody asks: texts are not read here.
    #[default]
    Off,
    Read,
    /// Not read yet: every text is suspect.
    Reading,
    /// Asking has failed: texts count by their own words. It is asked again.
    Unreadable,
}

impl CatalogueProgress {
    /// As SHOW FIDELITY says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CatalogueProgress::Off => "off",
            CatalogueProgress::Reading => "reading",
            CatalogueProgress::Read => "read",
            CatalogueProgress::Unreadable => "unreadable",
        }
    }
}
