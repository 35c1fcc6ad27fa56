//! Behaviour that only some clients have.

use crate::plan::Plan;
use crate::random::Random;

/// The special behaviour of one client.
#[derive(Copy, Clone, Debug, Default)]
pub struct Habits {
    /// Sends CancelRequests. Such a client sends one unit at a time.
    pub cancels: bool,
    /// Waits for the end of a CancelRequest's connection before it sends the next unit, as drivers do.
    pub awaits_cancels: bool,
    /// Sends CancelRequests, or an administrator may cancel what it runs. Such a client sends one unit at a time, too.
    pub may_be_cancelled: bool,
    /// Reads and writes so many bytes at a time; 0: as many as there are.
    pub pace: usize,
    /// Closes after so many bytes were sent, in order or by a reset.
    pub vanishes_after: Option<u64>,
    pub vanishes_orderly: bool,
    pub wrong_password: bool,
    /// Leaves without Terminate.
    pub impolite: bool,
    /// Leaves session state wherever it can, and never reads any.
    pub poisons: bool,
    /// Uses the channel of its database, not only its own.
    pub shares_channel: bool,
    /// Sends invalid bytes, at once or after a while.
    pub hostile: bool,
    /// Asks for a database or a user that does not exist.
    pub lost: Option<Nowhere>,
}

impl Habits {
    pub(super) fn draw(number: u32, plan: &Plan, random: &mut Random) -> Habits {
        let manners = &plan.manners;
        let cancels = random.chance(manners.cancellers);
        Habits {
            cancels,
            awaits_cancels: number.is_multiple_of(2),
            may_be_cancelled: cancels || plan.promises.may_be_cancelled(number),
            pace: if random.chance(manners.slow) { random.skewed(1, 5_000) as usize } else { 0 },
            vanishes_after: random.chance(manners.vanish).then(|| random.skewed(1, 20_000)),
            vanishes_orderly: random.chance(500),
            wrong_password: random.chance(manners.wrong_password),
            impolite: random.chance(200),
            poisons: number % 5 == 1,
            shares_channel: plan.promises.shared_channels,
            hostile: random.chance(manners.hostile),
            lost: random.chance(manners.lost).then(|| {
                // With a `*` database, every name exists.
                let nowhere = plan.settings.fallback.is_none() && random.chance(500);
                if nowhere { Nowhere::Database } else { Nowhere::User }
            }),
        }
    }
}

/// What does not exist.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nowhere {
    Database,
    User,
}
