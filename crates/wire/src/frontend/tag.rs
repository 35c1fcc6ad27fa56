//! First bytes of the messages that a client sends.
//!
//! Some letters mean something else in the other direction: `C`, `D`, `E`, `H` and `S` are the traps.

pub const BIND: u8 = b'B';
pub const CLOSE: u8 = b'C';
pub const COPY_DATA: u8 = b'd';
pub const COPY_DONE: u8 = b'c';
pub const COPY_FAIL: u8 = b'f';
pub const DESCRIBE: u8 = b'D';
pub const EXECUTE: u8 = b'E';
pub const FLUSH: u8 = b'H';
pub const FUNCTION_CALL: u8 = b'F';
pub const PARSE: u8 = b'P';
/// Also SASLInitialResponse, SASLResponse and GSSResponse: what it is follows from what the server asked.
pub const PASSWORD: u8 = b'p';
pub const QUERY: u8 = b'Q';
pub const SYNC: u8 = b'S';
pub const TERMINATE: u8 = b'X';
