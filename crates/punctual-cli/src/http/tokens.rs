//! Bearer tokens: a file of names, roles and hashes.
//!
//! ```text
//! # name role blake3-hash
//! grafana view 7d1f…
//! alice admin 03ac…
//! ```
//! The file holds no secret: a token is 256 bits of chance, and its hash does not lead back to it.

use super::role::Role;
use crate::text::shown;
use punctual::clock::{Entropy, SystemEntropy};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The most tokens: each request is compared with all of them.
const TOKENS_MAX: usize = 1_000;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;
/// The longest text that is taken for a token; ours have 73 bytes.
const TOKEN_BYTES_MAX: usize = 256;
/// What every token of ours begins with, so that scanners for secrets find one that got into a repository.
const PREFIX: &str = "punctual_";

/// Someone who showed a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    holder: Holder,
    hash: [u8; 32],
}

/// The tokens of a file, which can be read again.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    entries: RwLock<Arc<[Entry]>>,
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file, and the line that does not do.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        Ok(Tokens { path: path.to_owned(), entries: RwLock::new(read(path)?) })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// As [`Tokens::read`]; then nothing changes.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let entries = read(&self.path)?;
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    /// Whose token this is. It takes as long for a good one as for a bad one.
    pub(crate) fn holder(&self, token: &str) -> Option<Holder> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = *blake3::hash(token.as_bytes()).as_bytes();
        let entries = Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner));
        let mut found = u32::MAX;
        for (at, entry) in (0_u32..).zip(entries.iter()) {
            let same: Choice = entry.hash.ct_eq(&hash);
            found.conditional_assign(&at, same);
        }
        let found = usize::try_from(found).ok()?;
        entries.get(found).map(|entry| entry.holder.clone())
    }
}

fn read(path: &Path) -> Result<Arc<[Entry]>, String> {
    let shown = path.display();
    let cannot =
        |error: std::io::Error| format!("cannot read the tokens {shown}: {error}; check the path and its permissions");
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("the tokens {shown} have {bytes} bytes; the limit is {FILE_BYTES_MAX}"));
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    parse(&text).map_err(|problem| format!("the tokens {shown}, {problem}"))
}

fn parse(text: &str) -> Result<Arc<[Entry]>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = entry(line).map_err(|why| format!("line {number}: {why}"))?;
        if entries.iter().any(|known| known.holder.name == entry.holder.name) {
            return Err(format!(
                "line {number}: there is a token of {} already; give each its own name",
                entry.holder.name
            ));
        }
        entries.push(entry);
    }
    match entries.len() {
        0 => Err("which has none: add the line that `punctual token new NAME ROLE` prints".to_owned()),
        1..=TOKENS_MAX => Ok(entries.into()),
        count => Err(format!("which has {count}: the limit is {TOKENS_MAX}; remove those that nobody uses")),
    }
}

fn entry(line: &str) -> Result<Entry, String> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, role, hash] = parts.as_slice() else {
        return Err("write NAME ROLE HASH, as `punctual token new` prints it".to_owned());
    };
    check_name(name)?;
    // The hash of a token is no secret, but what stands in its place by mistake may be the token.
    let hash = blake3::Hash::from_hex(hash).map_err(|_| {
        "the third word is not a hash of 64 hexadecimal digits; `punctual token new` prints the whole line".to_owned()
    })?;
    Ok(Entry { holder: Holder { name: (*name).to_owned(), role: role_of(role)? }, hash: *hash.as_bytes() })
}

/// The role of this word.
///
/// # Errors
/// Names those that there are.
pub(crate) fn role_of(word: &str) -> Result<Role, String> {
    Role::of(word).ok_or_else(|| format!("`{}` is not a role; write view, operate or admin", shown(word)))
}

/// Refuses what cannot be the name of a token.
///
/// # Errors
/// Says what can.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(fine) {
        return Ok(());
    }
    Err(format!("`{}` is not a name: write 1 to {NAME_BYTES_MAX} letters, digits and _.@-", shown(name)))
}

/// A new token, and the line of the file that lets it in.
pub(crate) fn make(name: &str, role: Role) -> (String, String) {
    let mut token = PREFIX.to_owned();
    for _ in 0..4 {
        // Writing to a String cannot fail.
        let _ = write!(token, "{:016x}", SystemEntropy.next_u64());
    }
    let hash = blake3::hash(token.as_bytes()).to_hex();
    let line = format!("{name} {role} {hash}");
    (token, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Tokens {
        Tokens { path: PathBuf::new(), entries: RwLock::new(parse(text).unwrap()) }
    }

    /// A token lets in whom its line names, with that role; nothing else lets anyone in.
    #[test]
    fn tokens_name_their_holders() {
        let (alice, line) = make("alice", Role::Admin);
        let (grafana, other) = make("grafana", Role::View);
        let tokens = tokens(&format!("# who may\n\n{line}\n  {other}\n"));
        let holder = |token: &str| tokens.holder(token).map(|holder| (holder.name, holder.role));
        assert_eq!(holder(&alice), Some(("alice".to_owned(), Role::Admin)));
        assert_eq!(holder(&grafana), Some(("grafana".to_owned(), Role::View)));
        let hash = line.rsplit(' ').next().unwrap();
        for bad in ["", "alice", hash, &alice[..alice.len() - 1], &format!("{alice} "), &"x".repeat(300)] {
            assert_eq!(holder(bad), None, "{bad}");
        }
        assert_ne!(alice, make("alice", Role::Admin).0);
    }

    /// A line that does not do is told by its number, and without the word that may be a secret.
    #[test]
    fn bad_lines_are_named() {
        let hash = "0".repeat(64);
        for (text, words) in [
            (String::new(), "which has none"),
            ("# only this".to_owned(), "punctual token new"),
            (format!("a view {hash}\na view {hash}"), "line 2: there is a token of a already"),
            (format!("a owner {hash}"), "line 1: `owner` is not a role; write view, operate or admin"),
            (format!("a/b view {hash}"), "line 1: `a/b` is not a name"),
            ("a view punctual_geheim".to_owned(), "line 1: the third word is not a hash"),
            ("a view".to_owned(), "line 1: write NAME ROLE HASH"),
        ] {
            let told = parse(&text).unwrap_err();
            assert!(told.contains(words) && !told.contains("geheim"), "{text}: {told}");
        }
    }
}
