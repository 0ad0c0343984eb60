//! From a URL to the store that it names.

use punctual_clock::SystemClock;
use punctual_engine::{Engine, EngineBuilder, Error};
use punctual_task::{MemStore, Store, StoreError};
use std::sync::Arc;

/// An engine over the store at `url`, still to be told what to serve and to start.
///
/// `sqlite://relative/path.db`, `sqlite:///absolute/path.db`, `sqlite::memory:` or a plain path is a database of the
/// `sqlite` feature, created where there is none; `postgres://user:password@host/database?schema=punctual` is a database of
/// the `postgres` feature, in which the schema is created; `mysql://user:password@host/database`, or the same with `mariadb://`, is
/// one of the `mysql` feature, which must be there; `memory:` keeps everything in this process and forgets it with it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), punctual::engine::Error> {
/// let engine = punctual::open("memory:").await?.start().await?;
/// # engine.shutdown(std::time::Duration::ZERO).await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Where the URL names no store that this build has, or the store cannot be opened. The text says what to write or do.
///
/// # Cancel safety
/// Dropping it leaves the store as it was found or as it was opened; both are whole.
pub async fn open(url: &str) -> Result<EngineBuilder, Error> {
    Ok(Engine::builder(open_store(url).await?))
}

/// The store at `url`, as [`open`] takes it.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// As [`open`].
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match scheme(url) {
        Some("memory") if url == "memory:" => Ok(Arc::new(MemStore::new(Arc::new(SystemClock)))),
        Some("memory") => {
            Err(StoreError::refused(format!("{url:?} has a name, and a store in memory has none: write memory:")))
        }
        Some("sqlite") | None => open_sqlite(url).await,
        Some("postgres" | "postgresql") => open_postgres(url).await,
        Some("mysql" | "mariadb") => open_mysql(url).await,
        Some(other) => Err(StoreError::refused(format!(
            "no store is called {other:?}: write sqlite://path/to/file.db, postgres://host/database, \
             mysql://host/database, or memory: for one that is gone with the process"
        ))),
    }
}

/// What stands before the first colon. One letter is a drive, and anything with a slash or dot before the colon is a path.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let named =
        scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'-');
    named.then_some(scheme)
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let config = punctual_store_sqlite::SqliteConfig::default();
    Ok(Arc::new(punctual_store_sqlite::SqliteStore::open(url, config).await?))
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "the same signature with and without the feature")]
async fn open_sqlite(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::refused(format!(
        "{url:?} names a SQLite database, and this build has no SQLite: switch on the feature `sqlite` of `punctual`"
    )))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let config = punctual_store_postgres::PostgresConfig::default();
    Ok(Arc::new(punctual_store_postgres::PostgresStore::open(url, config).await?))
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "the same signature with and without the feature")]
async fn open_postgres(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    // The address may hold a password, so it is not repeated.
    Err(StoreError::refused(
        "this build has no PostgreSQL store: switch on the feature `postgres` of `punctual`, or write sqlite://path/to/file.db",
    ))
}

#[cfg(feature = "mysql")]
async fn open_mysql(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let config = punctual_store_mysql::MysqlConfig::default();
    Ok(Arc::new(punctual_store_mysql::MysqlStore::open(url, config).await?))
}

#[cfg(not(feature = "mysql"))]
#[expect(clippy::unused_async, reason = "the same signature with and without the feature")]
async fn open_mysql(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    // The address may hold a password, so it is not repeated.
    Err(StoreError::refused(
        "this build has no store on MariaDB and MySQL: switch on the feature `mysql` of `punctual`, or write \
         sqlite://path/to/file.db",
    ))
}

#[cfg(test)]
mod tests {
    use super::{open_store, scheme};

    /// What stands before the colon is a scheme only where it can be one: paths stay paths.
    #[test]
    fn schemes_and_paths() {
        for (url, expected) in [
            ("sqlite://a.db", Some("sqlite")),
            ("sqlite::memory:", Some("sqlite")),
            ("memory:", Some("memory")),
            ("a.db", None),
            ("./a:b.db", None),
            ("C:\\a.db", None),
            ("", None),
        ] {
            assert_eq!(scheme(url), expected, "{url}");
        }
    }

    /// A store that is not there is refused in one line that says what to write.
    #[tokio::test]
    async fn unknown_stores_are_refused() {
        for (url, expected) in [
            ("mysql://u@127.0.0.1:1", "mysql"),
            ("redis://host", "no store is called \"redis\""),
            ("memory:name", "write memory:"),
        ] {
            let text = open_store(url).await.unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains('\n'), "{text}");
        }
        assert!(open_store("memory:").await.is_ok());
    }

    /// An address of PostgreSQL reaches its store, or is refused by name where the build has none; its password is never told.
    #[tokio::test]
    async fn postgres_is_by_feature() {
        let text = open_store("postgres://anna:s3cret@/app").await.unwrap_err().to_string();
        let expected = if cfg!(feature = "postgres") { "names no host" } else { "feature `postgres`" };
        assert!(text.contains(expected) && !text.contains("s3cret"), "{text}");
    }
}
