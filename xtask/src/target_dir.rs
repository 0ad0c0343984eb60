//! Where builds go.
//!
//! `CARGO_TARGET_DIR`, or a target directory of the user's cargo configuration, is always honoured. Otherwise a developer's
//! builds stay in the clone, while CI, whose clones are thrown away, builds in a cache outside of it:
//! `${XDG_CACHE_HOME:-~/.cache}/punctual/target/KEY`, with a key made of the compiler's version and the lock file.
//!
//! What makes the cache safe: cargo tells a stale build of a local crate by file times, and a fresh clone may carry any
//! time, so all that was built from our own crates is forgotten before the directory is used again. What remains comes
//! from the registry, where a version never changes. One run at a time uses a directory (a locked file says so), and only
//! the newest few are kept.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::test;

/// How many directories the cache keeps: the one in use and one for each of two other branches. Each takes a gigabyte or two.
const KEPT: usize = 3;

/// The file whose lock says that a directory of the cache is in use.
const LOCK: &str = "in-use.lock";

/// The chosen place.
pub(crate) enum TargetDir {
    /// What cargo does by itself.
    Own,
    /// A directory of the cache, ours until the lock is dropped.
    Cache { folder: PathBuf, _lock: File },
}

/// Chooses the place, and makes a directory of the cache ready to be used.
///
/// # Errors
/// When cargo cannot read the workspace. A cache that cannot be used is told and done without.
pub(crate) fn choose(cargo: &OsStr, root: &Path, in_ci: bool) -> Result<TargetDir> {
    if !in_ci {
        return Ok(TargetDir::Own);
    }
    let about = metadata(cargo, root)?;
    // This also sees what the user's cargo configuration says, which the environment would not show.
    if about.target_directory != root.join("target") {
        return Ok(TargetDir::Own);
    }
    let Some(base) = cache_base(std::env::var_os("XDG_CACHE_HOME").as_deref(), std::env::var_os("HOME").as_deref())
    else {
        return Ok(TargetDir::Own);
    };
    let folder = base.join(key(root)?);
    match take(&folder, &about.target_names) {
        Ok(lock) => {
            prune(&base, &folder);
            Ok(TargetDir::Cache { folder, _lock: lock })
        }
        Err(error) => {
            eprintln!("note: the cache {} cannot be used ({error:#}); building in the clone", folder.display());
            Ok(TargetDir::Own)
        }
    }
}

struct About {
    target_directory: PathBuf,
    /// The names of our packages and of all that is built from them, dashes made underscores.
    target_names: BTreeSet<String>,
}

/// Cargo's own view, asked without a `Cargo`, which is made from the answer.
fn metadata(cargo: &OsStr, root: &Path) -> Result<About> {
    let own = read_metadata(cargo, root, "Cargo.toml")?;
    let directory = own["target_directory"].as_str().context("cargo metadata names no target directory")?;
    let mut about = About { target_directory: directory.into(), target_names: BTreeSet::new() };
    about.take_names(&own);
    if root.join(test::BENCHES).is_file() {
        about.take_names(&read_metadata(cargo, root, test::BENCHES)?);
    }
    Ok(about)
}

fn read_metadata(cargo: &OsStr, root: &Path, manifest: &str) -> Result<Value> {
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("cargo metadata did not start")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo cannot read {manifest}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")
}

impl About {
    fn take_names(&mut self, metadata: &Value) {
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let targets = package["targets"].as_array().into_iter().flatten();
            for name in targets.chain([package]).filter_map(|named| named["name"].as_str()) {
                self.target_names.insert(name.replace('-', "_"));
            }
        }
    }
}

/// The folder above all keys. None when the environment names no absolute place.
fn cache_base(cache_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |path: &OsStr| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let cache = cache_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))?;
    Some(cache.join("punctual").join("target"))
}

/// The compiler and the lock file as one name. A change of either starts a directory anew, instead of letting an old one grow.
fn key(root: &Path) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("-vV").stdin(Stdio::null()).output().context("rustc did not start")?;
    let lock = fs::read(root.join("Cargo.lock")).context("Cargo.lock cannot be read")?;
    let mut hasher = DefaultHasher::new();
    version.stdout.hash(&mut hasher);
    lock.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Takes a directory for this run, and forgets what was built in it from our own crates.
fn take(folder: &Path, own: &BTreeSet<String>) -> Result<File> {
    fs::create_dir_all(folder)?;
    let lock = File::create(folder.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("note: another run builds in {}; waiting for it", folder.display());
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // The newest lock file is the directory used last: that is what pruning goes by.
    lock.set_modified(now())?;
    forget(folder, own)?;
    Ok(lock)
}

/// Removes all that cargo built from the named packages and targets, so that it is built again whatever the file times say.
fn forget(folder: &Path, own: &BTreeSet<String>) -> Result<()> {
    for profile in ["debug", "release"] {
        for part in [".fingerprint", "build", "deps", "examples", "incremental"] {
            let Ok(entries) = fs::read_dir(folder.join(profile).join(part)) else { continue };
            for entry in entries {
                let entry = entry?;
                if !entry.file_name().to_str().is_some_and(|name| is_own(name, own)) {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
        }
    }
    Ok(())
}

/// Whether a name such as `punctual-clock-0a1b..`, `libpunctual_clock-0a1b...rlib` or `it-0a1b..` comes from one of ours.
/// A namesake from the registry is built once more, which costs time and nothing else.
fn is_own(file_name: &str, own: &BTreeSet<String>) -> bool {
    let stem = file_name.split('.').next().unwrap_or(file_name);
    let Some((name, _hash)) = stem.rsplit_once('-') else { return false };
    let name = name.replace('-', "_");
    own.contains(&name) || name.strip_prefix("lib").is_some_and(|name| own.contains(name))
}

/// Removes the directories used longest ago. One that is in use, or cannot be removed, stays.
fn prune(base: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let mut others: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path != current)
        .filter_map(|path| Some((fs::metadata(path.join(LOCK)).ok()?.modified().ok()?, path)))
        .collect();
    others.sort();
    let surplus = others.len().saturating_sub(KEPT - 1);
    for (_, path) in others.into_iter().take(surplus) {
        if let Ok(lock) = File::open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            // Left for the next run if it fails: the cache only saves time.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the age of a cache folder is real time, and xtask depends on no crate of ours"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::{KEPT, LOCK, cache_base, forget, is_own, prune, take};

    fn own() -> BTreeSet<String> {
        ["punctual", "punctual_clock", "it"].map(str::to_owned).into()
    }

    /// Guards the documented place: the user's cache folder, never a relative one, which would lie in the clone.
    #[test]
    fn the_cache_lies_in_the_users_cache_folder() {
        let base = |cache: Option<&str>, home: Option<&str>| {
            cache_base(cache.map(OsStr::new), home.map(OsStr::new)).map(|path| path.display().to_string())
        };
        assert_eq!(base(Some("/var/c"), Some("/h")).as_deref(), Some("/var/c/punctual/target"));
        assert_eq!(base(None, Some("/h")).as_deref(), Some("/h/.cache/punctual/target"));
        assert_eq!(base(Some("relative"), Some("/h")).as_deref(), Some("/h/.cache/punctual/target"));
        assert_eq!(base(None, None), None);
    }

    /// Guards that no artefact of our own crates outlives a run, whatever form cargo gives its name.
    #[test]
    fn own_artefacts_are_told_from_others() {
        for name in [
            "punctual-clock-0123456789abcdef",
            "libpunctual_clock-0123456789abcdef.rmeta",
            "punctual_clock-0123456789abcdef.d",
            "it-0123456789abcdef",
        ] {
            assert!(is_own(name, &own()), "{name}");
        }
        for name in ["libserde-0123456789abcdef.rlib", "punctualish-0123456789abcdef", "CACHEDIR.TAG", "item-00.d"] {
            assert!(!is_own(name, &own()), "{name}");
        }
    }

    /// Guards that the third-party builds stay, which is what the cache is for, and that ours go.
    #[test]
    fn forgetting_keeps_the_registry_builds() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join("debug").join(name);
        fs::create_dir_all(at(".fingerprint/punctual-clock-00")).expect("made");
        fs::create_dir_all(at(".fingerprint/serde-00")).expect("made");
        fs::create_dir_all(at("deps")).expect("made");
        fs::write(at("deps/libpunctual_clock-00.rlib"), "").expect("written");
        fs::write(at("deps/libserde-00.rlib"), "").expect("written");
        forget(folder.path(), &own()).expect("forgotten");
        assert!(!at(".fingerprint/punctual-clock-00").exists());
        assert!(!at("deps/libpunctual_clock-00.rlib").exists());
        assert!(at(".fingerprint/serde-00").exists());
        assert!(at("deps/libserde-00.rlib").exists());
    }

    /// Guards the bound of the cache: the oldest go, and neither the current directory nor one in use.
    #[test]
    fn pruning_keeps_the_newest_and_those_in_use() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let mut locks = Vec::new();
        for age in 0..6_u64 {
            let folder = base.path().join(format!("key{age}"));
            let lock = take(&folder, &own()).expect("taken");
            lock.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 - age)).expect("aged");
            locks.push(lock);
        }
        let oldest = locks.pop().expect("six were made");
        locks.clear();
        prune(base.path(), &base.path().join("key0"));
        let mut left: Vec<String> = fs::read_dir(base.path())
            .expect("listed")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
            .collect();
        left.sort();
        assert_eq!(left, ["key0", "key1", "key2", "key5"]);
        assert_eq!(left.len(), KEPT + 1, "one more than kept, since key5 is in use");
        drop(oldest);
        prune(base.path(), &base.path().join("key0"));
        assert!(!base.path().join("key5").join(LOCK).exists());
    }
}
