//! What all sessions of a worker share: equal parameters and prepared statements, stored once, and what was read of
//! texts before.

use std::sync::Arc;

use machine::Settings;
use session_state::catalogue::Known;
use session_state::parameters::Parameters;
use session_state::parameters::{Interned, Tracked};
use session_state::prepared::Catalog;
use session_state::state::{Reader, Reading};
use sql::Key;
use units::random::Random;
use units::{PoolId, StatementRow};

use crate::buffers::Buffers;
use crate::screening::Screen;
use crate::server::Said;
use crate::server_names::ServerNames;
use crate::slow_lines::SlowLines;
use crate::standings::Standings;
use crate::statistics::Statistics;

#[derive(Debug)]
pub struct Caches {
    /// Which parameters are followed.
    pub tracked: Tracked,
    /// Their values, each combination once.
    pub interned: Interned,
    /// Prepared statements, by what they say.
    pub catalog: Catalog,
    /// What texts mean.
    pub reader: Reader,
    /// The classes that rules give to sessions.
    pub standings: Standings,
    /// For messages that are kept until later.
    pub buffers: Buffers,
    /// What may not pass, if there is such a thing.
    pub screen: Option<Screen>,
    /// What is counted of statements.
    pub statistics: Statistics,
    /// Which slow statements have a line in the log.
    pub slow_lines: SlowLines,
    /// The statement of the text that was read last.
    pub said: Said,
    /// What PostgreSQL is told in application_name.
    pub server_names: ServerNames,
    /// Keys the fingerprints of first texts. It is secret, so that no client can make another client's statement count
    /// as long.
    pub key_of_origins: Key,
}

impl Caches {
    /// Empty caches. `seed`: the worker's, unpredictable.
    pub fn new(settings: &Settings, seed: [u8; 32]) -> Caches {
        Caches {
            tracked: Tracked::new(&settings.global.startup.track_extra_parameters),
            interned: Interned::default(),
            catalog: Catalog::default(),
            standings: Standings::default(),
            buffers: Buffers::default(),
            screen: Screen::of(settings),
            statistics: Statistics::new(settings),
            slow_lines: SlowLines::new(settings),
            said: Said::default(),
            server_names: ServerNames::of(settings),
            key_of_origins: Key::from_seed(memo_secret(seed).rotate_left(32)),
            reader: Reader::new(memo_secret(seed), settings.global.pools.statement_memo_size as usize),
        }
    }

    /// What a text means, by the parameters that its server will read it by; [`Caches::said`] is its statement then.
    #[inline(always)]
    pub fn read(&mut self, text: &[u8], parameters: &Arc<Parameters>, known: &mut Known, pool: PoolId) -> Reading {
        let (reading, noted) = self.reader.read_noted(text, parameters, known);
        let row = match noted {
            Some((noted, rules)) => self.statistics.row(noted, pool, text, rules),
            None => StatementRow::NONE,
        };
        self.said = Said { row, access: reading.access(), copies: reading.copies() };
        reading
    }

    /// [`Caches::said`] is the statement of this text, which is not read for its effects.
    #[inline]
    pub fn identify(&mut self, text: &[u8], parameters: &Arc<Parameters>, pool: PoolId) {
        self.said = Said::default();
        if self.statistics.is_on()
            && let Some((noted, rules, reading)) = self.reader.known_row(text, parameters)
        {
            let row = self.statistics.row(noted, pool, text, rules);
            self.said = Said { row, access: reading.access(), copies: reading.copies() };
        }
    }
}

/// The key of the statement memo. It is secret, so that no client can find two texts that the memo mistakes for each
/// other.
fn memo_secret(mut seed: [u8; 32]) -> u64 {
    // Not the same random stream as the secrets that clients get.
    seed[0] ^= 0xff;
    u64::from_ne_bytes(Random::new(seed).bytes())
}
