//! The admin service on a database, in this process.

use crate::admin::{AdminService, Catalog, Commands};
use crate::exit::{Exit, Failure};
use crate::text::without_password;
use punctual::engine::Engine;
use punctual::mysql::{MysqlConfig, MysqlStore};
use punctual::postgres::{self, PostgresConfig, PostgresStore};
use punctual::rpc::{Server, ServerHandle};
use punctual::sqlite::{Location, SqliteConfig, SqliteStore};
use punctual::task::{Store, StoreError};
use punctual_admin::AdminServer;
use std::sync::Arc;
use std::time::Duration;

/// Where the service listens inside this process, which hosts one.
const ADDRESS: &str = "inproc:punctual-admin";

/// How long the service may take to stop: the one call that it had is over.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// A service that stores and asks, and runs nothing.
pub(crate) struct DatabaseHost {
    server: ServerHandle,
}

impl DatabaseHost {
    /// Opens the database and serves it.
    ///
    /// # Errors
    /// Where there is no database at the place, or it cannot be opened. Nothing is created: a name that is misspelt must
    /// not become an empty database.
    pub(crate) async fn start(location: &str) -> Result<Self, Failure> {
        must_be_there(location)?;
        let engine = Engine::builder(open_unchanged(location).await?).start().await?;
        let service = AdminService::new(Catalog::new(None, Commands::Stored));
        service.start(engine);
        let server = Server::builder()
            .service(AdminServer::new(service))
            .listen(ADDRESS)
            .bind()
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(DatabaseHost { server: server.spawn() })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &'static str {
        ADDRESS
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.server.shutdown(STOP_WITHIN).await;
    }
}

/// Opens a database whose tables are there. Only `serve` and `migrate` change tables: a command that looks at them must not.
///
/// # Errors
/// Where it cannot be opened, or its tables are not of this build's version.
pub(crate) async fn open_unchanged(location: &str) -> Result<Arc<dyn Store>, StoreError> {
    if is_postgres(location) {
        let mut config = PostgresConfig::default();
        config.migrate = false;
        return Ok(Arc::new(PostgresStore::open(location, config).await?));
    }
    if is_mysql(location) {
        let mut config = MysqlConfig::default();
        config.migrate = false;
        return Ok(Arc::new(MysqlStore::open(location, config).await?));
    }
    let mut config = SqliteConfig::default();
    config.migrate = false;
    Ok(Arc::new(SqliteStore::open(location, config).await?))
}

/// Whether a location is the address of a PostgreSQL database.
pub(crate) fn is_postgres(location: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| location.starts_with(scheme))
}

/// Whether a location is the address of a MariaDB or MySQL database.
pub(crate) fn is_mysql(location: &str) -> bool {
    ["mysql://", "mariadb://"].iter().any(|scheme| location.starts_with(scheme))
}

/// A location as it may be shown: without a password.
pub(crate) fn shown(location: &str) -> String {
    if !is_postgres(location) {
        return without_password(location);
    }
    postgres::Location::parse(location).map_or_else(|_| "the PostgreSQL database".to_owned(), |place| place.to_string())
}

/// Refuses a place without a database.
///
/// # Errors
/// Where the location means nothing, or no file is there.
pub(crate) fn must_be_there(location: &str) -> Result<(), Failure> {
    if is_postgres(location) || is_mysql(location) {
        // No database comes into being by being opened: the server says whether it is there.
        return Ok(());
    }
    match Location::parse(location).map_err(|error| Failure::usage(format!("--db: {error}")))? {
        Location::Memory => {
            Err(Failure::usage("a database in memory ends with the command that made it; name a file by --db"))
        }
        Location::File(path) if path.exists() => Ok(()),
        Location::File(path) => Err(Failure::new(
            Exit::NotFound,
            "not_found",
            format!(
                "there is no database at {path}; check the path, or create it with `punctual migrate --db {path}`",
                path = path.display()
            ),
        )),
    }
}
