//! What a Cargo.toml depends on, and on which line it says so.
//!
//! Reads the few forms of TOML that dependencies are written in: `name = …`, `name.workspace = true` and a section
//! `[dependencies.name]`, each also under `[target.'…']`. Does not read versions, features or anything else.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// The crate itself.
    Program,
    /// Its tests or its build.
    Tests,
    /// Nobody yet: the workspace's list of versions.
    Workspace,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency<'a> {
    /// As published: `package = "…"` wins over the key.
    pub(crate) name: &'a str,
    pub(crate) whose: For,
    pub(crate) line: usize,
}

pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = None;
    for (line, text) in (1..).zip(manifest.lines()) {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            section = whose(header);
            if let Some((name, whose)) = own_section(header) {
                found.push(Dependency { name, whose, line });
                section = None;
            }
            continue;
        }
        let Some((key, value)) = text.split_once('=') else { continue };
        let Some(whose) = section.filter(|_| !key.starts_with('#')) else { continue };
        let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
        found.push(Dependency { name: renamed(value).unwrap_or(key), whose, line });
    }
    found
}

fn whose(header: &str) -> Option<For> {
    match header.rsplit('.').next()? {
        "dependencies" if header.starts_with("workspace.") => Some(For::Workspace),
        "dependencies" => Some(For::Program),
        "dev-dependencies" | "build-dependencies" => Some(For::Tests),
        _ => None,
    }
}

/// `[dependencies.name]`.
fn own_section(header: &str) -> Option<(&str, For)> {
    let (before, name) = header.rsplit_once('.')?;
    Some((name, whose(before)?))
}

fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    after.trim_start().strip_prefix('=')?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dependency_is_seen() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb.workspace = true\n# c = \"1\"\n\
                        d = { package = \"e\", version = \"1\" }\n[target.'cfg(unix)'.dependencies]\nf = \"1\"\n\
                        [dev-dependencies.g]\nversion = \"1\"\n[dev-dependencies]\nh = \"1\"\n[features]\ni = []\n\
                        [workspace.dependencies]\nj = { path = \"crates/j\" }\n";
        let found: Vec<_> = dependencies(manifest).into_iter().map(|it| (it.name, it.whose, it.line)).collect();
        let (program, tests) = (For::Program, For::Tests);
        let expected = [
            ("a", program, 4),
            ("b", program, 5),
            ("e", program, 7),
            ("f", program, 9),
            ("g", tests, 10),
            ("h", tests, 13),
            ("j", For::Workspace, 17),
        ];
        assert_eq!(found, expected);
    }
}
