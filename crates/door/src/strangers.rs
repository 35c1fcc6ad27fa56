//! Requests and refusals for user names without a secret: they look and last like those of existing users.
//!
//! A name always gets the same kind of secret; each kind is as frequent as among existing users; and a reload that
//! changes few secrets changes the kind of few names.

use std::collections::BTreeMap;

use auth::{Md5Hash, Mock, MockSeed, Password, Secret};
use machine::Settings;
use settings::AuthType;

/// The kinds of secrets for unknown names.
#[derive(Debug)]
pub(super) struct Strangers {
    seed: MockSeed,
    kinds: Kinds,
    /// The iterations of verifiers made from passwords.
    iterations: u32,
}

impl Strangers {
    pub(super) fn new(seed: MockSeed, settings: &Settings) -> Strangers {
        Strangers { seed, kinds: Kinds::of(settings), iterations: settings.global.login.scram_iterations }
    }

    /// Takes new settings with other users.
    pub(super) fn configure(&mut self, settings: &Settings) {
        (self.kinds, self.iterations) = (Kinds::of(settings), settings.global.login.scram_iterations);
    }

    /// A verifier for a SCRAM exchange that no proof matches.
    pub(super) fn mock(&self, user: &str) -> Mock {
        let mut mock = self.seed.mock(user.as_bytes(), self.iterations);
        let (draw, _) = mock.spare.split_first_chunk().expect("16 bytes are there");
        let verifier = &mut mock.verifier;
        verifier.iterations = self.kinds.iterations(u64::from_le_bytes(*draw)).unwrap_or(verifier.iterations);
        mock
    }

    /// A random secret to check a clear password against. The check of a verifier is slow and that of other kinds is
    /// fast. So an unknown user has the kind of some existing user, and always the same one: then the time of a refusal
    /// says nothing, neither for one name nor over many.
    pub(super) fn secret(&self, user: &str) -> Secret {
        let Mock { verifier: mock, spare } = self.mock(user);
        let (draw, _) = mock.salt.split_first_chunk().expect("a salt is 16 bytes long");
        let index = share(u64::from_le_bytes(*draw), self.kinds.all);
        // As long as most passwords, so that the comparison is alike.
        let text: String = spare.iter().rev().take(5).map(|byte| format!("{byte:02x}")).collect();
        if index < self.kinds.scram {
            Secret::Scram(mock)
        } else if index < self.kinds.scram + self.kinds.md5 {
            Secret::Md5(Md5Hash::of(&text, user))
        } else {
            Secret::Plain(Password::new(text))
        }
    }

    /// Whether an existing user's secret is stored in the clear.
    pub(super) fn has_plain_secrets(&self) -> bool {
        self.kinds.plain() > 0
    }
}

/// The number of users for each kind of secret.
#[derive(Clone, Debug, Default)]
struct Kinds {
    scram: u64,
    md5: u64,
    all: u64,
    /// The number of SCRAM verifiers by their iterations.
    iterations: BTreeMap<u32, u64>,
}

impl Kinds {
    fn of(settings: &Settings) -> Kinds {
        let mut kinds = Kinds::default();
        for secret in settings.secrets.values() {
            kinds.all += 1;
            kinds.md5 += u64::from(matches!(secret, Secret::Md5(_)));
            if let Secret::Scram(verifier) = secret {
                kinds.scram += 1;
                *kinds.iterations.entry(verifier.iterations).or_default() += 1;
            }
        }
        if settings.global.login.auth_type == AuthType::Scram {
            // Verifiers made from passwords.
            *kinds.iterations.entry(settings.global.login.scram_iterations).or_default() += kinds.plain();
        }
        kinds
    }

    fn plain(&self) -> u64 {
        self.all - self.scram - self.md5
    }

    /// The iterations of a verifier, each as likely as it is frequent.
    fn iterations(&self, draw: u64) -> Option<u32> {
        let mut index = share(draw, self.iterations.values().sum());
        let drawn = self.iterations.iter().find(|(_, count)| {
            let is_here = index < **count;
            index = index.saturating_sub(**count);
            is_here
        });
        drawn.map(|(iterations, _)| *iterations)
    }
}

/// Maps a draw from all 64-bit numbers to one of `count` things. A change of `count` by one moves few draws, so that a
/// reload does not change the answer for most names.
fn share(draw: u64, count: u64) -> u64 {
    let index = (u128::from(draw) * u128::from(count)) >> 64;
    u64::try_from(index).expect("a draw is below 2^64, so its share is below the count")
}

#[cfg(test)]
mod tests {
    use auth::Verifier;

    use super::*;

    #[test]
    fn an_unknown_user_has_a_secret_of_an_existing_kind() {
        let secrets = [
            Secret::Md5(Md5Hash::of("secret", "ann")),
            Secret::Plain(Password::new("secret")),
            Secret::Scram(Verifier::mock(&[1; 32], b"u", 4096)),
        ];
        for secret in secrets {
            let mut settings = Settings::default();
            settings.secrets.insert("ann".to_owned(), secret.clone());
            let strangers = Strangers::new(MockSeed::new(&[7; 32]), &settings);
            for number in 0..100 {
                let (name, kind) = (format!("stranger {number}"), std::mem::discriminant(&secret));
                assert_eq!(std::mem::discriminant(&strangers.secret(&name)), kind);
                assert_eq!(strangers.secret(&name), strangers.secret(&name), "always the same one");
            }
            assert_eq!(strangers.has_plain_secrets(), matches!(secret, Secret::Plain(_)));
        }
    }

    #[test]
    fn a_share_moves_little_when_one_more_is_there() {
        let draws: Vec<u64> = (0..1000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        // Half of the users have one kind of secret, half of them another: 50 of 100, then 50 of 101.
        let moved = draws.iter().filter(|&&draw| (share(draw, 100) < 50) != (share(draw, 101) < 50)).count();
        assert!(moved <= 10, "{moved}");
        assert_eq!((share(u64::MAX, 3), share(0, 3), share(u64::MAX, 0)), (2, 0, 0));
    }

    #[test]
    fn an_unknown_user_has_the_iterations_of_an_existing_one() {
        let verifier = |iterations| Secret::Scram(Verifier::mock(&[1; 32], b"u", iterations));
        let mut settings = Settings::default();
        settings.global.login.auth_type = AuthType::Scram;
        settings.global.login.scram_iterations = 4096;
        settings.secrets.insert("a".to_owned(), verifier(10_000));
        settings.secrets.insert("b".to_owned(), verifier(20_000));
        let drawn = |settings: &Settings| {
            let strangers = Strangers::new(MockSeed::new(&[7; 32]), settings);
            let names = (0..1000).map(|number| strangers.mock(&format!("stranger {number}")).verifier.iterations);
            let mut counts = BTreeMap::new();
            names.for_each(|iterations| *counts.entry(iterations).or_insert(0) += 1);
            counts
        };
        let counts = drawn(&settings);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [10_000, 20_000], "{counts:?}");
        assert!(counts.values().all(|count| (400..600).contains(count)), "{counts:?}");
        // Verifiers that are made of passwords have those of the setting.
        settings.secrets.insert("c".to_owned(), Secret::Plain(Password::new("secret")));
        assert_eq!(drawn(&settings).keys().copied().collect::<Vec<_>>(), [4096, 10_000, 20_000]);
        assert_eq!(drawn(&Settings::default()).keys().copied().collect::<Vec<_>>(), [4096]);
    }
}
