//! A process that replicates, as far as a pooler can tell: it knows START_REPLICATION, streams both ways, and ends the stream.
//!
//! It says something for each thing that it hears, and a lot at the beginning. What it hears must be what its client has said, in
//! order (I11).
//!
//! //= pg18 protocol-replication#PROTOCOL-REPLICATION

use wire::backend::{self, Status};
use wire::frontend::tag;

use crate::client::replica::{is_said, words};
use crate::random::Random;

/// Its stream, or the last one.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Walsender {
    streams: bool,
    client: u32,
    said: u32,
    heard: u32,
}

impl Walsender {
    /// Takes a message, and writes the answer. The error is what should not have come.
    pub(crate) fn message(
        &mut self,
        message: u8,
        body: &[u8],
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match message {
            tag::QUERY if !self.streams => {
                let text = String::from_utf8_lossy(body);
                let client = text.trim_end_matches('\0').strip_prefix("START_REPLICATION ");
                let client = client.and_then(|client| client.parse().ok()).ok_or_else(|| format!("{text:?}"))?;
                *self = Walsender { streams: true, client, said: 0, heard: 0 };
                backend::encode_copy_both(out, 0);
                for _ in 0..random.range(0, 6) {
                    self.say(random, out);
                }
            }
            tag::COPY_DATA if self.streams && is_said(body, 'c', self.client, self.heard) => {
                self.heard += 1;
                self.say(random, out);
            }
            tag::COPY_DONE if self.streams => {
                self.streams = false;
                backend::encode_copy_done(out);
                backend::encode_command_complete(out, &format!("STREAMED {}", self.said));
                backend::encode_ready(out, Status::Idle);
            }
            other => return Err(format!("{:?} {:?}", char::from(other), String::from_utf8_lossy(body))),
        }
        Ok(())
    }

    fn say(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        let padding = random.skewed(0, 20_000) as usize;
        backend::encode_copy_data(out, &words('s', self.client, self.said, padding));
        self.said += 1;
    }
}
