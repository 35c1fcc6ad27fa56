//! `pgweir run`: serves what URLs say, or else the environment, or else one file.
//!
//! Prints how to reach it once it serves. Promises that RELOAD reads URLs, variables' files and what settings name again, as it reads a file. Does not change a file's settings by
//! variables: it is served as it is.

use std::path::Path;
use std::process::ExitCode;

use ::settings::PoolSize;
use ask::Target;
use auth::Secret;
use config::{Config, Problem, Upstream};
use engine::Handle;
use programs::{running, url};

use crate::cli::Flags;
use crate::environment::{self, Environment};
use crate::files::Files;
use crate::serve::{Read, serve, serve_file};
use crate::{complain, identity, passed, reachable, settings, upstream};

/// What is served if neither the command line nor the environment says what.
const FILE: &str = "/etc/pgweir/pgweir.ini";

/// Serves what URLs say, or else the environment.
pub(crate) fn run(urls: Vec<String>, listen: Option<String>, pool_size: Option<PoolSize>, flags: &Flags) -> ExitCode {
    let arguments = Arguments { urls, listen, pool_size };
    let (read, files) = Files::noted(|read| {
        arguments.read(read, |urls, upstream| {
            let config = config::from_urls(urls, upstream, read)?;
            Ok((settings::with_descriptors(config), targets(urls, upstream, read)))
        })
    });
    match read {
        Ok(None) if Path::new(FILE).exists() && !arguments.has_options() => serve_file(Path::new(FILE), flags),
        Ok(None) if Path::new(FILE).exists() => complain::fatal(&format!(
            "--listen and --pool-size are for URLs: {FILE} has its own listen_port and default_pool_size"
        )),
        Ok(None) => complain::fatal(&format!(
            "what is to be served? Give a URL, as in pgweir run postgres://user@host/database, or set {} or PGHOST, or put a \
             configuration file at {FILE}",
            environment::URL
        )),
        Ok(Some((config, _))) if passed::is_any() && trusts(&config) => complain::fatal(
            "sockets passed from service manager need a password in the URL, in PGPASSWORD or in ~/.pgpass: without one, whoever reaches \
             them could log in",
        ),
        Ok(Some((config, targets))) => {
            let fallback_user = identity::unprivileged();
            let again = move |running: &Config| {
                Files::noted(|read| {
                    let config = arguments.read(read, |urls, upstream| running.reload_urls(urls, upstream, read))?;
                    let none =
                        || vec![Problem::of_variable(environment::URL, "no URL", "one at least, as at the start")];
                    config.map(settings::with_descriptors).ok_or_else(none)
                })
            };
            // Before root becomes another user: the folder belongs to the user who has started it.
            let (_file, socket) = running::bind().unzip();
            let is_quiet = flags.quiet;
            let begun = Box::new(move |config: &Config, handle: &Handle| {
                reachable::tell(config, handle, socket, is_quiet);
                upstream::look(config, targets, handle);
            });
            serve(Read { config, files, again: Box::new(again) }, flags, fallback_user, begun)
        }
        Err(problems) => {
            complain::list(flags.quiet, &problems);
            complain::fatal("cannot start with these URLs and variables")
        }
    }
}

/// Whether clients need no password because there is none to prove. It is so on loopback addresses and Unix sockets only.
fn trusts(config: &Config) -> bool {
    config
        .pooling
        .secrets
        .values()
        .any(|secret| matches!(secret, Secret::Plain(password) if password.as_str().is_empty()))
}

/// What the command line of `run` says.
struct Arguments {
    urls: Vec<String>,
    listen: Option<String>,
    pool_size: Option<PoolSize>,
}

impl Arguments {
    fn has_options(&self) -> bool {
        self.listen.is_some() || self.pool_size.is_some()
    }

    /// What `reading` makes of the URLs and of all that completes them, at the start and again. `None`: nothing says what to serve.
    ///
    /// # Errors
    /// All that is wrong.
    fn read<T>(
        &self,
        read: &config::ini::Read,
        reading: impl FnOnce(&[String], &Upstream<'_>) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>, Vec<Problem>> {
        let one = |problem| vec![problem];
        let (environment, urls) = if self.urls.is_empty() {
            let environment = Environment::of_the_process(read).map_err(one)?;
            let urls = environment.urls().map_err(one)?;
            (environment, urls)
        } else {
            (Environment::without_url(read).map_err(one)?, self.urls.clone())
        };
        if urls.is_empty() {
            return Ok(None);
        }
        let passfile = url::passfile();
        let upstream = Upstream {
            env: &|name| environment.get(name),
            assignments: &environment.assignments,
            passfile: passfile.as_deref(),
            listen: self.listen.as_deref(),
            pool_size: self.pool_size,
            cores: settings::cores(),
            built: settings::built(),
        };
        reading(&urls, &upstream).map(Some)
    }
}

/// Where each URL leads. What is wrong with a file of TLS is said when it is read for the engine.
fn targets(urls: &[String], upstream: &Upstream<'_>, read: &config::ini::Read) -> Vec<Vec<Target>> {
    let of_one = |url: &String| config::from_urls(std::slice::from_ref(url), upstream, read).ok();
    urls.iter().filter_map(of_one).filter_map(|config| url::targets(&config).ok()).collect()
}
