//! [`Command`]: programs, each in a process group of its own.
//!
//! ```text
//!  start ─▶ running ─┬ exits ─────────────────────────────────────────────────────────▶ result
//!                    └ cancelled, time up ─▶ group: TERM ─▶ grace ─▶ group: KILL ─▶ failure
//! ```
//! A handler that the engine drops before it is done kills its group at once. What a program that ends by itself leaves
//! running is left alone, as cron and shells do: crontabs start daemons that way.

mod capture;
mod group;
mod identity;

pub(crate) use identity::Identity;

use capture::Capture;
use group::Group;
use punctual::task::TaskId;
use punctual::task::schedule::utc_text;
use punctual::{CancelReason, Context, Status};
use punctual_admin::{Captured, Command, CommandError, Finished, command};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;

/// Variables of the worker that programs get; all others stay its own, since they may be secrets.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG"];

/// Where programs are looked for if the worker itself has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The shell of lines that name none.
const SHELL_DEFAULT: &str = "/bin/sh";

/// The most bytes of arguments and variables together: what every Linux takes.
const ARGUMENTS_BYTES_MAX: usize = 128 << 10;

/// How long outputs are read on after the program has ended: what it left running may hold them open for ever.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs programs.
#[derive(Debug, Clone)]
pub(crate) struct CommandService {
    cancel_grace: Duration,
    stop_grace: Duration,
}

impl CommandService {
    /// A service whose programs have half of the engine's graces between SIGTERM and SIGKILL, so that the other half is
    /// left to see them end.
    pub(crate) fn new(cancel_grace: Duration, stop_grace: Duration) -> Self {
        CommandService { cancel_grace: cancel_grace / 2, stop_grace: stop_grace / 2 }
    }

    /// Checks a call as far as that can be done without running it.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn check(call: &command::Run) -> Result<(), String> {
        if call.program.trim().is_empty() {
            return Err("program: it is empty; name a program, or a line with \"shell\": true".to_owned());
        }
        let variables = call.env.iter().flat_map(|(name, value)| [name, value]);
        let texts = || call.args.iter().chain(variables.clone()).chain([&call.program]).chain(&call.dir);
        if texts().any(|text| text.contains('\0')) {
            return Err("a NUL byte cannot be passed to a program; give it through stdin".to_owned());
        }
        let bytes: usize = texts().map(|text| text.len() + 1).sum();
        if bytes > ARGUMENTS_BYTES_MAX {
            return Err(format!(
                "arguments and variables have {bytes} bytes; the limit is {ARGUMENTS_BYTES_MAX}: give the rest through stdin"
            ));
        }
        if let Some(name) = call.env.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(format!("env: `{}` is not a variable's name", crate::text::shown(name)));
        }
        if let Some(dir) = call.dir.as_deref().filter(|dir| !dir.starts_with('/')) {
            return Err(format!("dir: `{}` is not an absolute path", crate::text::shown(dir)));
        }
        if let Some(user) = &call.user {
            identity::check_name(user)?;
        }
        Ok(())
    }

    /// Whether whoever calls now may run or store commands: tasks of this daemon may, and peers on its socket files, which
    /// only its user and root reach (shared memory: its user alone). A TCP port is open to every user of the machine, and so is an abstract socket.
    ///
    /// # Errors
    /// `permission_denied` says where to call instead.
    pub(crate) fn admit_peer() -> Result<(), Status> {
        let peer = Context::current().and_then(|context| context.peer().map(|peer| peer.address.clone()));
        let is_open = |address: &str| {
            let file = address.starts_with("shm:") || address.starts_with("unix:") && !address.starts_with("unix:@");
            !file && !address.starts_with("inproc:")
        };
        match peer {
            Some(address) if address == crate::http::DOOR => Err(Status::permission_denied(
                "commands are not taken over HTTP; use the daemon's Unix socket file (--addr unix:/PATH)",
            )),
            Some(address) if is_open(&address) => Err(Status::permission_denied(format!(
                "commands are not taken over {address}, which every user of the machine reaches; use the daemon's Unix \
                 socket file (--addr unix:/PATH)"
            ))),
            _ => Ok(()),
        }
    }

    /// The user, if programs of this worker can run as that user.
    ///
    /// # Errors
    /// Says why not, and what to do.
    pub(crate) fn can_become(&self, user: &str) -> Result<Identity, String> {
        Identity::find(user)
    }

    async fn execute(&self, call: command::Run) -> Result<Finished, CommandError> {
        let refused = |reason: String| CommandError::Refused { reason };
        Self::admit_peer().map_err(|status| refused(status.message().to_owned()))?;
        Self::check(&call).map_err(refused)?;
        let context = Context::current();
        let identity = match call.user.clone() {
            // Looking a user up may ask a directory service over the network.
            Some(user) => {
                let found = tokio::task::spawn_blocking(move || Identity::find(&user)).await;
                found.map_err(|error| CommandError::NotStarted { reason: error.to_string() })?.map_err(refused)?
            }
            None => Identity::own(),
        };
        let env = environment(&call, &identity, context.as_ref());
        let dir = directory(call.dir.as_deref(), &env).map_err(refused)?;
        let line = line(&call, &identity, &env).map_err(refused)?;
        let mut child = start(&line, &env, &dir, call.stdin.is_some()).map_err(|error| not_started(&call, &error))?;
        let mut group = Group::of(&child);
        let outputs = Outputs::read(&mut child);
        let fed = child.stdin.take().zip(call.stdin).map(|(pipe, text)| feed(pipe, text));
        let end = self.wait(&mut child, &mut group, context.as_ref()).await;
        if let Some(fed) = fed {
            fed.abort();
        }
        let (stdout, stderr) = outputs.finish().await;
        match end {
            Ok((status, None)) => told(status, stdout, stderr),
            Ok((status, Some(reason))) => {
                let signal = status.and_then(|status| status.signal()).unwrap_or(15);
                Err(CommandError::Killed { signal, reason: Some(reason.to_string()), stdout, stderr })
            }
            Err(error) => Err(CommandError::NotStarted { reason: format!("the program was lost: {error}") }),
        }
    }

    /// Waits for the program's end, and brings it about if the attempt is cancelled. Gives the reason if it was.
    async fn wait(
        &self,
        child: &mut Child,
        group: &mut Group,
        context: Option<&Context>,
    ) -> std::io::Result<(Option<ExitStatus>, Option<CancelReason>)> {
        let cancelled = async {
            match context {
                Some(context) => context.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let reason = tokio::select! {
            biased;
            status = child.wait() => {
                group.leave();
                return Ok((Some(status?), None));
            }
            reason = cancelled => reason,
        };
        let grace = if reason == CancelReason::User { self.cancel_grace } else { self.stop_grace };
        let status = group.end(child, grace).await?;
        Ok((status, Some(reason)))
    }
}

impl Command for CommandService {
    async fn run(
        &self,
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        dir: Option<String>,
        stdin: Option<String>,
        shell: bool,
        user: Option<String>,
    ) -> Result<Finished, CommandError> {
        self.execute(command::Run { program, args, env, dir, stdin, shell, user }).await
    }
}

/// What a program sees as its environment.
fn environment(call: &command::Run, identity: &Identity, context: Option<&Context>) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| INHERITED.contains(&name.as_str()) || name.starts_with("LC_"))
        .collect();
    env.entry("PATH".to_owned()).or_insert_with(|| PATH_DEFAULT.to_owned());
    env.extend(identity.environment());
    if let Some(task) = context.and_then(Context::task) {
        env.insert("PUNCTUAL_TASK".to_owned(), TaskId(task.id.cast_signed()).to_string());
        env.insert("PUNCTUAL_ATTEMPT".to_owned(), task.attempt.to_string());
        if let Some(slot) = &task.slot {
            env.insert("PUNCTUAL_SCHEDULE".to_owned(), slot.schedule.clone());
            env.insert("PUNCTUAL_SLOT".to_owned(), utc_text(slot.at));
            env.insert("PUNCTUAL_RUN".to_owned(), slot.run.to_string());
        }
    }
    env.extend(call.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    env
}

/// Where a program runs.
fn directory(asked: Option<&str>, env: &BTreeMap<String, String>) -> Result<String, String> {
    if let Some(dir) = asked {
        return if Path::new(dir).is_dir() {
            Ok(dir.to_owned())
        } else {
            Err(format!("dir: there is no directory {dir} on this worker; create it, or name another"))
        };
    }
    let home = env.get("HOME").filter(|home| Path::new(home).is_dir());
    Ok(home.cloned().unwrap_or_else(|| "/".to_owned()))
}

/// The words to execute.
fn line(call: &command::Run, identity: &Identity, env: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    let mut words = identity.switch()?;
    if call.shell {
        let shell = env_of_call(call, "SHELL").unwrap_or(SHELL_DEFAULT).to_owned();
        words.extend([shell.clone(), "-c".to_owned(), call.program.clone(), shell]);
    } else {
        words.push(found_in_path(&call.program, env));
    }
    words.extend(call.args.iter().cloned());
    Ok(words)
}

fn env_of_call<'a>(call: &'a command::Run, name: &str) -> Option<&'a str> {
    call.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// A bare name as the first file of that name in the program's own `PATH`: which directories are searched must not
/// depend on how a program is started.
fn found_in_path(program: &str, env: &BTreeMap<String, String>) -> String {
    if program.contains('/') {
        return program.to_owned();
    }
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let found = path.split(':').filter(|folder| folder.starts_with('/')).map(|folder| Path::new(folder).join(program));
    found
        .into_iter()
        .find(|file| file.is_file())
        .and_then(|file| file.into_os_string().into_string().ok())
        .unwrap_or_else(|| program.to_owned())
}

fn start(line: &[String], env: &BTreeMap<String, String>, dir: &str, stdin: bool) -> std::io::Result<Child> {
    let (program, args) = line.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    tokio::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(dir)
        .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

fn not_started(call: &command::Run, error: &std::io::Error) -> CommandError {
    use std::io::ErrorKind;
    let program = crate::text::shown(&call.program);
    match error.kind() {
        ErrorKind::NotFound if call.shell => {
            CommandError::Refused { reason: format!("the shell cannot be started ({error}); check SHELL in env") }
        }
        ErrorKind::NotFound => CommandError::Refused {
            reason: format!("there is no program `{program}` on this worker; install it, or check PATH in env"),
        },
        ErrorKind::PermissionDenied => {
            CommandError::Refused { reason: format!("`{program}` may not be executed; check its permissions") }
        }
        ErrorKind::ArgumentListTooLong | ErrorKind::ExecutableFileBusy | ErrorKind::InvalidInput => {
            CommandError::Refused { reason: format!("`{program}` cannot be started: {error}") }
        }
        _ => CommandError::NotStarted { reason: format!("`{program}` could not be started: {error}") },
    }
}

/// Gives the program its input. One that does not read it all is within its rights.
fn feed(mut pipe: ChildStdin, text: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        let _ = pipe.write_all(text.as_bytes()).await;
        let _ = pipe.shutdown().await;
    })
}

/// Both outputs, read while the program runs.
struct Outputs {
    stdout: Capture,
    stderr: Capture,
}

impl Outputs {
    fn read(child: &mut Child) -> Self {
        Outputs {
            stdout: child.stdout.take().map(Capture::of).unwrap_or_default(),
            stderr: child.stderr.take().map(Capture::of).unwrap_or_default(),
        }
    }

    async fn finish(self) -> (Captured, Captured) {
        tokio::join!(self.stdout.finish(DRAIN), self.stderr.finish(DRAIN))
    }
}

/// A program's own end as its result.
fn told(status: Option<ExitStatus>, stdout: Captured, stderr: Captured) -> Result<Finished, CommandError> {
    match status.and_then(|status| status.code()) {
        Some(0) => Ok(Finished { stdout, stderr }),
        Some(status) => Err(CommandError::Exited { status, stdout, stderr }),
        None => {
            let signal = status.and_then(|status| status.signal()).unwrap_or_default();
            Err(CommandError::Killed { signal, reason: None, stdout, stderr })
        }
    }
}

#[cfg(test)]
mod tests;
