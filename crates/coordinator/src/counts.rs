//! How many of something there are: all together, by database and by user.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts that a name has for as long as it is not zero.
#[derive(Debug, Default)]
pub(crate) struct ByName(BTreeMap<Arc<str>, u32>);

impl ByName {
    pub(crate) fn of(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn raise(&mut self, name: &Arc<str>) {
        *self.0.entry(Arc::clone(name)).or_default() += 1;
    }

    pub(crate) fn lower(&mut self, name: &Arc<str>) {
        let count = self.0.get_mut(name).expect("what is counted down was counted up");
        *count -= 1;
        if *count == 0 {
            self.0.remove(name);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, u32)> {
        self.0.iter().map(|(name, count)| (name, *count))
    }
}

/// Counts of what has a database and a user.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    all: u32,
    by_database: ByName,
    by_user: ByName,
}

impl Counts {
    pub(crate) fn raise(&mut self, database: &Arc<str>, user: &Arc<str>) {
        self.all += 1;
        self.by_database.raise(database);
        self.by_user.raise(user);
    }

    pub(crate) fn lower(&mut self, database: &Arc<str>, user: &Arc<str>) {
        self.all -= 1;
        self.by_database.lower(database);
        self.by_user.lower(user);
    }

    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    pub(crate) fn of_database(&self, name: &str) -> u32 {
        self.by_database.of(name)
    }

    pub(crate) fn of_user(&self, name: &str) -> u32 {
        self.by_user.of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_for_as_long_as_it_counts_something() {
        let [app, web] = ["app", "web"].map(Arc::<str>::from);
        let mut counts = Counts::default();
        counts.raise(&app, &web);
        counts.raise(&app, &app);
        counts.lower(&app, &web);
        assert_eq!((counts.all(), counts.of_database("app"), counts.of_user("web")), (1, 1, 0));
        assert_eq!(counts.by_user.iter().collect::<Vec<_>>(), [(&app, 1)]);
    }
}
