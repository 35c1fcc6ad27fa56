//! Settings that decide what a text means, besides those that servers report.

/// PostgreSQL looks names up by the first, and reads constants by the others when it prepares a statement.
pub(super) const SETTINGS: [&[u8]; 8] = [
    b"search_path",
    b"default_text_search_config",
    b"array_nulls",
    b"backslash_quote",
    b"lc_monetary",
    b"timezone_abbreviations",
    b"transform_null_equals",
    b"xmloption",
];
