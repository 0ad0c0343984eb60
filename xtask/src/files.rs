//! The files of the repository that the checks read: all that is text and was not built.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::rust_source::RustSource;

/// Larger files are data, not something that a person wrote.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// What holds nothing of ours, wherever it is; `.git` is a file in a linked work tree. Build output is known by the tag that
/// cargo puts into it.
const FOREIGN: &[&str] = &[".git", "node_modules"];

/// The mark of a folder that can be made again.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// A text file.
#[derive(Debug)]
pub(crate) struct Text {
    /// Relative to the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A Rust file, taken apart.
#[derive(Debug)]
pub(crate) struct RustFile {
    /// Relative to the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) source: RustSource,
}

impl RustFile {
    /// Whether the whole file is only ever compiled for tests, benches or examples.
    pub(crate) fn is_for_tests(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
    }
}

/// Every text file, ordered by path.
///
/// # Errors
/// When a folder or file cannot be read.
pub(crate) fn texts(root: &Path) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    walk(root, "", &mut texts)?;
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
}

/// Every Rust file, ordered by path.
///
/// # Errors
/// When a folder or file cannot be read.
pub(crate) fn rust_sources(root: &Path) -> Result<Vec<RustFile>> {
    let rust = texts(root)?.into_iter().filter(|file| file.path.ends_with(".rs"));
    Ok(rust.map(|file| RustFile { source: RustSource::read(&file.text), path: file.path }).collect())
}

fn walk(folder: &Path, at: &str, texts: &mut Vec<Text>) -> Result<()> {
    if folder.join(CACHE_TAG).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be listed", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !FOREIGN.contains(name)) else { continue };
        let path = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &path, texts)?;
        } else if kind.is_file() && entry.metadata()?.len() <= TEXT_BYTES_MAX {
            let bytes = fs::read(entry.path()).with_context(|| format!("{path} cannot be read"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push(Text { path, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CACHE_TAG, texts};

    /// Guards that the checks read what people wrote and nothing that was built, wherever the target directory lies.
    #[test]
    fn build_output_is_passed_over() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["src", "out/debug", ".git"] {
            fs::create_dir_all(root.path().join(folder)).expect("made");
        }
        fs::write(root.path().join("src/lib.rs"), "//! Text.\n").expect("written");
        fs::write(root.path().join("src/blob"), [0xff, 0xfe]).expect("written");
        fs::write(root.path().join("out").join(CACHE_TAG), "").expect("written");
        fs::write(root.path().join("out/debug/made.rs"), "").expect("written");
        fs::write(root.path().join(".git/config"), "").expect("written");
        let found: Vec<String> = texts(root.path()).expect("read").into_iter().map(|text| text.path).collect();
        assert_eq!(found, ["src/lib.rs"]);
    }
}
