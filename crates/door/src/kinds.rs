//! How many users have which kind of secret: a login must not tell by its kind that a user does not exist.

use std::collections::BTreeMap;

use auth::Secret;

/// What distinguishes secrets for whoever watches a login.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretKind {
    Plain,
    Md5,
    Scram { iterations: u32 },
}

impl SecretKind {
    pub(super) fn of(secret: &Secret) -> SecretKind {
        match secret {
            Secret::Plain(_) => SecretKind::Plain,
            Secret::Md5(_) => SecretKind::Md5,
            Secret::Scram(verifier) => SecretKind::Scram { iterations: verifier.iterations },
        }
    }
}

/// The number of users for each kind of secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) plain: u64,
    pub(super) md5: u64,
    /// SCRAM verifiers, by their iterations.
    pub(super) scram: BTreeMap<u32, u64>,
}

impl Kinds {
    pub(super) fn of<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Kinds {
        let mut kinds = Kinds::default();
        secrets.into_iter().for_each(|secret| kinds.add(SecretKind::of(secret), 1));
        kinds
    }

    pub(super) fn add(&mut self, kind: SecretKind, count: u64) {
        match kind {
            SecretKind::Plain => self.plain += count,
            SecretKind::Md5 => self.md5 += count,
            SecretKind::Scram { iterations } => *self.scram.entry(iterations).or_default() += count,
        }
    }

    /// One user fewer of a kind.
    pub(super) fn remove(&mut self, kind: SecretKind) {
        match kind {
            SecretKind::Plain => self.plain -= 1,
            SecretKind::Md5 => self.md5 -= 1,
            SecretKind::Scram { iterations } => {
                let count = self.scram.get_mut(&iterations).expect("it was added");
                *count -= 1;
                if *count == 0 {
                    self.scram.remove(&iterations);
                }
            }
        }
    }

    /// Both together.
    pub(super) fn and(mut self, other: &Kinds) -> Kinds {
        self.plain += other.plain;
        self.md5 += other.md5;
        other.scram.iter().for_each(|(&iterations, &count)| self.add(SecretKind::Scram { iterations }, count));
        self
    }

    pub(super) fn scram_count(&self) -> u64 {
        self.scram.values().sum()
    }

    pub(super) fn count(&self) -> u64 {
        self.plain + self.md5 + self.scram_count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_is_no_longer_counted() {
        let secrets = ["a", "b", "md50123456789abcdef0123456789abcdef"].map(Secret::parse);
        let mut kinds = Kinds::of(&secrets);
        let scram = SecretKind::Scram { iterations: 9 };
        kinds.add(scram, 2);
        assert_eq!((kinds.plain, kinds.md5, kinds.scram_count(), kinds.count()), (2, 1, 2, 5));
        let both = Kinds::of(&secrets).and(&kinds);
        assert_eq!((both.plain, both.scram.get(&9)), (4, Some(&2)));
        kinds.remove(scram);
        kinds.remove(scram);
        kinds.remove(SecretKind::Md5);
        assert_eq!(kinds, Kinds { plain: 2, ..Kinds::default() });
    }
}
