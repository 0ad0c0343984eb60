//! Where the demo keeps its files, and that they go when it ends.

use crate::exit::Failure;
use std::path::{Path, PathBuf};

/// A folder of the demo's own.
#[derive(Debug)]
pub(crate) struct Paths {
    folder: PathBuf,
    /// Removes the folder when the demo ends, unless it is to be kept or was named by the user.
    _owned: Option<tempfile::TempDir>,
}

impl Paths {
    pub(crate) fn new(folder: Option<PathBuf>, keep: bool) -> Result<Self, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(&folder)
                .map_err(|error| Failure::failed(format!("cannot create the folder {}: {error}", folder.display())))?;
            let paths = Paths { folder, _owned: None };
            if paths.database().exists() || paths.ledger().exists() {
                let place = paths.folder.display();
                return Err(Failure::usage(format!("{place} already holds a demo; name another folder or remove it")));
            }
            return Ok(paths);
        }
        let owned = tempfile::Builder::new().prefix("punctual-demo-").tempdir();
        let mut owned = owned.map_err(|error| Failure::failed(format!("cannot create a temporary folder: {error}")))?;
        if keep {
            owned.disable_cleanup(true);
        }
        Ok(Paths { folder: owned.path().to_owned(), _owned: Some(owned) })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join("demo.db")
    }

    /// The database as the stores name it.
    pub(crate) fn database_url(&self) -> Result<String, Failure> {
        let path = std::path::absolute(self.database())
            .map_err(|error| Failure::failed(format!("cannot tell the current folder: {error}")))?;
        Ok(format!("sqlite://{}", text(&path)?))
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// The server's socket as an address.
    pub(crate) fn socket_address(&self) -> Result<String, Failure> {
        Ok(format!("unix:{}", text(&self.folder.join("demo.sock"))?))
    }
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str()
        .ok_or_else(|| Failure::usage(format!("the path {} is not UTF-8; choose one with --folder", path.display())))
}
