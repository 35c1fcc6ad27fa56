//! `pgweir run`: serves what URLs say, or else the environment, or else one file.
//!
//! Promises that RELOAD reads URLs, variables' files and what settings name again, as it reads a file. Does not change a file's settings by
//! variables: it is served as it is.

use std::path::Path;
use std::process::ExitCode;

use ::settings::PoolSize;
use config::{Config, Problem, Severity, Upstream};
use engine::Handle;
use trials::Target;

use crate::cli::Flags;
use crate::environment::{self, Environment};
use crate::files::Files;
use crate::serve::{Read, serve, serve_file};
use crate::{complain, settings, upstream};

/// What is served if neither the command line nor the environment says what.
const FILE: &str = "/etc/pgweir/pgweir.ini";

/// Serves what URLs say, or else the environment.
pub(crate) fn run(urls: Vec<String>, listen: Option<String>, pool_size: Option<PoolSize>, flags: &Flags) -> ExitCode {
    let arguments = Arguments { urls, listen, pool_size };
    let (lead, files) = Files::noted(|read| arguments.lead(None, read));
    match lead {
        Ok(None) if Path::new(FILE).exists() => serve_file(Path::new(FILE), flags),
        Ok(None) => complain::fatal(&format!(
            "what is to be served? Give a URL, as in pgweir run postgres://user@host/database, or set {} or PGHOST, or put a \
             configuration file at {FILE}",
            environment::URL
        )),
        Ok(Some(Lead { config, targets })) => {
            let fallback_user = demo::unprivileged().map(|account| account.name);
            let again = move |running: &Config| {
                let (lead, files) = Files::noted(|read| arguments.lead(Some(running), read));
                let config = match lead {
                    Ok(Some(lead)) => Ok(lead.config),
                    Ok(None) => {
                        Err(vec![Problem::of_variable(environment::URL, "no URL", "one at least, as at the start")])
                    }
                    Err(problems) => Err(problems),
                };
                (config, files)
            };
            let begun = Box::new(move |config: &Config, handle: &Handle| upstream::look(config, targets, handle));
            serve(Read { config, files, again: Box::new(again) }, flags, fallback_user, begun)
        }
        Err(problems) => {
            let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
            complain::fatal(&errors.map(Problem::to_string).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// What the command line of `run` says.
struct Arguments {
    urls: Vec<String>,
    listen: Option<String>,
    pool_size: Option<PoolSize>,
}

/// What is to be served, and where each of its URLs leads.
struct Lead {
    config: Config,
    targets: Vec<Vec<Target>>,
}

impl Arguments {
    /// Reads the environment and the URLs, at the start and again. `None`: nothing says what to serve.
    ///
    /// # Errors
    /// All that is wrong.
    fn lead(&self, running: Option<&Config>, read: &config::ini::Read) -> Result<Option<Lead>, Vec<Problem>> {
        let environment = Environment::of_the_process(read);
        let environment = environment.map_err(|problem| vec![problem])?;
        let of_environment = environment.urls();
        let urls = if self.urls.is_empty() { &of_environment } else { &self.urls };
        if urls.is_empty() {
            return Ok(None);
        }
        let variable = |name: &str| environment.get(name);
        let passfile = passfile();
        let upstream = Upstream {
            env: &variable,
            assignments: &environment.assignments,
            passfile: passfile.as_deref(),
            listen: self.listen.as_deref(),
            pool_size: self.pool_size,
            cores: settings::cores(),
            built: settings::built(),
        };
        let config = match running {
            None => config::from_urls(urls, &upstream, read)?,
            Some(running) => running.reload_urls(urls, &upstream, read)?,
        };
        // What is wrong with a file of TLS is said when it is read for the engine.
        let of_one = |url: &String| config::from_urls(std::slice::from_ref(url), &upstream, read).ok();
        let targets = urls.iter().filter_map(of_one).filter_map(|config| upstream::targets(&config).ok()).collect();
        Ok(Some(Lead { config: settings::with_descriptors(config), targets }))
    }
}

/// The password file, unless others can read it too.
//= pg18 libpq-pgpass
pub(crate) fn passfile() -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let named = std::env::var_os("PGPASSFILE").map(std::path::PathBuf::from);
    let path = named.or_else(|| Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".pgpass")))?;
    let mode = std::fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        eprintln!("pgweir: {} is ignored: others can read it (chmod 600 would help)", path.display());
        return None;
    }
    std::fs::read_to_string(path).ok()
}
