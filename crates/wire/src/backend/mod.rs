//! What a server sends. Each message has a file; each type decodes a body and encodes a whole message.
//!
//! Messages that are nothing but a header are in `bare`. Rows and COPY data pass by length on their way to a client; their
//! decoders here are for our own queries, tests and benchmarks.
//!
//= pg18 protocol-message-formats

pub mod tag;

mod authentication;
mod bare;
mod command_complete;
mod copy;
mod error;
mod fields;
mod key_data;
mod negotiate_version;
mod notification;
mod parameter_description;
mod parameter_status;
mod ready_for_query;
mod row;

pub use authentication::{Authentication, Mechanisms, encode_sasl};
pub use bare::{
    encode_bind_complete, encode_close_complete, encode_copy_done, encode_empty_query, encode_no_data,
    encode_parse_complete, encode_portal_suspended,
};
pub use command_complete::{CommandComplete, encode_command_complete};
pub use copy::{CopyResponse, encode_copy_both, encode_copy_data, encode_copy_in, encode_copy_out};
pub use error::{ErrorResponse, encode_error_with_detail};
pub use fields::{Fields, FieldsIter, field};
pub use key_data::BackendKeyData;
pub use negotiate_version::{NegotiateVersion, Negotiated};
pub use notification::Notification;
pub use parameter_description::{ParameterDescription, encode_parameter_description};
pub use parameter_status::ParameterStatus;
pub use ready_for_query::{ReadyForQuery, Status, encode_ready};
pub use row::{
    Column, ColumnRead, Columns, DataRow, RowDescription, Values, encode_data_row, encode_row_description, oid,
    set_formats,
};
