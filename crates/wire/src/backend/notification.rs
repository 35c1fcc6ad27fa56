//! NotificationResponse: somebody said NOTIFY on a channel that this connection listens to.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-NOTIFICATIONRESPONSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The process that said it.
    pub pid: i32,
    pub channel: &'a [u8],
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// # Errors
    /// If the body is not exactly a process id and two strings.
    pub fn decode(body: &'a [u8]) -> Result<Notification<'a>, Error> {
        let mut reader = Reader::new(body);
        let pid = reader.i32()?;
        let channel = reader.cstr()?;
        let payload = reader.cstr()?;
        reader.end()?;
        Ok(Notification {
            pid,
            channel,
            payload,
        })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::NOTIFICATION, |out| {
            out.extend_from_slice(&self.pid.to_be_bytes());
            put_cstr(out, self.channel);
            put_cstr(out, self.payload);
        });
    }
}
