//! What clients are told in the same words at several places.

use wire::backend::ErrorResponse;
use wire::sqlstate;

/// What clients of a database are told that a reload has taken away, as in PgBouncer.
pub(crate) const DATABASE_REMOVED: &str = "database removed";

/// Why a session waits that waits to keep a server.
pub(crate) const PINNED: &str = "as many clients of this pool as max_pinned allows keep a server";

/// A NOTICE without a meaning of its own.
pub(crate) fn write_notice(text: &str, detail: Option<&str>, out: &mut Vec<u8>) {
    let notice = ErrorResponse { severity: "NOTICE", code: sqlstate::SUCCESS, message: text, detail, hint: None };
    notice.encode_notice(out);
}
