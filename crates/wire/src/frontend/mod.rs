//! What a client sends. Each message has a file; each type decodes a body and encodes a whole message.
//!
//! A message that is nothing but its header (Sync, Flush, Terminate, CopyDone) is in `bare`. CopyData and FunctionCall
//! pass by length and have no decoder.
//!
//= pg18 protocol-message-formats

pub mod tag;

mod bare;
mod bind;
mod cancel;
mod close;
mod copy;
mod describe;
mod execute;
mod limit;
mod parse;
mod password;
mod query;
mod sasl;
mod startup;
mod target;

pub use bare::{
    COPY_DONE, FLUSH, SYNC, TERMINATE, decode_bare, encode_copy_done, encode_flush, encode_sync, encode_terminate,
};
pub use bind::{Bind, BindNames, BindResults, bind_parameter, encode_bind_prefix};
pub use cancel::CancelRequest;
pub(crate) use cancel::check_secret;
pub use close::Close;
pub use copy::{CopyFail, encode_copy_data};
pub use describe::Describe;
pub use execute::Execute;
pub use limit::{LARGE_LEN_MAX, PASSWORD_LEN_MAX, SASL_LEN_MAX, SMALL_LEN_MAX, len_max};
pub use parse::Parse;
pub use password::Password;
pub use query::Query;
pub use sasl::{SaslInitial, SaslResponse};
pub use startup::{
    Parameters, STARTUP_LEN_MAX, Startup, StartupMessage, encode_gss_request, encode_ssl_request, encode_startup,
    encode_startup_version, parse_startup,
};
pub use target::Target;
