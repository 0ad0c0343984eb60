//! Where the servers' programs are: installed on the machine, in our cache, or fetched into it from Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{POSTGRES, debian};

/// What was found.
pub(super) struct Programs {
    postgres: Option<PostgresPrograms>,
    mariadb: Option<MariadbPrograms>,
}

/// The programs of PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct PostgresPrograms {
    /// The folder that holds `initdb` and `postgres`.
    folder: PathBuf,
    libraries: Option<PathBuf>,
}

/// The programs of MariaDB.
#[derive(Debug, Clone)]
pub(super) struct MariadbPrograms {
    /// What is `/usr` where it is installed.
    base: PathBuf,
    libraries: Option<PathBuf>,
}

/// Finds the programs of the servers that are asked for, by the names of their variables.
///
/// # Errors
/// One line that says what to install or which variable to set.
pub(super) fn find(wanted: &[&'static str]) -> Result<Programs> {
    let mut programs =
        Programs { postgres: PostgresPrograms::below(Path::new("/")), mariadb: MariadbPrograms::below(Path::new("/")) };
    // Installed or not, a path that names them wins: that is how another version is tried.
    if let Some(folder) = on_path("initdb").filter(|folder| folder.join("postgres").exists()) {
        programs.postgres = Some(PostgresPrograms { folder, libraries: None });
    }
    let missing = |programs: &Programs| {
        let lacks = |name: &str| match name {
            POSTGRES => programs.postgres.is_none(),
            _ => programs.mariadb.is_none(),
        };
        wanted.iter().copied().filter(|name| lacks(name)).collect::<Vec<_>>()
    };
    let lacking = missing(&programs);
    if lacking.is_empty() {
        return Ok(programs);
    }
    let fetched = debian::root_with(&packages(&lacking)).with_context(|| advice(&lacking))?;
    programs.postgres = programs.postgres.or_else(|| PostgresPrograms::below(&fetched));
    programs.mariadb = programs.mariadb.or_else(|| MariadbPrograms::below(&fetched));
    let lacking = missing(&programs);
    anyhow::ensure!(lacking.is_empty(), "{} (what was fetched has none)", advice(&lacking));
    Ok(programs)
}

fn packages(lacking: &[&'static str]) -> Vec<&'static str> {
    let package = |name: &&'static str| match *name {
        POSTGRES => "postgresql",
        _ => "mariadb-server",
    };
    lacking.iter().map(package).collect()
}

fn advice(lacking: &[&'static str]) -> String {
    let servers: Vec<&str> =
        lacking.iter().map(|name| if *name == POSTGRES { "PostgreSQL" } else { "MariaDB" }).collect();
    format!(
        "the tests want a private server of {}: install its programs, or set {} to the URL of a server where databases may \
         be created",
        servers.join(" and "),
        lacking.join(" and ")
    )
}

impl Programs {
    pub(super) fn postgres(&self) -> Result<PostgresPrograms> {
        self.postgres.clone().context("PostgreSQL was not looked for")
    }

    pub(super) fn mariadb(&self) -> Result<MariadbPrograms> {
        self.mariadb.clone().context("MariaDB was not looked for")
    }
}

impl PostgresPrograms {
    /// Below a root: the newest version, where Debian puts it.
    fn below(root: &Path) -> Option<Self> {
        let versions = std::fs::read_dir(root.join("usr/lib/postgresql")).ok()?;
        let folder = |version: std::fs::DirEntry| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version));
        let mut versions: Vec<_> = versions.filter_map(Result::ok).filter_map(folder).collect();
        versions.sort_by_key(|(version, _)| *version);
        let folders = versions.into_iter().rev().map(|(_, version)| version.path().join("bin"));
        let folder = folders.into_iter().find(|folder| folder.join("initdb").exists())?;
        Some(PostgresPrograms { folder, libraries: libraries(root) })
    }

    pub(super) fn initdb(&self) -> Command {
        command(self.folder.join("initdb"), self.libraries.as_deref())
    }

    pub(super) fn server(&self) -> Command {
        command(self.folder.join("postgres"), self.libraries.as_deref())
    }
}

impl MariadbPrograms {
    fn below(root: &Path) -> Option<Self> {
        let base = root.join("usr");
        let programs = ["sbin/mariadbd", "bin/mariadb-install-db", "bin/my_print_defaults"];
        let whole = programs.iter().all(|program| base.join(program).exists());
        whole.then(|| MariadbPrograms { base, libraries: libraries(root) })
    }

    pub(super) fn install(&self) -> Command {
        self.with_base("bin/mariadb-install-db")
    }

    pub(super) fn server(&self) -> Command {
        self.with_base("sbin/mariadbd")
    }

    fn with_base(&self, program: &str) -> Command {
        let mut command = command(self.base.join(program), self.libraries.as_deref());
        // No configuration of the machine has a say.
        command.arg("--no-defaults").arg(format!("--basedir={}", self.base.display()));
        command
    }
}

/// The folders of shared libraries below a root that is not the machine's own, as the loader takes them.
fn libraries(root: &Path) -> Option<PathBuf> {
    if root == Path::new("/") {
        return None;
    }
    let folders = ["usr/lib", "lib"].into_iter().flat_map(|folder| {
        let multiarch = std::fs::read_dir(root.join(folder)).into_iter().flatten().filter_map(Result::ok);
        multiarch.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with("-linux-gnu"))
    });
    std::env::join_paths(folders).ok().map(PathBuf::from)
}

fn command(program: PathBuf, libraries: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    // The folder we were called from may be closed to the account that the servers run as.
    command.current_dir("/");
    command
}

/// The folder of a program on the search path, links followed: PostgreSQL finds its other files from where it lies.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())?;
    Some(found.canonicalize().ok()?.parent()?.to_path_buf())
}
