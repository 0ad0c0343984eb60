//! Who may do what: three roles, each with all that the one before it may.

use std::fmt;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    /// Look at everything.
    View,
    /// Steer what is there: cancel, retry, pause, resume, trigger, backfill.
    Operate,
    /// Bring in new work and change definitions; call any service.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub(crate) const ALL: [Role; 3] = [Role::View, Role::Operate, Role::Admin];

    /// Its word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }

    /// The role of this word.
    pub(crate) fn of(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
