//! Requests and refusals for user names without a secret: they look and last like those of existing users.
//!
//! A name always gets the same kind of secret; each kind is as frequent as among existing users; and a reload that
//! changes few secrets changes the kind of few names.

use std::collections::BTreeSet;

use auth::{Md5Hash, Mock, MockSeed, Password, Secret, Verifier};
use machine::Settings;
use settings::AuthType;

use super::kinds::{Kinds, SecretKind};

/// The kinds of secrets for unknown names.
#[derive(Debug)]
pub(super) struct Strangers {
    seed: MockSeed,
    /// Of the users in auth_file.
    auth_file: Kinds,
    /// Of these and of the users that lookups have found.
    kinds: Kinds,
    /// The iterations of verifiers made from passwords.
    iterations: u32,
    /// The number of users for each number of iterations that a SCRAM exchange shows.
    shown: Kinds,
    looks_up: bool,
    auth_type: AuthType,
    /// Whether a user may be asked in several ways.
    is_mixed: bool,
}

impl Strangers {
    pub(super) fn new(seed: MockSeed, settings: &Settings) -> Strangers {
        let mut strangers = Strangers {
            seed,
            auth_file: Kinds::default(),
            kinds: Kinds::default(),
            iterations: 0,
            shown: Kinds::default(),
            looks_up: false,
            auth_type: settings.global.login.auth_type,
            is_mixed: false,
        };
        strangers.configure(settings, &Kinds::default());
        strangers
    }

    /// Takes new settings with other users. `looked_up`: the kinds that lookups have found.
    pub(super) fn configure(&mut self, settings: &Settings, looked_up: &Kinds) {
        let databases = || settings.databases.values().chain(&settings.fallback);
        let lookers = settings.global.login.auth_user.iter().map(String::as_str);
        let lookers: BTreeSet<&str> =
            lookers.chain(databases().filter_map(|database| database.auth_user.as_deref())).collect();
        self.looks_up = !lookers.is_empty();
        // The user that looks others up often stands in auth_file alone, with a password in clear text, and is no client: if it counted,
        // some unknown users would be asked for MD5, and no client is.
        let clients = settings.secrets.iter().filter(|(name, _)| !lookers.contains(name.as_str()));
        self.auth_file = Kinds::of(clients.map(|(_, secret)| secret));
        self.iterations = settings.global.login.scram_iterations;
        self.auth_type = settings.global.login.auth_type;
        let has_own = databases().any(|database| database.settings.auth_type.is_some());
        self.is_mixed = has_own || self.auth_type == AuthType::Hba;
        self.learn(looked_up);
    }

    /// Lookups have found these kinds.
    pub(super) fn learn(&mut self, looked_up: &Kinds) {
        self.kinds = self.auth_file.clone().and(looked_up);
        if self.looks_up && looked_up.count() == 0 {
            // Until one is found, users are taken to have what PostgreSQL makes by default.
            let usual = SecretKind::Scram { iterations: POSTGRESQL_ITERATIONS };
            self.kinds.add(usual, self.auth_file.count().max(1) * 16);
        }
        self.shown = Kinds { scram: self.kinds.scram.clone(), ..Kinds::default() };
        if (self.is_mixed || self.auth_type == AuthType::Scram) && self.kinds.plain > 0 {
            // Verifiers made from passwords.
            self.shown.add(SecretKind::Scram { iterations: self.iterations }, self.kinds.plain);
        }
    }

    /// A verifier for a SCRAM exchange that no proof matches.
    pub(super) fn mock(&self, user: &str) -> Mock {
        let mut mock = self.seed.mock(user.as_bytes(), self.iterations);
        let (draw, _) = mock.spare.split_first_chunk().expect("16 bytes are there");
        let verifier = &mut mock.verifier;
        let drawn = match self.index(verifier) {
            // Asked in another way, it must be the same user.
            index if self.is_mixed && index < self.kinds.scram_count() => {
                iterations(&self.kinds, u64::from_le_bytes(*draw))
            }
            index if self.is_mixed && index >= self.kinds.scram_count() + self.kinds.md5 => None,
            _ => iterations(&self.shown, u64::from_le_bytes(*draw)),
        };
        verifier.iterations = drawn.unwrap_or(verifier.iterations);
        mock
    }

    /// Which of all users a name is like.
    fn index(&self, mock: &Verifier) -> u64 {
        let (draw, _) = mock.salt.split_first_chunk().expect("a salt is 16 bytes long");
        share(u64::from_le_bytes(*draw), self.kinds.count())
    }

    /// A random secret to check a clear password against. The check of a verifier is slow and that of other kinds is
    /// fast. So an unknown user has the kind of some existing user, and always the same one: then the time of a refusal
    /// says nothing, neither for one name nor over many.
    pub(super) fn secret(&self, user: &str) -> Secret {
        let Mock { verifier: mock, spare } = self.mock(user);
        let index = self.index(&mock);
        // As long as most passwords, so that the comparison is alike.
        let text: String = spare.iter().rev().take(5).map(|byte| format!("{byte:02x}")).collect();
        if index < self.kinds.scram_count() {
            Secret::Scram(mock)
        } else if index < self.kinds.scram_count() + self.kinds.md5 {
            Secret::Md5(Md5Hash::of(&text, user))
        } else {
            Secret::Plain(Password::new(text))
        }
    }

    /// Whether an existing user's secret is stored in the clear.
    pub(super) fn has_plain_secrets(&self) -> bool {
        self.kinds.plain > 0
    }
}

/// PostgreSQL's default of `scram_iterations`.
const POSTGRESQL_ITERATIONS: u32 = 4096;

/// The iterations of a verifier, each as likely as it is frequent.
fn iterations(kinds: &Kinds, draw: u64) -> Option<u32> {
    let mut index = share(draw, kinds.scram_count());
    let drawn = kinds.scram.iter().find(|(_, count)| {
        let is_here = index < **count;
        index = index.saturating_sub(**count);
        is_here
    });
    drawn.map(|(iterations, _)| *iterations)
}

/// Maps a draw from all 64-bit numbers to one of `count` things. A change of `count` by one moves few draws, so that a
/// reload does not change the answer for most names.
fn share(draw: u64, count: u64) -> u64 {
    let index = (u128::from(draw) * u128::from(count)) >> 64;
    u64::try_from(index).expect("a draw is below 2^64, so its share is below the count")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn who_looks_users_up_is_no_client() {
        let mut settings = Settings::default();
        settings.global.login.auth_type = AuthType::Md5;
        settings.global.login.auth_user = Some("pgbouncer".into());
        settings.secrets.insert("pgbouncer".to_owned(), Secret::Plain(Password::new("secret")));
        let strangers = Strangers::new(MockSeed::new(&[7; 32]), &settings);
        for number in 0..300 {
            let secret = strangers.secret(&format!("stranger {number}"));
            assert!(
                matches!(secret, Secret::Scram(_)),
                "PostgreSQL's users have SCRAM, and {secret:?} is asked for MD5"
            );
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
    fn an_unknown_user_is_alike_however_it_is_asked() {
        let mut settings = Settings::default();
        settings.global.login.auth_type = AuthType::Hba;
        settings.global.login.scram_iterations = 5000;
        for (user, iterations) in [("a", 10_000), ("b", 20_000)] {
            settings.secrets.insert(user.to_owned(), Secret::Scram(Verifier::mock(&[1; 32], b"u", iterations)));
        }
        settings.secrets.insert("c".to_owned(), Secret::Plain(Password::new("secret")));
        let strangers = Strangers::new(MockSeed::new(&[7; 32]), &settings);
        let mut seen = [0; 3];
        for number in 0..300 {
            let name = format!("stranger {number}");
            let iterations = strangers.mock(&name).verifier.iterations;
            match strangers.secret(&name) {
                Secret::Scram(verifier) => {
                    assert_eq!(verifier.iterations, iterations);
                    seen[usize::from(iterations == 20_000)] += 1;
                    assert_ne!(iterations, 5000, "it is asked for SCRAM by md5, so it has a verifier");
                }
                _ => {
                    assert_eq!(iterations, 5000, "it is asked by MD5, so its verifier is made of a password");
                    seen[2] += 1;
                }
            }
        }
        assert!(seen.iter().all(|count| (70..130).contains(count)), "{seen:?}");
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
