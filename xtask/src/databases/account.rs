//! The account that the servers run as. PostgreSQL refuses to run as root, so root lends them an account without rights.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Accounts that root tries, in this order: the one that PostgreSQL's own package makes, and one that is always there.
#[cfg(unix)]
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// A user and its group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    user: u32,
    group: u32,
}

/// Who is to run the servers; `None` for whoever runs us.
///
/// # Errors
/// When we are root and there is no account to lend.
#[cfg(unix)]
pub(super) fn for_servers() -> Result<Option<Account>> {
    if !crate::toolchain::is_root() {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").context("/etc/passwd cannot be read")?;
    let found = ACCOUNTS.iter().find_map(|name| account_in(&passwd, name));
    found.map(Some).context("database servers do not run as root, and there is no user `postgres` or `nobody` here")
}

/// Who is to run the servers: whoever runs us.
#[cfg(not(unix))]
pub(super) fn for_servers() -> Result<Option<Account>> {
    Ok(None)
}

#[cfg(unix)]
fn account_in(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1);
    Some(Account { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// Gives a file or folder to the account.
///
/// # Errors
/// When its owner cannot be changed.
pub(super) fn give(path: &Path, account: Option<Account>) -> Result<()> {
    #[cfg(unix)]
    if let Some(account) = account {
        std::os::unix::fs::chown(path, Some(account.user), Some(account.group))
            .with_context(|| format!("{} cannot be given to the servers' account", path.display()))?;
    }
    let _ = (path, account);
    Ok(())
}

/// Makes a command run as the account, in a group of its own: Ctrl-C at a terminal goes to the group in front, and the
/// servers are to outlast the tests that it ends.
pub(super) fn run_as(command: &mut Command, account: Option<Account>) {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
        if let Some(account) = account {
            // Supplementary groups go with the change of user.
            command.gid(account.group).uid(account.user);
        }
    }
    let _ = (command, account);
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Account, account_in};

    /// Guards that an account is found by its whole name, and that a torn line is none.
    #[test]
    fn accounts_are_found_by_name() {
        let passwd = "root:x:0:0::/:/bin/sh\npostgresql:x:7:7::/:/x\npostgres:x:101:104:P:/var:/bin/sh\nnobody:x\n";
        assert_eq!(account_in(passwd, "postgres"), Some(Account { user: 101, group: 104 }));
        assert_eq!(account_in(passwd, "nobody"), None);
        assert_eq!(account_in(passwd, "mysql"), None);
    }
}
