//! Messages to clients that are used in several places.

use wire::backend::ErrorResponse;
use wire::sqlstate;

/// Why a session waits to be pinned.
pub(crate) const PINNED: &str = "as many clients of this pool as max_pinned allows keep a server";

/// A NOTICE with SQLSTATE 00000.
pub(crate) fn write_notice(text: &str, detail: Option<&str>, out: &mut Vec<u8>) {
    let notice = ErrorResponse { severity: "NOTICE", code: sqlstate::SUCCESS, message: text, detail, hint: None };
    notice.encode_notice(out);
}
