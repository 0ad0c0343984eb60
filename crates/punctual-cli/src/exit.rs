//! How a command ends: exit codes that scripts can use, and the one line that says what went wrong.

use punctual::engine::{Error as EngineError, ErrorKind};
use punctual::task::{StoreError, StoreErrorKind};
use punctual::{Code, Status};
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

/// What a script is told. The numbers are part of the command line's promise; the help of `punctual` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was understood, and failed or was refused: the state does not allow it, or the called method returned an error.
    Failed = 1,
    /// The command line, a configuration file or an argument is wrong.
    Usage = 2,
    /// What was named is not there.
    NotFound = 3,
    /// Nobody answers, or the database is away, busy or full: the same command may succeed later.
    Unavailable = 4,
    /// The time was up. The work may have been done all the same.
    TimedOut = 5,
    /// The other side, or the database, is of a version or kind that this build does not read.
    Incompatible = 6,
}

/// The help's list of [`Exit`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed or refused: the state does not allow it, or the called method returned an error
  2  usage: the command line, a configuration file or an argument is wrong
  3  not found: no such task, schedule, service or database
  4  unavailable: nobody answers, or the database is away, busy or full; trying again later may help
  5  timed out: the work may have been done all the same
  6  incompatible: protocol, contract or database are of a version or kind that this build does not read";

/// Why a command did not do what it was asked. Shown as `error: MESSAGE`, or as JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    exit: Exit,
    code: &'static str,
    message: String,
    detail: Option<serde_json::Value>,
}

/// The JSON form of a failure.
#[derive(Serialize)]
struct Shown<'a> {
    error: ShownError<'a>,
}

#[derive(Serialize)]
struct ShownError<'a> {
    code: &'a str,
    message: &'a str,
    exit: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a serde_json::Value>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Failure { exit, code, message: message.into(), detail: None }
    }

    /// The command line, a file or an argument is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// It went wrong in a way that no other exit names.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, "failed", message)
    }

    /// With another exit, where the place knows better than the code.
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// With what the application said, for JSON.
    pub(crate) fn with_detail(mut self, detail: serde_json::Value) -> Self {
        self.detail = Some(detail);
        self
    }

    /// The same with another text, made from this one.
    pub(crate) fn map_message(mut self, map: impl FnOnce(String) -> String) -> Self {
        self.message = map(self.message);
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The word for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }

    /// The line for people.
    pub(crate) fn line(&self) -> String {
        // One line, whatever a server or a database put into its text.
        let message: Vec<&str> = self.message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        format!("error: {}", message.join(" "))
    }

    /// The line for programs.
    pub(crate) fn json(&self) -> String {
        let error =
            ShownError { code: self.code, message: &self.message, exit: self.exit as u8, detail: self.detail.as_ref() };
        serde_json::to_string(&Shown { error }).unwrap_or_else(|_| self.line())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let exit = match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Exit::Usage,
            Code::NotFound => Exit::NotFound,
            Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost | Code::ResourceExhausted => {
                Exit::Unavailable
            }
            Code::DeadlineExceeded => Exit::TimedOut,
            Code::Unimplemented | Code::ProtocolViolation | Code::DataLoss => Exit::Incompatible,
            _ => Exit::Failed,
        };
        // The code is told by the exit and in JSON; people need the sentence.
        let message = match status.message() {
            "" => format!("the call failed: {}", status.code()),
            message => message.to_owned(),
        };
        let message = match status.limit() {
            Some((name, value)) => format!("{message} (limit {name} = {value})"),
            None => message,
        };
        Failure::new(exit, status.code().name(), message)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (exit, code) = match error.kind() {
            StoreErrorKind::Unavailable => (Exit::Unavailable, "unavailable"),
            StoreErrorKind::Busy => (Exit::Unavailable, "busy"),
            StoreErrorKind::Full => (Exit::Unavailable, "full"),
            StoreErrorKind::Refused => (Exit::Failed, "refused"),
            StoreErrorKind::NotFound => (Exit::NotFound, "not_found"),
            StoreErrorKind::Conflict => (Exit::Failed, "conflict"),
            StoreErrorKind::Version => (Exit::Incompatible, "version"),
            StoreErrorKind::Corrupt => (Exit::Incompatible, "corrupt"),
            _ => (Exit::Failed, "failed"),
        };
        Failure::new(exit, code, error.to_string())
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let said = error.to_string();
        if let Some(store) = error.store_error() {
            let failure = Failure::from(store.clone());
            return failure.map_message(|told| if said == told { told } else { format!("{said}: {told}") });
        }
        let (exit, code) = match error.kind() {
            ErrorKind::Unavailable => (Exit::Unavailable, "unavailable"),
            ErrorKind::NotFound => (Exit::NotFound, "not_found"),
            ErrorKind::Payload | ErrorKind::Config => (Exit::Usage, "usage"),
            ErrorKind::Store => (Exit::Incompatible, "store"),
            _ => (Exit::Failed, "failed"),
        };
        Failure::new(exit, code, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script can tell a wrong argument, an absent name, an absent server and a slow one apart.
    #[test]
    fn statuses_have_their_exits() {
        let exit = |status: Status| Failure::from(status).exit();
        assert_eq!(exit(Status::invalid_argument("x")), Exit::Usage);
        assert_eq!(exit(Status::not_found("x")), Exit::NotFound);
        assert_eq!(exit(Status::unavailable("x")), Exit::Unavailable);
        assert_eq!(exit(Status::deadline_exceeded("x")), Exit::TimedOut);
        assert_eq!(exit(Status::unimplemented("x")), Exit::Incompatible);
        assert_eq!(exit(Status::failed_precondition("x")), Exit::Failed);
        for (exit, line) in [(Exit::Failed, "  1  failed"), (Exit::Incompatible, "  6  incompatible")] {
            assert!(EXIT_CODES.contains(line), "{exit:?}");
        }
    }

    /// What went wrong is one line, whatever text it came from, and the same in JSON.
    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::from(Status::not_found("no task X\n\n  try another\n"));
        assert_eq!(failure.line(), "error: no task X try another");
        let json: serde_json::Value = serde_json::from_str(&failure.json()).unwrap();
        assert_eq!(json["error"]["code"], "not_found");
        assert_eq!(json["error"]["exit"], 3);
        assert!(json["error"].get("detail").is_none());
        assert_eq!(Failure::from(Status::internal("")).line(), "error: the call failed: internal");
    }
}
