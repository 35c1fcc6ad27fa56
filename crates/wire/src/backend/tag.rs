//! First bytes of the messages that a server sends.
//!
//! Some letters mean something else in the other direction: `C`, `D`, `E`, `H` and `S` are the traps.

pub const AUTHENTICATION: u8 = b'R';
pub const BACKEND_KEY_DATA: u8 = b'K';
pub const BIND_COMPLETE: u8 = b'2';
pub const CLOSE_COMPLETE: u8 = b'3';
pub const COMMAND_COMPLETE: u8 = b'C';
pub const COPY_BOTH: u8 = b'W';
pub const COPY_DATA: u8 = b'd';
pub const COPY_DONE: u8 = b'c';
pub const COPY_IN: u8 = b'G';
pub const COPY_OUT: u8 = b'H';
pub const DATA_ROW: u8 = b'D';
pub const EMPTY_QUERY: u8 = b'I';
pub const ERROR: u8 = b'E';
pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
pub const NEGOTIATE_VERSION: u8 = b'v';
pub const NOTICE: u8 = b'N';
pub const NOTIFICATION: u8 = b'A';
pub const NO_DATA: u8 = b'n';
pub const PARAMETER_DESCRIPTION: u8 = b't';
pub const PARAMETER_STATUS: u8 = b'S';
pub const PARSE_COMPLETE: u8 = b'1';
pub const PORTAL_SUSPENDED: u8 = b's';
pub const READY_FOR_QUERY: u8 = b'Z';
pub const ROW_DESCRIPTION: u8 = b'T';
