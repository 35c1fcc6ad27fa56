//! Classes at a transcript's head: `class=jobs application=sidekiq* weight=2 max=1`, a rule and what it leads to.

use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use queueing::classes::{Class, ClassId, Long, Overflow, Pattern, Rule, TagPattern};

use super::settings::seconds;

/// Adds a class that is described by pairs, and the rule that leads to it.
pub(crate) struct Described {
    class: Class,
    rule: Rule,
    /// Of the one for its long transactions, described before.
    long: Option<String>,
    long_after: Duration,
}

impl Described {
    pub(crate) fn new(settings: &Settings, name: &str) -> Described {
        let all = || vec![Pattern::All];
        let class = ClassId(settings.classes.all.len() as u8);
        let rule = Rule { databases: all(), users: all(), applications: all(), tags: Vec::new(), class };
        Described { class: Class::new(name), rule, long: None, long_after: Duration::from_secs(1) }
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Described { class, rule, long, long_after } = self;
        let count = || value.parse().map_err(|_| format!("'{value}' is no number"));
        match key {
            "database" => rule.databases = vec![pattern(value)],
            "user" => rule.users = vec![pattern(value)],
            "application" => rule.applications = vec![pattern(value)],
            "tag" => {
                let (key, value) = value.split_once(':').ok_or_else(|| format!("'{value}' is no tag"))?;
                rule.tags.push(TagPattern { key: key.as_bytes().into(), value: pattern(value) });
            }
            "weight" => class.weight = count()?,
            "priority" => class.priority = count()? as u8,
            "min" => class.min = count()?,
            "max" => class.max = Some(count()?),
            "max_waiting" => class.max_waiting = Some(count()?),
            "long" => *long = Some(value.to_owned()),
            "long_after" => *long_after = seconds(value)?,
            "to_database" => class.database = Some(value.into()),
            "overflow" if value == "drop-oldest" => class.overflow = Overflow::DropOldest,
            _ => return Err(format!("'{key}' says nothing of a class")),
        }
        Ok(())
    }

    /// `default` is there, and needs no rule.
    pub(crate) fn add_to(mut self, settings: &mut Settings) -> Result<(), String> {
        let classes = Arc::make_mut(&mut settings.classes);
        if let Some(long) = &self.long {
            let index = classes.all.iter().position(|class| *class.name == **long);
            let class = index.map(|index| ClassId(index as u8)).ok_or_else(|| format!("no class '{long}' so far"))?;
            self.class.long = Some(Long { class, after: self.long_after });
        }
        if *self.class.name == *"default" {
            classes.all[0] = self.class;
            return Ok(());
        }
        classes.all.push(self.class);
        classes.rules.push(self.rule);
        Ok(())
    }
}

fn pattern(text: &str) -> Pattern {
    match text.strip_suffix('*') {
        Some("") => Pattern::All,
        Some(start) => Pattern::BeginsWith(start.as_bytes().into()),
        None => Pattern::Exactly(text.as_bytes().into()),
    }
}
