//! The suites, and how each wants to be run.

use std::fs;
use std::path::Path;

use crate::stock::Stock;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// `src/test/regress`, a test at a time.
    Serial,
    /// `src/test/regress` in the groups of its schedule.
    Parallel,
    /// `src/test/isolation`: several sessions a test, which wait for each other.
    Isolation,
    /// `contrib`, each module in a database of its own.
    Contrib,
}

pub(crate) const SUITES: [(&str, Suite); 4] = [
    ("serial", Suite::Serial),
    ("parallel", Suite::Parallel),
    ("isolation", Suite::Isolation),
    ("contrib", Suite::Contrib),
];

impl Suite {
    pub(crate) fn named(name: &str) -> Result<Suite, String> {
        let names = || SUITES.map(|(name, _)| name).join(", ");
        let found = SUITES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, suite)| suite).ok_or_else(|| format!("no suite '{name}'; there are {}", names()))
    }

    /// For how many seconds a test may wait for a server. With a client at a time there is one, or there will be none.
    pub(crate) fn wait_s(self) -> u32 {
        if self == Suite::Parallel { 20 } else { 10 }
    }

    pub(crate) fn name(self) -> &'static str {
        SUITES.into_iter().find(|(_, suite)| *suite == self).map_or("", |(name, _)| name)
    }
}

/// One call of `pg_regress` or `pg_isolation_regress`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The module, where the suite has several; else empty.
    pub(crate) module: String,
    /// Where its files are in the source.
    pub(crate) folder: &'static str,
    /// Below `src/test` of the programs.
    pub(crate) tool: &'static str,
    pub(crate) database: String,
    /// Made before the tests, in this order.
    pub(crate) extensions: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

/// What has to be called for a suite.
///
/// # Errors
/// If the source cannot be read.
pub(crate) fn parts(stock: &Stock, suite: Suite) -> Result<Vec<Part>, String> {
    let schedule = |name: &str| format!("--schedule={{inputs}}/{name}");
    let one = |folder, tool, database: &str, arguments| Part {
        module: String::new(),
        folder,
        tool,
        database: database.to_owned(),
        extensions: Vec::new(),
        arguments,
    };
    let regress = |arguments| one("src/test/regress", "regress/pg_regress", "regression", arguments);
    Ok(match suite {
        Suite::Serial => vec![regress(vec![schedule("parallel_schedule"), "--max-connections=1".to_owned()])],
        Suite::Parallel => vec![regress(vec![schedule("parallel_schedule")])],
        Suite::Isolation => {
            let tool = "isolation/pg_isolation_regress";
            vec![one("src/test/isolation", tool, "isolation_regression", vec![schedule("isolation_schedule")])]
        }
        Suite::Contrib => contrib(stock)?,
    })
}

/// Modules that can be tested on a server that runs, and whose extension is there.
fn contrib(stock: &Stock) -> Result<Vec<Part>, String> {
    let folder = stock.source("contrib");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut modules: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    modules.sort_unstable();
    Ok(modules.iter().filter_map(|module| contrib_module(stock, &folder, module)).collect())
}

fn contrib_module(stock: &Stock, folder: &Path, module: &str) -> Option<Part> {
    let makefile = fs::read_to_string(folder.join(module).join("Makefile")).ok()?.replace("\\\n", " ");
    let variable = |name: &str| -> Vec<String> {
        let lines = makefile.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(['=', '+']));
        lines.flat_map(|value| value.trim_start_matches('=').split_whitespace().map(str::to_owned)).collect()
    };
    let tests = variable("REGRESS");
    let options = variable("REGRESS_OPTS");
    let wants_a_server_of_its_own = makefile.contains("NO_INSTALLCHECK");
    let extensions: Vec<String> =
        options.iter().filter_map(|option| option.strip_prefix("--load-extension=")).map(str::to_owned).collect();
    // The languages are packages of their own.
    let needed = variable("EXTENSION").into_iter().chain(extensions.iter().cloned());
    let is_here = needed.into_iter().all(|name| stock.has_extension(&name)) && !module.contains("_pl");
    if tests.is_empty() || wants_a_server_of_its_own || !is_here {
        return None;
    }
    Some(Part {
        module: module.to_owned(),
        folder: "contrib",
        tool: "regress/pg_regress",
        database: "contrib_regression".to_owned(),
        extensions,
        arguments: tests,
    })
}
