//! What the admin service knows of methods: it checks the arguments of the shipped ones before they are stored, and
//! decides who may store commands.

use crate::services::{CommandService, HttpService};
use punctual::Status;
use punctual::engine::{Durable, service_of};
use punctual_admin::{command, http};
use serde_json::{Map, Value};

/// What becomes of commands that somebody wants to store.
#[derive(Debug, Clone)]
pub(crate) enum Commands {
    /// This process runs them, for peers that may ask for it.
    Run(CommandService),
    /// This process is a daemon that runs none, and so takes none: they would wait for ever.
    Refused,
    /// This process only stores; they wait for a worker that runs them.
    Stored,
}

/// What the service knows of methods.
#[derive(Debug, Clone)]
pub(crate) struct Catalog {
    http: Option<HttpService>,
    commands: Commands,
}

impl Catalog {
    /// Of a process that runs `http` if there is one, and treats commands so.
    pub(crate) fn new(http: Option<HttpService>, commands: Commands) -> Self {
        Catalog { http, commands }
    }

    /// What becomes of commands.
    pub(super) fn commands(&self) -> &Commands {
        &self.commands
    }

    /// The methods whose tasks this process runs.
    pub(super) fn runs(&self) -> Vec<String> {
        let http = self.http.is_some().then_some(http::Request::METHOD);
        let command = matches!(self.commands, Commands::Run(_)).then_some(command::Run::METHOD);
        http.into_iter().chain(command).map(str::to_owned).collect()
    }

    /// The queue of a method's tasks, unless they say another.
    pub(super) fn queue(&self, method: &str) -> String {
        let shipped = match method {
            http::Request::METHOD => http::Request::POLICY.queue,
            command::Run::METHOD => command::Run::POLICY.queue,
            _ => None,
        };
        shipped.unwrap_or_else(|| service_of(method)).to_owned()
    }

    /// Whether a task of `method` with these arguments may be stored by whoever asks now.
    ///
    /// # Errors
    /// `invalid_argument` names what is wrong with the arguments; `failed_precondition` and `permission_denied` say why
    /// commands are not taken.
    pub(super) fn admit(&self, method: &str, args: &[u8]) -> Result<(), Status> {
        match method {
            http::Request::METHOD => {
                let request: http::Request = typed(args)?;
                HttpService::check(&request)
                    .and_then(|url| self.http.as_ref().map_or(Ok(()), |http| http.permit(&url)))
                    .map_err(Status::invalid_argument)
            }
            command::Run::METHOD => {
                self.admit_commands()?;
                let call: command::Run = typed(args)?;
                CommandService::check(&call).map_err(Status::invalid_argument)?;
                match (&self.commands, &call.user) {
                    (Commands::Run(service), Some(user)) => {
                        service.can_become(user).map(drop).map_err(Status::failed_precondition)
                    }
                    _ => Ok(()),
                }
            }
            other if matches!(service_of(other), "Http" | "Command" | "Admin") => {
                Err(Status::invalid_argument(format!(
                    "{other} is no durable method; the shipped ones are {} and {}",
                    http::Request::METHOD,
                    command::Run::METHOD
                )))
            }
            // Another program's method: its worker knows its arguments, and here they only have to be named.
            _ => object(args).map(drop),
        }
    }

    /// Whether whoever asks now may store commands at all.
    ///
    /// # Errors
    /// As [`Catalog::admit`].
    pub(super) fn admit_commands(&self) -> Result<(), Status> {
        match &self.commands {
            Commands::Run(_) => CommandService::admit_peer(),
            Commands::Stored => Ok(()),
            Commands::Refused => Err(Status::failed_precondition(
                "this daemon runs no commands, so they would wait for ever; start it with --allow-commands, or store them with \
                 --db for another worker",
            )),
        }
    }
}

fn object(args: &[u8]) -> Result<Map<String, Value>, Status> {
    serde_json::from_slice(args).map_err(|error| {
        Status::invalid_argument(format!("args: not a JSON object ({error}); name them, such as {{\"order\": 42}}"))
    })
}

/// Arguments as their type, without any that it does not have: a misspelt one would go unnoticed until the task runs.
fn typed<C: Durable>(args: &[u8]) -> Result<C, Status> {
    let given = object(args)?;
    let wrong = |error: &dyn std::fmt::Display| Status::invalid_argument(format!("args of {}: {error}", C::METHOD));
    let call: C = serde_json::from_slice(args).map_err(|error| wrong(&error))?;
    // A message leaves no field out, so its JSON form names all that there are.
    let known = match serde_json::to_value(&call).map_err(|error| wrong(&error))? {
        Value::Object(known) => known,
        _ => Map::new(),
    };
    match given.keys().find(|name| !known.contains_key(*name)) {
        None => Ok(call),
        Some(unknown) => {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            Err(wrong(&format!("there is no `{}`; it has {}", crate::text::shown(unknown), names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::Code;

    fn admit(commands: Commands, method: &str, args: &str) -> Result<(), Status> {
        Catalog::new(None, commands).admit(method, args.as_bytes())
    }

    /// What cannot run is refused before it is stored, by the name of what is wrong.
    #[test]
    fn shipped_methods_have_checked_arguments() {
        let http = |args: &str| admit(Commands::Stored, "Http/request", args);
        assert_eq!(http("{\"url\":\"https://example.org/\",\"headers\":{\"a\":\"b\"}}"), Ok(()));
        for (args, word) in [
            ("{}", "url"),
            ("[]", "object"),
            ("{\"url\":\"https://example.org/\",\"header\":{}}", "no `header`"),
            ("{\"url\":1}", "string"),
            ("{\"url\":\"ftp://example.org/\"}", "http"),
            ("{\"url\":\"https://example.org/\",\"method\":\"G T\"}", "method"),
        ] {
            let status = http(args).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{args}");
            assert!(status.message().contains(word), "{args}: {status}");
        }
        assert!(admit(Commands::Stored, "Http/get", "{}").is_err());
        assert_eq!(admit(Commands::Stored, "Billing/charge", "{\"anything\":[1]}"), Ok(()));
        assert!(admit(Commands::Stored, "Billing/charge", "[1]").is_err());
    }

    /// A daemon that runs no commands takes none; a process that only stores leaves that to the worker.
    #[test]
    fn commands_are_taken_where_they_can_run() {
        let args = "{\"program\":\"true\"}";
        assert_eq!(admit(Commands::Refused, "Command/run", args).unwrap_err().code(), Code::FailedPrecondition);
        assert_eq!(admit(Commands::Stored, "Command/run", args), Ok(()));
        assert!(admit(Commands::Stored, "Command/run", "{\"program\":\"\"}").is_err());
    }
}
