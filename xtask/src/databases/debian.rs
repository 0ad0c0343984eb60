//! Debian's packages, unpacked into a cache of ours instead of installed: needs no root, starts no service, and leaves the
//! machine as it was. What the machine has already (its C library above all) is not fetched again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// A root folder with these packages in it, from the cache or fetched now.
///
/// # Errors
/// When this is no Debian, or its packages cannot be had.
pub(super) fn root_with(packages: &[&str]) -> Result<PathBuf> {
    anyhow::ensure!(Path::new("/usr/bin/apt-get").exists(), "this is no Debian, so nothing is fetched by itself");
    let cache = cache()?;
    let root = cache.join(format!("{}-{}", release(), packages.join("-")));
    if root.exists() {
        return Ok(root);
    }
    eprintln!("note: fetching {} into {}", packages.join(" and "), cache.display());
    fs::create_dir_all(&cache).with_context(|| format!("{} cannot be made", cache.display()))?;
    let work = cache.join(format!("work-{}", std::process::id()));
    let outcome = fetch(packages, &work).and_then(|()| match fs::rename(work.join("root"), &root) {
        // Another run was quicker: what it fetched is as good.
        Err(_) if root.exists() => Ok(()),
        renamed => renamed.with_context(|| format!("{} cannot be put in place", root.display())),
    });
    let _ = fs::remove_dir_all(&work);
    outcome.map(|()| root)
}

/// Fetches the packages and all that they need and the machine has not, and unpacks them below `work/root`.
fn fetch(packages: &[&str], work: &Path) -> Result<()> {
    for folder in ["lists/partial", "archives/partial", "root"] {
        fs::create_dir_all(work.join(folder)).with_context(|| format!("{} cannot be made", work.display()))?;
    }
    apt_get(work, &["update", "-q"])?;
    let mut arguments = vec!["install", "-y", "-q", "--download-only", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(work, &arguments)?;
    let archives = fs::read_dir(work.join("archives")).context("nothing was fetched")?;
    let mut archives: Vec<PathBuf> = archives.filter_map(Result::ok).map(|entry| entry.path()).collect();
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    archives.sort();
    for archive in archives {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(&archive).arg(work.join("root"));
        let status = unpack.stdin(Stdio::null()).status().context("dpkg-deb did not start")?;
        anyhow::ensure!(status.success(), "{} cannot be unpacked", archive.display());
    }
    Ok(())
}

/// Runs apt-get on lists and archives of its own; of the machine it reads the sources and what is installed.
fn apt_get(work: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    let mut set = |name: &str, value: &Path| {
        command.arg("-o").arg(format!("{name}={}", value.display()));
    };
    set("Dir::State", work);
    set("Dir::State::lists", &work.join("lists"));
    set("Dir::State::status", Path::new("/var/lib/dpkg/status"));
    set("Dir::Cache", work);
    set("Dir::Cache::archives", &work.join("archives"));
    // Nothing of the machine is written, so nothing has to be locked, and the account that root downloads with could not
    // write here.
    command.args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output().context("apt-get did not start")?;
    anyhow::ensure!(
        output.status.success(),
        "apt-get {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Root's home is closed to the account that the servers run as, so root's cache is the machine's.
fn cache() -> Result<PathBuf> {
    if crate::toolchain::is_root() {
        return Ok(PathBuf::from("/var/cache/punctual/databases"));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(base.context("no home to keep fetched servers in; set XDG_CACHE_HOME")?.join("punctual/databases"))
}

/// The release that the packages are of: after an upgrade of the machine they are fetched anew.
fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches('"').chars().filter(|letter| letter.is_ascii_alphanumeric()).collect::<String>())
    };
    format!("{}{}", value("ID").unwrap_or_default(), value("VERSION_ID").unwrap_or_default())
}
