//! A client that sends invalid bytes: rubbish, impossible lengths, messages that never end. It gets an error or is
//! closed, no other client is affected, and it never gets another client's data.

use wire::frontend::{self, Parse};

use crate::random::Random;
use crate::statement::Mark;

/// How long it waits for an answer, in microseconds.
pub(super) const PATIENCE_US: u64 = 200_000;

/// What it sends.
pub(super) fn rubbish(random: &mut Random, mark: &Mark) -> Vec<u8> {
    let marked = |body: &str| format!("{body} /*{}*/", mark.text()).into_bytes();
    let mut out = Vec::new();
    match random.below(8) {
        0 => (0..random.skewed(1, 5_000)).for_each(|_| out.push(random.next() as u8)),
        // Lengths that cannot be, or that promise a gigabyte.
        1 => {
            out.push(*random.pick(b"QPBEDCSHFdcfpXy"));
            let len = *random.pick(&[0_u32, 1, 3, u32::MAX, 0x7fff_ffff, 0x3fff_ffff, 70_000]);
            out.extend_from_slice(&len.to_be_bytes());
            out.resize(out.len() + random.skewed(0, 100_000) as usize, 0);
        }
        // A message whose body does not fit its type.
        2 => {
            let tag = *random.pick(b"PBEDCFSH");
            let len = random.skewed(0, 300) as usize;
            wire::message(&mut out, tag, |out| out.resize(out.len() + len, b'x'));
            frontend::encode_sync(&mut out);
        }
        // A name that never ends, and one that is too long.
        3 => wire::message(&mut out, b'B', |out| out.resize(out.len() + 200_000, b'n')),
        4 => {
            let name = vec![b'n'; random.skewed(10_000, 300_000) as usize];
            Parse { name: &name, query: b"select 1 1", types: Parse::NO_TYPES }.encode(&mut out);
            frontend::encode_sync(&mut out);
        }
        // COPY data where there is no COPY, and the end of a COPY where there is none.
        5 => {
            let data = vec![b'd'; random.skewed(1, 100_000) as usize];
            frontend::encode_copy_data(&mut out, &data);
            frontend::encode_copy_done(&mut out);
        }
        // Another query in the middle of COPY FROM STDIN: PostgreSQL ends the connection.
        6 => {
            frontend::Query { text: &marked("copy t from stdin") }.encode(&mut out);
            frontend::Query { text: &marked("select 1 0") }.encode(&mut out);
        }
        _ => frontend::encode_startup(&mut out, [(&b"user"[..], &b"somebody"[..])]),
    }
    out
}
