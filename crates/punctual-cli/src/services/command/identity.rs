//! The user that a program runs as.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The program that changes users: it is part of every Linux's base (util-linux), sets the user's groups, and becomes the
/// program instead of waiting for it.
const SWITCH: [&str; 2] = ["/usr/bin/setpriv", "/bin/setpriv"];

/// The longest name of a user.
const NAME_BYTES_MAX: usize = 64;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user's entry, where it is not this process' own user that runs it anyway.
    other: Option<Entry>,
}

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
    shell: String,
}

/// Refuses what cannot be a user's name, and would mean something else to the programs that it is given to.
///
/// # Errors
/// Says that it is none.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-$".contains(&byte);
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && name.len() <= NAME_BYTES_MAX && name.bytes().all(fine) {
        return Ok(());
    }
    Err(format!("user: `{}` is not a user's name", crate::text::shown(name)))
}

impl Identity {
    /// This process' own.
    pub(super) fn own() -> Self {
        Identity { other: None }
    }

    /// The user of this name, if this process can run programs as that user.
    ///
    /// # Errors
    /// Where there is no such user, or this process is neither that user's nor root's.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        check_name(name)?;
        let entry = entry(name)
            .ok_or_else(|| format!("there is no user {name} on this machine; create it, or name another"))?;
        let own = rustix::process::geteuid();
        if entry.uid != own.as_raw() && !own.is_root() {
            return Err(format!(
                "it is to run as {name}, but this worker is not root's (its user id is {}) and cannot change users; start it as \
                 root, or as {name}",
                own.as_raw()
            ));
        }
        Ok(Identity { other: Some(entry) })
    }

    /// The variables that say who the user is.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let Some(entry) = &self.other else { return BTreeMap::new() };
        [("HOME", &entry.home), ("USER", &entry.name), ("LOGNAME", &entry.name), ("SHELL", &entry.shell)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .into()
    }

    /// The words before a program that make it run as the user; none for this process' own.
    ///
    /// # Errors
    /// Where this machine lacks what changes users.
    pub(super) fn switch(&self) -> Result<Vec<String>, String> {
        let Some(entry) = &self.other else { return Ok(Vec::new()) };
        if entry.uid == rustix::process::geteuid().as_raw() {
            return Ok(Vec::new());
        }
        let program = SWITCH.into_iter().find(|path| Path::new(path).is_file()).ok_or_else(|| {
            format!(
                "cannot run it as {}: this machine has no setpriv, which is part of util-linux; install it",
                entry.name
            )
        })?;
        Ok([
            program.to_owned(),
            format!("--reuid={}", entry.name),
            format!("--regid={}", entry.gid),
            "--init-groups".to_owned(),
            "--".to_owned(),
        ]
        .into())
    }
}

/// The user's entry, from the file where local users are, else from whatever directory the machine is set up to ask.
fn entry(name: &str) -> Option<Entry> {
    let local = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    parse(&local, name).or_else(|| {
        let asked = Command::new("getent").args(["passwd", name]).output().ok()?;
        parse(&String::from_utf8_lossy(&asked.stdout), name)
    })
}

/// `name:password:uid:gid:comment:home:shell`.
fn parse(text: &str, name: &str) -> Option<Entry> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let (home, shell) = (fields.nth(1)?.to_owned(), fields.next()?.trim());
        let shell = if shell.is_empty() { "/bin/sh" } else { shell }.to_owned();
        Some(Entry { name: name.to_owned(), uid, gid, home, shell })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken:x\nbackup:x:34:35:backup,,,:/var/backups:\n";

    /// An entry is read by its whole name, and a line that is none is passed over.
    #[test]
    fn entries_are_read() {
        let backup = parse(PASSWD, "backup").unwrap();
        assert_eq!(
            (backup.uid, backup.gid, backup.home.as_str(), backup.shell.as_str()),
            (34, 35, "/var/backups", "/bin/sh")
        );
        assert_eq!(parse(PASSWD, "root").unwrap().uid, 0);
        for none in ["back", "broken", "x"] {
            assert_eq!(parse(PASSWD, none), None, "{none}");
        }
    }

    /// What is given to other programs as a user is a name and no option of theirs.
    #[test]
    fn names_are_names() {
        for name in ["root", "www-data", "_apt", "a.b@realm"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "-x", "a b", "a:b", "a/b", "a\n", "--help"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(Identity::find("no-such-user-here").unwrap_err().contains("no user"));
    }

    /// This process' own user needs no change, named or not.
    #[test]
    fn the_own_user_is_not_changed() {
        assert_eq!(Identity::own().switch(), Ok(Vec::new()));
        assert!(Identity::own().environment().is_empty());
    }
}
