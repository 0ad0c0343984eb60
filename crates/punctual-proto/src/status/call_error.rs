//! What a call fails with: the application's own error, or a status.

use crate::status::Status;
use std::error::Error;
use std::fmt;

/// The error of a call to a method that declares the error `E`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError<E> {
    /// The handler returned this; it crossed the wire typed.
    App(E),
    /// Anything else.
    Status(Status),
}

impl<E> CallError<E> {
    /// The status, where it was one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            CallError::App(_) => None,
            CallError::Status(status) => Some(status),
        }
    }

    /// The application's error, where it was one.
    pub fn app(self) -> Option<E> {
        match self {
            CallError::App(error) => Some(error),
            CallError::Status(_) => None,
        }
    }

    /// The same with the application's error mapped.
    pub fn map_app<F>(self, map: impl FnOnce(E) -> F) -> CallError<F> {
        match self {
            CallError::App(error) => CallError::App(map(error)),
            CallError::Status(status) => CallError::Status(status),
        }
    }

    /// Whether the same call may succeed if it is sent again; an application's error never counts.
    pub fn is_retryable(&self) -> bool {
        self.status().is_some_and(Status::is_retryable)
    }
}

impl<E> From<Status> for CallError<E> {
    fn from(status: Status) -> Self {
        CallError::Status(status)
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::App(error) => error.fmt(f),
            CallError::Status(status) => status.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for CallError<E> {}
