//! Databases of these tests' own, dropped with their values, on the servers that the environment names or on any other.

/// Runs work on a runtime of its own.
fn apart<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

/// The server that a variable names.
fn shared(variable: &str) -> String {
    let url = std::env::var(variable).unwrap_or_default();
    assert!(!url.is_empty(), "{variable} is not set: run `cargo xtask test`");
    url
}

/// The URL of a database on a server.
fn on(server: &str, database: &str) -> String {
    match server.rfind('/') {
        Some(at) if !server[..at].ends_with('/') => format!("{}/{database}", &server[..at]),
        _ => format!("{server}/{database}"),
    }
}

/// One in PostgreSQL.
#[cfg(feature = "postgres")]
pub(super) struct Postgres {
    server: String,
    name: String,
}

#[cfg(feature = "postgres")]
impl Postgres {
    pub(super) fn new(word: &str) -> Self {
        Self::on(shared("PUNCTUAL_TEST_POSTGRES"), word)
    }

    pub(super) fn on(server: String, word: &str) -> Self {
        let name = format!("punctual_{word}_{}", std::process::id());
        // SQL-FORMAT: the name is made of this process's number.
        run_on_postgres(&server, &format!("CREATE DATABASE {name} TEMPLATE template0"));
        Postgres { server, name }
    }

    pub(super) fn url(&self) -> String {
        on(&self.server, &self.name)
    }
}

#[cfg(feature = "postgres")]
impl Drop for Postgres {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SQL-FORMAT: the name is made of this process's number.
            run_on_postgres(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
        }
    }
}

#[cfg(feature = "postgres")]
fn run_on_postgres(url: &str, sql: &str) {
    apart(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server");
        drop(tokio::spawn(connection));
        client.batch_execute(sql).await.expect("a user who may make databases");
    });
}

/// One in MariaDB.
#[cfg(feature = "mysql")]
pub(super) struct Mariadb {
    server: String,
    name: String,
}

#[cfg(feature = "mysql")]
impl Mariadb {
    pub(super) fn new(word: &str) -> Self {
        Self::on(shared("PUNCTUAL_TEST_MARIADB"), word)
    }

    pub(super) fn on(server: String, word: &str) -> Self {
        let name = format!("punctual_{word}_{}", std::process::id());
        // SQL-FORMAT: the name is made of this process's number.
        run_on_mariadb(&server, &[format!("CREATE DATABASE {name}")]);
        Mariadb { server, name }
    }

    pub(super) fn url(&self) -> String {
        on(&self.server, &self.name)
    }
}

#[cfg(feature = "mysql")]
impl Drop for Mariadb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SQL-FORMAT: the name is made of this process's number.
            run_on_mariadb(&self.server, &[format!("DROP DATABASE {}", self.name)]);
        }
    }
}

#[cfg(feature = "mysql")]
async fn connect_to_mariadb(server: &str) -> mysql_async::Conn {
    let opts = mysql_async::Opts::from_url(&on(server, "")).expect("a URL");
    mysql_async::Conn::new(opts).await.expect("the server")
}

#[cfg(feature = "mysql")]
fn run_on_mariadb(server: &str, statements: &[String]) {
    use mysql_async::prelude::Queryable;

    apart(async {
        let mut conn = connect_to_mariadb(server).await;
        for statement in statements {
            conn.query_drop(statement).await.expect("a user who may make databases");
        }
        conn.disconnect().await.expect("an end");
    });
}
