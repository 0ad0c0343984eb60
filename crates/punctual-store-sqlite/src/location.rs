//! Where a database is: what a user writes, and the checks that give a clear answer before SQLite gives a vague one.

use punctual_task::{StoreError, StoreErrorKind};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In this process only, gone with it.
    Memory,
    /// A file, with `-wal` and `-shm` beside it.
    File(PathBuf),
}

impl Location {
    /// Reads `sqlite://relative/path.db`, `sqlite:///absolute/path.db`, `sqlite::memory:` or a plain path.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] for another scheme, an empty path, a NUL byte, or options after a `?`.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if text == "sqlite::memory:" || text == ":memory:" {
            return Ok(Location::Memory);
        }
        let path = match text.split_once("://") {
            Some(("sqlite", path)) => {
                if path.contains('?') {
                    return Err(StoreError::refused(format!(
                        "{text:?} has options after a `?`, which this store does not take; \
                         write sqlite://path/to/file.db and set the rest in the configuration"
                    )));
                }
                path
            }
            Some((scheme, _)) => {
                return Err(StoreError::refused(format!(
                    "{scheme}:// is not SQLite; write sqlite://path/to/file.db, sqlite::memory: or a path"
                )));
            }
            None => text,
        };
        if path.is_empty() {
            return Err(StoreError::refused(format!("{text:?} names no file; write sqlite://path/to/file.db")));
        }
        if path.contains('\0') {
            return Err(StoreError::refused(format!("the path {path:?} has a NUL byte")));
        }
        Ok(Location::File(PathBuf::from(path)))
    }

    /// Says what is wrong with the path before SQLite opens it: a missing directory, a directory in its place, no
    /// permission. A file that is not there is fine; whether one is a database is for SQLite to say.
    ///
    /// The file is looked at and never opened: closing any descriptor of a file drops all POSIX locks that the process
    /// holds on it, those of SQLite's own connections among them, and another process could then delete the log.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Location::File(path) = self else { return Ok(()) };
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(StoreError::refused(format!(
                "{self} is a directory; name a file in it, such as {}",
                path.join("punctual.db").display()
            ))),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => check_parent(path, self),
            Err(error) => Err(cannot_open(self, &error)),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Memory => f.write_str("sqlite::memory:"),
            Location::File(path) => write!(f, "{}", path.display()),
        }
    }
}

fn check_parent(path: &Path, location: &Location) -> Result<(), StoreError> {
    let parent = match path.parent() {
        None => return Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => return Ok(()),
        Some(parent) => parent,
    };
    match std::fs::metadata(parent) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::refused(format!(
            "cannot create {location}: {} is a file, not a directory",
            parent.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::not_found(format!(
            "cannot create {location}: the directory {} does not exist; create it first",
            parent.display()
        ))),
        Err(error) => Err(cannot_open(location, &error)),
    }
}

fn cannot_open(location: &Location, error: &std::io::Error) -> StoreError {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "give this process the right to read and write the file and its directory",
        _ => "check the path and the file system",
    };
    StoreError::new(StoreErrorKind::Unavailable, format!("cannot open {location}: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each written form names the place that it says, and no other scheme is taken for a file name.
    #[test]
    fn forms() {
        let file = |path: &str| Ok(Location::File(PathBuf::from(path)));
        assert_eq!(Location::parse("sqlite://relative/path.db"), file("relative/path.db"));
        assert_eq!(Location::parse("sqlite:///absolute/path.db"), file("/absolute/path.db"));
        assert_eq!(Location::parse("a b?.db"), file("a b?.db"));
        assert_eq!(Location::parse("sqlite::memory:"), Ok(Location::Memory));
        for bad in ["postgres://host/db", "sqlite://", "", "sqlite://a.db?mode=ro", "a\0b"] {
            let refused = Location::parse(bad).expect_err(bad);
            assert_eq!(refused.kind(), StoreErrorKind::Refused, "{bad}");
        }
    }
}
