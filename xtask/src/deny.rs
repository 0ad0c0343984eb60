//! The policy of `deny.toml` held against the resolved packages: licences, version floors, bans, sources.
//!
//! The file is cargo-deny's, and `cargo deny check` reads the same one. This check needs nothing installed and no network,
//! so it is the one that CI runs; advisories, which need a fresh database, are left to cargo-deny.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use semver::{Prerelease, Version, VersionReq};
use serde::Deserialize;

use crate::licence;
use crate::workspace::Package;

/// What `deny.toml` says, as far as it is checked here.
#[derive(Debug, Deserialize)]
pub(crate) struct Policy {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// A licence that is right for one crate only.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    spec: Spec,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    spec: Spec,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Sources {
    #[serde(rename = "allow-registry")]
    allow_registry: Vec<String>,
}

/// `name`, `name:requirement`, or `name@version` for exactly that one: cargo-deny's own forms.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Spec {
    name: String,
    versions: Option<VersionReq>,
}

impl TryFrom<String> for Spec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let spec = |name: &str, versions: Result<VersionReq, semver::Error>| match versions {
            Ok(versions) => Ok(Self { name: name.to_owned(), versions: Some(versions) }),
            Err(error) => Err(format!("\"{text}\" asks for no version: {error}")),
        };
        if let Some((name, version)) = text.split_once('@') {
            // An operator behind the sign is refused here: cargo-deny would pass over it, and a floor would bind nothing.
            return spec(name, version.parse::<Version>().and_then(|version| format!("={version}").parse()));
        }
        if let Some((name, requirement)) = text.split_once(':') {
            return spec(name, requirement.parse());
        }
        Ok(Self { name: text, versions: None })
    }
}

impl Spec {
    fn matches(&self, package: &Package) -> bool {
        // A requirement passes over pre-releases; one below a floor must not get by for that.
        let version = Version { pre: Prerelease::EMPTY, ..package.version.clone() };
        self.name == package.name && self.versions.as_ref().is_none_or(|versions| versions.matches(&version))
    }
}

impl Policy {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or lacks what is checked here.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not in order", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// What in the packages is against the policy, a line each.
    pub(crate) fn findings(&self, packages: &[Package]) -> Vec<String> {
        let mut found = Vec::new();
        for package in packages {
            found.extend(self.licence_objection(package));
            found.extend(self.source_objection(package));
            for ban in self.bans.deny.iter().filter(|ban| ban.spec.matches(package)) {
                let versions = match &ban.spec.versions {
                    Some(versions) => format!("refused at {versions}"),
                    None => "refused".to_owned(),
                };
                found.push(format!("{} {} is {versions}: {}", package.name, package.version, ban.reason));
            }
        }
        found
    }

    fn licence_objection(&self, package: &Package) -> Option<String> {
        let Package { name, version, .. } = package;
        let Some(expression) = &package.licence else {
            return Some(format!("{name} {version} names no licence"));
        };
        let exceptions = self.licenses.exceptions.iter().filter(|exception| exception.spec.matches(package));
        let extra: Vec<&String> = exceptions.flat_map(|exception| &exception.allow).collect();
        let allowed = |id: &str| self.licenses.allow.iter().chain(extra.iter().copied()).any(|allow| allow == id);
        match licence::is_fulfilled(expression, &allowed) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name} {version} is under {expression}, which deny.toml does not allow")),
            Err(why) => Some(format!("{name} {version} has a licence that cannot be read ({expression}): {why}")),
        }
    }

    fn source_objection(&self, package: &Package) -> Option<String> {
        let Package { name, version, .. } = package;
        match &package.source {
            None if package.inside => None,
            None => Some(format!("{name} {version} comes from a path outside the repository")),
            Some(source) => {
                let registry = source.strip_prefix("registry+");
                let known =
                    registry.is_some_and(|registry| self.sources.allow_registry.iter().any(|allow| allow == registry));
                (!known).then(|| format!("{name} {version} comes from {source}, which deny.toml does not allow"))
            }
        }
    }
}

/// Packages that are there in several versions. Told, not refused: most are beyond our reach.
pub(crate) fn duplicates(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&Version>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, mut versions)| {
            versions.sort();
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            format!("{name} is there {} times: {}", versions.len(), versions.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Policy, duplicates};
    use crate::cargo::Cargo;
    use crate::workspace::Package;

    const POLICY: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "roots", allow = ["CDLA-Permissive-2.0"] }]
        [bans]
        deny = [
            { crate = "rustls:<0.23.45", reason = "floor" },
            { crate = "embed@8.14.0", reason = "does not resolve" },
            { crate = "bincode", reason = "dead" },
        ]
        [sources]
        allow-registry = ["https://registry.example/index"]
    "#;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.parse().expect("a version"),
            licence: Some("MIT OR Apache-2.0".to_owned()),
            source: Some("registry+https://registry.example/index".to_owned()),
            inside: false,
        }
    }

    fn check(package: Package, expected: Option<&str>) {
        let policy = Policy::parse(POLICY).expect("a good policy");
        let found = policy.findings(&[package]);
        match expected {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(expected) => assert!(found.len() == 1 && found[0].contains(expected), "{found:?} lacks {expected}"),
        }
    }

    /// Guards that a version below its floor fails, at the edge and for a pre-release, and one at it does not.
    #[test]
    fn a_version_below_its_floor_is_refused() {
        check(package("rustls", "0.23.44"), Some("rustls 0.23.44 is refused at <0.23.45: floor"));
        check(package("rustls", "0.23.44-rc.1"), Some("floor"));
        check(package("rustls", "0.23.45"), None);
        check(package("rustls", "1.0.0"), None);
        check(package("embed", "8.14.0"), Some("does not resolve"));
        check(package("embed", "8.13.0"), None);
        check(package("bincode", "2.0.1"), Some("bincode 2.0.1 is refused: dead"));
    }

    /// Guards that a licence outside the list fails, and that an exception holds for its crate alone.
    #[test]
    fn a_licence_outside_the_list_is_refused() {
        let under = |name: &str, licence: Option<&str>| Package {
            licence: licence.map(str::to_owned),
            ..package(name, "1.0.0")
        };
        check(under("a", Some("GPL-3.0-only")), Some("a 1.0.0 is under GPL-3.0-only"));
        check(under("a", Some("MIT OR GPL-3.0-only")), None);
        check(under("a", None), Some("names no licence"));
        check(under("a", Some("MIT OR")), Some("cannot be read"));
        check(under("roots", Some("CDLA-Permissive-2.0")), None);
        check(under("a", Some("CDLA-Permissive-2.0")), Some("CDLA"));
    }

    /// Guards that all code comes from the registry or from this repository.
    #[test]
    fn other_sources_are_refused() {
        let from = |source: Option<&str>, inside| Package {
            source: source.map(str::to_owned),
            inside,
            ..package("a", "1.0.0")
        };
        check(from(Some("git+https://example.org/a"), false), Some("comes from git+https"));
        check(from(Some("registry+https://other.example/index"), false), Some("does not allow"));
        check(from(None, false), Some("outside the repository"));
        check(from(None, true), None);
    }

    /// Guards that a mistake in the file is told: a floor that cannot be read would refuse nothing.
    #[test]
    fn a_policy_that_cannot_be_read_is_refused() {
        assert!(Policy::parse(&POLICY.replace("rustls:<0.23.45", "rustls@<0.x.y")).is_err());
        assert!(Policy::parse(&POLICY.replace("[sources]", "[source]")).is_err());
    }

    /// Guards the repository's own file: that it is read, and that the bans and floors which security rests on are in it.
    #[test]
    fn the_policy_of_the_repository_bites() {
        let policy = Policy::read(&Cargo::for_reading().root.join("deny.toml")).expect("a good deny.toml");
        let crates_io = |name: &str, version: &str| Package {
            source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
            ..package(name, version)
        };
        for (name, version) in [
            ("rustls", "0.23.44"),
            ("rustls-webpki", "0.103.12"),
            ("aws-lc-sys", "0.38.9"),
            ("libsqlite3-sys", "0.36.0"),
            ("h2", "0.4.1"),
            ("bincode", "1.3.3"),
            ("cron", "0.17.0"),
            ("dashmap", "6.2.1"),
        ] {
            assert_eq!(policy.findings(&[crates_io(name, version)]).len(), 1, "{name} {version}");
        }
        assert_eq!(policy.findings(&[crates_io("rustls", "0.23.45")]), Vec::<String>::new());
        let copyleft = Package { licence: Some("GPL-3.0-only".to_owned()), ..crates_io("a", "1.0.0") };
        assert_eq!(policy.findings(&[copyleft]).len(), 1);
    }

    /// Guards that duplicates are told with their versions in order.
    #[test]
    fn duplicates_are_told() {
        let packages = [package("a", "0.10.0"), package("b", "1.0.0"), package("a", "0.9.0")];
        assert_eq!(duplicates(&packages), ["a is there 2 times: 0.9.0, 0.10.0"]);
    }
}
