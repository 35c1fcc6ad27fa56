//! How pools share the tokens of a cap: max_db_connections, max_user_connections, max_server_connections.
//!
//! Pure arithmetic over [`Claim`]s: it sends nothing and reads no settings. `server_requests` tells it which pool holds and needs how much,
//! and carries out the transfers that it names.
//!
//! What a pool may hold is its **share**: the cap, divided by weight among the pools that have work, none given more than it
//! needs, and none with work less than its guaranteed minimum, if the cap suffices for all of these. A pool below
//! the whole part of its share gets a token from one that is above its own. The fractions of the shares are
//! served in turns: a [`SLICE`] each, to the pool that is furthest behind.
//!
//! How far a pool is behind is an account in server-seconds: its share less its tokens, times the time, while a pool
//! under the cap waits. It is the lag of start-time fair queueing: a pool that comes begins with nothing, neither credit for
//! the time it was away nor debt from before.
//!
//! **The bound.** Over any time in which sessions wait in a pool and the others' work does not change, it gets at least its share
//! of the server time, less `ceil(its share in tokens) × (2 slices + the longest transaction + one opening)`, and
//! less what it was ahead when that time began. Nobody's transaction is interrupted. One token is held up by one slice of its own and one of its rivals', and by
//! the transaction that it waits for. Under one cap, transfers open at most one connection per [`PACE`] (62 a second), and at
//! most one per [`SLICE`] for each token of the cap (4 a second). Idle servers are no part of it: they are taken as soon as
//! anybody waits.
//!
//! Why it is like this: docs/adr/0019-pools-take-turns.md.

use std::collections::BTreeMap;
use std::time::Duration;

use units::{PoolId, Time};

/// A token that was given to a pool with waiting sessions stays there for so long: a connection costs PostgreSQL some 5 ms to open, and
/// this makes that two per cent.
pub(crate) const SLICE: Duration = Duration::from_millis(250);

/// Between two transfers under one cap, so that a large cap with many pools does not become a storm of logins.
pub(crate) const PACE: Duration = Duration::from_millis(16);

/// What a pool is behind or ahead is remembered up to so many server-seconds: transactions that last longer than this are
/// not made up for.
const MEMORY_S: i64 = 10;

/// Shares are counted in parts of a token.
pub(crate) const UNIT: u64 = 1024;

/// One pool under a cap, at a moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) pool: PoolId,
    /// At least 1.
    pub(crate) weight: u32,
    /// Tokens that it keeps while it has work for them.
    pub(crate) min: u32,
    /// Tokens that are out for it.
    pub(crate) tokens: u32,
    /// Further ones that it could use, and this cap is all that is in the way.
    pub(crate) needed: u32,
    /// Of its tokens, those that it was asked to give back, and not longer ago than a slice.
    pub(crate) coming: u32,
    /// And those that it was asked to give back before.
    pub(crate) overdue: u32,
    /// Of its tokens, those that it has had for a slice.
    pub(crate) tenured: u32,
}

impl Claim {
    fn demand(&self) -> u32 {
        self.tokens.saturating_add(self.needed)
    }

    /// What it will hold when it has given back what it was asked to.
    fn left(&self) -> u32 {
        self.tokens.saturating_sub(self.coming + self.overdue)
    }

    fn movable(&self) -> u32 {
        self.tenured.saturating_sub(self.coming + self.overdue).min(self.left())
    }
}

/// One pool is to give back a token at its next release, for another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: PoolId,
    pub(crate) to: PoolId,
}

/// What is remembered of one pool while its cap is contended.
#[derive(Copy, Clone, Debug, Default)]
struct Account {
    /// Behind its share, in microseconds of a [`UNIT`]th of a token; below zero: ahead of it.
    behind: i64,
    share: u64,
    tokens: u32,
    weight: u32,
    has_waiters: bool,
    /// When a session last waited there, and when the pool was last under the cap.
    needed_at: Time,
    seen_at: Time,
}

/// The pools under one cap, since sessions wait there.
#[derive(Debug, Default)]
pub(crate) struct Group {
    accounts: BTreeMap<PoolId, Account>,
    /// Up to when the accounts are kept.
    at: Time,
    contended: bool,
    contended_at: Time,
    next_transfer_at: Time,
}

impl Group {
    /// Brings the accounts up to `now`, by what was held since the last time, and notes what is held from now on.
    pub(crate) fn update_accounts(&mut self, now: Time, limit: u32, claims: &[Claim]) {
        let contended = claims.iter().any(|claim| claim.needed > 0);
        let elapsed_us = if self.contended { now.micros_since(self.at) } else { 0 };
        let shares = shares(limit, claims);
        self.accounts.values_mut().for_each(|account| account.charge(elapsed_us));
        for (claim, share) in claims.iter().zip(shares) {
            self.accounts.entry(claim.pool).or_default().renew(now, claim, share);
        }
        self.accounts.retain(|_, account| {
            if account.seen_at < now {
                // It has nothing and needs nothing.
                (account.share, account.tokens, account.has_waiters) = (0, 0, false);
            }
            account.seen_at + SLICE > now
        });
        self.at = now;
        self.contended = contended;
        if contended {
            self.contended_at = now;
        }
    }

    /// Nobody has waited for so long that all accounts would begin anew.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        !self.contended && self.contended_at + SLICE <= now
    }

    /// The order in which pools are served, least first: those below the whole part of their share, then those below their share, then
    /// the others; among these, the one that is furthest behind.
    pub(crate) fn rank(&self, pool: PoolId, tokens: u32) -> (u8, i64) {
        // One that takes no part in the sharing comes last.
        let Some(account) = self.accounts.get(&pool) else { return (2, 0) };
        let class = match u64::from(tokens) * UNIT {
            held if held + UNIT <= account.share => 0,
            held if held < account.share => 1,
            _ => 2,
        };
        (class, -account.lag())
    }

    /// The next transfer that is due, if any; after it has been carried out, [`Group::transfer_made`] is called.
    pub(crate) fn next_transfer(&self, now: Time, limit: u32, claims: &[Claim]) -> Option<Transfer> {
        if now < self.next_transfer_at {
            return None;
        }
        let mut after: Vec<u32> = claims.iter().map(Claim::left).collect();
        // What comes back goes to the pool that is next; what should have come back long ago is not waited for.
        let gone: u32 = after.iter().sum::<u32>() + claims.iter().map(|claim| claim.overdue).sum::<u32>();
        for _ in 0..limit.saturating_sub(gone) {
            // Nobody wants what is left.
            let Some(next) = self.next_waiting(claims, &after) else { break };
            after[next] += 1;
        }
        let mut waiting: Vec<usize> = (0..claims.len()).filter(|&index| needs(&claims[index], after[index])).collect();
        waiting.sort_by_key(|&index| self.rank(claims[index].pool, after[index]));
        waiting.into_iter().find_map(|to| {
            let from = self.giver(claims, &after, to)?;
            Some(Transfer { from: claims[from].pool, to: claims[to].pool })
        })
    }

    /// The transfer that was due is carried out.
    pub(crate) fn transfer_made(&mut self, now: Time) {
        self.next_transfer_at = now + PACE;
    }

    fn next_waiting(&self, claims: &[Claim], after: &[u32]) -> Option<usize> {
        let waiting = (0..claims.len()).filter(|&index| needs(&claims[index], after[index]));
        waiting.min_by_key(|&index| self.rank(claims[index].pool, after[index]))
    }

    /// The pool that gives a token to this one: of those above their shares, one that is a whole token above if there is one, else
    /// the one furthest ahead.
    fn giver(&self, claims: &[Claim], after: &[u32], to: usize) -> Option<usize> {
        let (class, lag) = self.rank(claims[to].pool, after[to]);
        if class == 2 {
            return None;
        }
        let share = |index: usize| self.accounts.get(&claims[index].pool).map_or(0, |account| account.share);
        let above = |index: usize| (u64::from(after[index]) * UNIT).saturating_sub(share(index));
        let givers = (0..claims.len()).filter(|&index| {
            let is_ahead = lag <= self.rank(claims[index].pool, 0).1;
            let gives = index != to && above(index) > 0 && claims[index].movable() > 0;
            gives && (class == 0 || above(index) >= UNIT || is_ahead)
        });
        givers.max_by_key(|&index| (above(index) >= UNIT, self.rank(claims[index].pool, 0).1))
    }

    /// By how many server-microseconds a pool is behind its share; below zero: ahead.
    #[cfg(test)]
    pub(crate) fn behind_us(&self, pool: PoolId) -> i64 {
        self.accounts.get(&pool).map_or(0, |account| account.behind / UNIT as i64)
    }
}

fn needs(claim: &Claim, after: u32) -> bool {
    claim.needed > 0 && after < claim.demand()
}

impl Account {
    fn charge(&mut self, elapsed_us: u64) {
        const MEMORY: i64 = MEMORY_S * 1_000_000 * UNIT as i64;
        let held = u64::from(self.tokens) * UNIT;
        let rate = i64::try_from(self.share).unwrap_or(i64::MAX).saturating_sub_unsigned(held);
        let elapsed_us = i64::try_from(elapsed_us).unwrap_or(i64::MAX);
        self.behind = self.behind.saturating_add(rate.saturating_mul(elapsed_us)).clamp(-MEMORY, MEMORY);
    }

    fn renew(&mut self, now: Time, claim: &Claim, share: u64) {
        let has_waiters = claim.needed > 0;
        let returns = has_waiters && !self.has_waiters && self.needed_at + SLICE <= now;
        if returns {
            // No credit for the time in which it needed nothing.
            self.behind = self.behind.min(0);
        }
        (self.share, self.tokens, self.weight, self.has_waiters) =
            (share, claim.tokens, claim.weight.max(1), has_waiters);
        self.seen_at = now;
        if has_waiters {
            self.needed_at = now;
        }
    }

    /// What it is behind, by its weight.
    fn lag(&self) -> i64 {
        // Large enough that no two weights are mixed up by rounding, small enough that MEMORY times it is no overflow.
        const PARTS: i64 = 1 << 16;
        self.behind.saturating_mul(PARTS) / i64::from(self.weight.max(1))
    }
}

/// What each may hold of `limit` tokens, in [`UNIT`]ths: by weight, but no more than it needs, and no less than its
/// minimum or what it needs, if the limit suffices for that.
pub(crate) fn shares(limit: u32, claims: &[Claim]) -> Vec<u64> {
    let most = |claim: &Claim| u64::from(claim.demand()) * UNIT;
    let guaranteed = |claim: &Claim| most(claim).min(u64::from(claim.min) * UNIT);
    let limit = u64::from(limit) * UNIT;
    let affordable = claims.iter().map(guaranteed).sum::<u64>() <= limit;
    let least = |claim: &Claim| if affordable { guaranteed(claim) } else { 0 };
    let mut shares: Vec<Option<u64>> = vec![None; claims.len()];
    // Each round settles for good the pools that would get too much, or those that would get too little, whichever weighs more: what
    // it changes for the rest only makes that truer.
    loop {
        let settled: u64 = shares.iter().flatten().sum();
        let rest = limit.saturating_sub(settled);
        let open = || claims.iter().enumerate().filter(|(index, _)| shares[*index].is_none());
        let weights: u64 = open().map(|(_, claim)| u64::from(claim.weight.max(1))).sum();
        if weights == 0 {
            break;
        }
        let even = |claim: &Claim| rest * u64::from(claim.weight.max(1)) / weights;
        let too_much: u64 = open().map(|(_, claim)| even(claim).saturating_sub(most(claim))).sum();
        let too_little: u64 = open().map(|(_, claim)| least(claim).saturating_sub(even(claim))).sum();
        let next: Vec<(usize, u64)> = open()
            .filter_map(|(index, claim)| {
                let even = even(claim);
                let share = even.min(most(claim)).max(least(claim));
                let settles = match too_much.cmp(&too_little) {
                    std::cmp::Ordering::Greater => even > most(claim),
                    std::cmp::Ordering::Less => even < least(claim),
                    std::cmp::Ordering::Equal => true,
                };
                settles.then_some((index, share))
            })
            .collect();
        for (index, share) in next {
            shares[index] = Some(share);
        }
    }
    shares.into_iter().map(Option::unwrap_or_default).collect()
}
