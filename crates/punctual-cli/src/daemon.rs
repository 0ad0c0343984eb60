//! The daemon: a store, an engine with the shipped services, an RPC server with these and the admin service, and HTTP where it
//! is told to serve some.
//!
//! ```text
//!  open the store ─▶ bind the addresses ─▶ start the engine ─▶ ready ─▶ first signal: drain within the grace ─▶ stopped
//! ```
//! Addresses are bound before the engine claims anything, so that a second daemon on them ends without having run a task.

mod logging;
mod notify;
mod signals;

pub(crate) use logging::start as start_logging;

use crate::admin::{AdminService, Catalog, Commands};
use crate::config::Settings;
use crate::exit::Failure;
use crate::http::{Bound, DOOR, Running};
use crate::output::Output;
use crate::services::{CommandService, HttpService};
use crate::target::{is_mysql, is_postgres};
use crate::tls::ServerFiles;
use notify::notify;
use punctual::clock::SystemClock;
use punctual::engine::Engine;
use punctual::mysql::{MysqlConfig, MysqlStore};
use punctual::postgres::{PostgresConfig, PostgresStore};
use punctual::rpc::tls::ServerTls;
use punctual::rpc::{Server, ServerHandle, Stopped};
use punctual::sqlite::SqliteStore;
use punctual::task::{MemStore, Store};
use punctual_admin::{AdminServer, CommandServer, HttpServer};
use serde::Serialize;
use signals::{HANGUP, Signals};
use std::sync::Arc;
use std::time::Duration;

/// What the daemon says when it is ready.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    ready: bool,
    version: &'static str,
    pid: u32,
    addresses: &'a [String],
    location: String,
    runs: Vec<String>,
    /// Where it serves HTTP, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Where it cannot start, or could not stop everything in time.
pub(crate) async fn run(settings: Settings, output: &mut Output) -> Result<(), Failure> {
    // From here on a signal is not lost, whenever it comes.
    let mut signals = Signals::listen()?;
    let tls = settings.tls.as_ref().map(|files| files.load().map(|tls| (files.clone(), tls))).transpose();
    let tls = tls.map_err(|error| Failure::usage(error.to_string()))?;
    let store = open(&settings).await?;
    let http = HttpService::new(settings.http_allow.clone()).map_err(Failure::failed)?;
    let command =
        settings.allow_commands.then(|| CommandService::new(settings.engine.cancel_grace, settings.engine.stop_grace));
    let commands = command.clone().map_or(Commands::Refused, Commands::Run);
    let admin = Arc::new(AdminService::new(Catalog::new(Some(http.clone()), commands)));
    let (http, command) = (HttpServer::new(http), command.map(CommandServer::new));

    let web = Bound::bind(&settings.http).await?;
    let server = bind(
        &settings,
        tls.as_ref().map(|(_, tls)| tls.clone()),
        web.as_ref(),
        AdminServer::from_arc(Arc::clone(&admin)),
        &http,
        command.as_ref(),
    )
    .await?;
    let mut builder = Engine::builder(Arc::clone(&store)).config(settings.engine.clone()).serve(http);
    if let Some(name) = settings.name.clone() {
        builder = builder.name(name);
    }
    if let Some(command) = command {
        builder = builder.serve(command);
    }
    if let Some(web) = &web {
        builder = builder.observer(web.observer());
    }
    let engine = builder.start().await?;
    admin.start(engine.clone());
    let runs = admin.runs();
    let server = server.spawn();
    let web = match web {
        Some(web) => Some(web.start(engine.clone(), server.clone()).await?),
        None => None,
    };
    tell_ready(&server, web.as_ref(), store.info().location, runs, output);
    notify("READY=1");

    let signal = loop {
        match signals.next().await {
            HANGUP => {
                reload(tls.as_ref());
                web.iter().for_each(Running::reload);
            }
            signal => break signal,
        }
    };
    tracing::info!(signal, grace = ?settings.shutdown_grace, "stopping; a second signal ends the grace");
    notify("STOPPING=1");
    web.iter().for_each(Running::drain);
    let stopped = stop(&server, &engine, settings.shutdown_grace, &mut signals).await;
    // Last, so that whoever balances the load sees to the end that this daemon is not ready.
    if let Some(web) = web {
        web.stop().await;
    }
    stopped
}

/// Takes up files that may have changed.
fn reload(tls: Option<&(ServerFiles, ServerTls)>) {
    match tls.map(|(files, tls)| files.reload(tls)) {
        None => tracing::info!("nothing to read again: there are no certificates"),
        Some(Ok(())) => tracing::info!("certificates were read again; new connections meet the new ones"),
        Some(Err(error)) => tracing::error!(%error, "certificates could not be read again; the old ones stay"),
    }
}

async fn open(settings: &Settings) -> Result<Arc<dyn Store>, Failure> {
    if settings.database == "memory:" {
        return Ok(Arc::new(MemStore::new(Arc::new(SystemClock))));
    }
    if is_postgres(&settings.database) {
        let mut config = PostgresConfig::default();
        config.migrate = settings.store.migrate;
        config.lock_timeout = settings.store.wait;
        return Ok(Arc::new(PostgresStore::open(&settings.database, config).await?));
    }
    if is_mysql(&settings.database) {
        let mut config = MysqlConfig::default();
        config.migrate = settings.store.migrate;
        // A server is waited for by the second, a file by the millisecond.
        config.wait = settings.store.wait.max(Duration::from_secs(1));
        return Ok(Arc::new(MysqlStore::open(&settings.database, config).await?));
    }
    Ok(Arc::new(SqliteStore::open(&settings.database, settings.store.clone()).await?))
}

async fn bind(
    settings: &Settings,
    tls: Option<ServerTls>,
    web: Option<&Bound>,
    admin: AdminServer<AdminService>,
    http: &HttpServer<HttpService>,
    command: Option<&CommandServer<CommandService>>,
) -> Result<Server, Failure> {
    let mut config = settings.server.clone();
    config.admission = settings.admission.build();
    config.compression = settings.compression.build();
    config.allow_plaintext_off_loopback = settings.allow_plaintext_off_loopback;
    config.grace = settings.shutdown_grace;
    config.tls = tls;
    config.telemetry = web.map(Bound::telemetry).unwrap_or_default();
    let mut builder = Server::builder().config(config).service(admin).service(http.clone());
    if let Some(command) = command {
        builder = builder.service(command.clone());
    }
    if web.is_some() {
        builder = builder.listen(DOOR);
    }
    for address in &settings.listen {
        builder = builder.listen(address);
    }
    builder.bind().await.map_err(|error| {
        let message = match error.io_kind() {
            Some(std::io::ErrorKind::AddrInUse) => {
                format!("{error}; is a daemon running there already? choose another address by --listen")
            }
            Some(std::io::ErrorKind::NotFound) => {
                format!("{error}; create the folder of the socket first, or choose another by --listen")
            }
            Some(_) => format!("{error}; choose another address by --listen"),
            None => error.to_string(),
        };
        if error.io_kind().is_some() { Failure::failed(message) } else { Failure::usage(message) }
    })
}

fn tell_ready(server: &ServerHandle, web: Option<&Running>, location: String, runs: Vec<String>, output: &mut Output) {
    // What is inside of the process is nobody's address.
    let outside = server.local_addrs().iter().filter(|address| *address != DOOR);
    let addresses: &[String] = &outside.cloned().collect::<Vec<String>>();
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    let http = web.map(Running::address);
    let told = if output.is_json() {
        output.json(&Ready { ready: true, version, pid, addresses, location, runs, http })
    } else {
        let mut all = addresses.iter().chain(&http);
        all.try_for_each(|address| output.line(format!("listening on {address}"))).and_then(|()| {
            output.line(format!("ready: punctual {version} (pid {pid}) on {location}, runs {}", runs.join(", ")))
        })
    };
    if let Err(failure) = told.and_then(|()| output.flush()) {
        // Whoever started it may not want to know, and tasks must not wait for a reader.
        tracing::warn!(%failure, "the readiness line could not be written");
    }
}

async fn stop(server: &ServerHandle, engine: &Engine, grace: Duration, signals: &mut Signals) -> Result<(), Failure> {
    let (stopped, report) = tokio::select! {
        biased;
        done = async { tokio::join!(server.shutdown(grace), engine.shutdown(grace)) } => done,
        signal = signals.next_stop() => {
            tracing::warn!(signal, "a second signal: stopping without grace");
            // Calls are dropped with the process; attempts have to be given back.
            (Stopped::default(), engine.shutdown(Duration::ZERO).await)
        }
    };
    if report.is_clean() && stopped.stuck == 0 {
        tracing::info!(handed_back = report.handed_back, cancelled_calls = stopped.cancelled, "stopped");
        return Ok(());
    }
    Err(Failure::failed(format!(
        "stopped, but not cleanly: {} handlers and {} calls did not end, {} results could not be recorded; their tasks run again \
         once the lease has ended",
        report.stuck.len(),
        stopped.stuck,
        report.unrecorded
    )))
}
