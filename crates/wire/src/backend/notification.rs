//! NotificationResponse: a NOTIFY on a channel that this connection listens to.

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
        Ok(Notification { pid, channel, payload })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let said = Notification { pid: 77, channel: b"jobs", payload: b"42" };
        exact!(Notification, tag::NOTIFICATION, said, b"A\0\0\0\x10\0\0\0\x4djobs\x0042\0");
        let bare = Notification { pid: -1, channel: b"c", payload: b"" };
        exact!(Notification, tag::NOTIFICATION, bare, b"A\0\0\0\x0b\xff\xff\xff\xffc\0\0");
    }
}
