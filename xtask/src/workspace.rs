//! The workspace as `cargo metadata` tells it, cut down to what the checks look at.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use semver::Version;
use serde::Deserialize;

use crate::cargo::Cargo;

/// When a dependency is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
}

/// One line of a member's dependencies.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
}

/// A crate of this workspace.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its folder, relative to the root, with `/` between the parts.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A package of the resolved graph: ours or from a registry.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: Version,
    /// The SPDX expression, if the package gives one.
    pub(crate) licence: Option<String>,
    /// Where it comes from; `None` for a path.
    pub(crate) source: Option<String>,
    /// Whether its manifest lies in this repository.
    pub(crate) inside: bool,
}

/// The members, as their manifests say, without looking at anything that is not in the repository.
///
/// # Errors
/// When cargo cannot read the workspace.
pub(crate) fn members(cargo: &Cargo) -> Result<Vec<Member>> {
    let metadata = Metadata::read(cargo, &["metadata", "--no-deps", "--format-version", "1"])?;
    metadata.packages.into_iter().map(|package| package.into_member(&cargo.root)).collect()
}

/// All packages of the lock file, for every platform and feature.
///
/// # Errors
/// When cargo cannot read the workspace, or the lock file is out of date.
pub(crate) fn packages(cargo: &Cargo) -> Result<Vec<Package>> {
    let metadata = Metadata::read(cargo, &["metadata", "--all-features", "--locked", "--format-version", "1"])?;
    metadata.packages.into_iter().map(|package| package.into_package(&cargo.root)).collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
}

impl Metadata {
    fn read(cargo: &Cargo, arguments: &[&str]) -> Result<Self> {
        serde_json::from_slice(&cargo.ask(arguments)?).context("cargo metadata is not in the shape that was expected")
    }
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    version: Version,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    kind: Option<String>,
    optional: bool,
}

impl RawPackage {
    fn into_member(self, root: &Path) -> Result<Member> {
        let folder = self
            .manifest_path
            .parent()
            .and_then(|folder| folder.strip_prefix(root).ok())
            .with_context(|| format!("the member {} lies outside the repository", self.name))?;
        let parts: Vec<_> = folder.iter().map(|part| part.to_string_lossy()).collect();
        let mut dependencies = Vec::new();
        for dependency in self.dependencies {
            let kind = match dependency.kind.as_deref() {
                None => Kind::Normal,
                Some("dev") => Kind::Dev,
                Some("build") => Kind::Build,
                Some(other) => anyhow::bail!("cargo names a kind of dependency that is not known here: {other}"),
            };
            dependencies.push(Dependency { name: dependency.name, kind, optional: dependency.optional });
        }
        Ok(Member { name: self.name, folder: parts.join("/"), dependencies })
    }

    fn into_package(self, root: &Path) -> Result<Package> {
        Ok(Package {
            name: self.name,
            version: self.version,
            licence: self.license,
            source: self.source,
            inside: self.manifest_path.starts_with(root),
        })
    }
}
