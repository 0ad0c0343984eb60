//! TLS to a real server.

use crate::server::Database;
use crate::stand::enqueue;
use punctual_store_mysql::{MysqlConfig, MysqlStore};
use punctual_task::{StoreError, StoreErrorKind};

/// Names the file of certificates by which the server is trusted as `localhost`.
const AUTHORITIES: &str = "PUNCTUAL_TEST_MARIADB_CA";
const PASSWORD: &str = "geheim";

/// A user whom the server takes over TLS only, gone with it.
struct Account<'a> {
    database: &'a Database,
    name: String,
}

impl<'a> Account<'a> {
    fn new(database: &'a Database) -> Self {
        let name = format!("p{}", std::process::id());
        database.run(&format!("CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL"));
        database.run(&format!("GRANT ALL ON *.* TO '{name}'@'%'"));
        Account { database, name }
    }

    async fn open(&self, host: &str, options: &str) -> Result<MysqlStore, StoreError> {
        let url = self.database.url();
        let place = url.rsplit_once(':').unwrap().1;
        let url = format!("mysql://{}:{PASSWORD}@{host}:{place}{options}", self.name);
        MysqlStore::open(&url, MysqlConfig::default()).await
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        self.database.run(&format!("DROP USER '{}'@'%'", self.name));
    }
}

/// What is said to the server is encrypted where that is asked for, and a server that cannot be verified is not spoken to:
/// neither one that nobody vouches for, nor one that is trusted under another name.
#[tokio::test]
async fn sessions_are_encrypted_and_verified() {
    let Ok(file) = std::env::var(AUTHORITIES) else { panic!("{AUTHORITIES} is not set: run `cargo xtask test`") };
    let database = Database::new();
    let account = Account::new(&database);
    let trusting = format!("?ssl_ca={file}");
    let store = account.open("localhost", &trusting).await.unwrap();
    assert_eq!(enqueue(&store, 2).await.len(), 2);

    for (host, options, said) in [
        ("localhost", "", "refuses this user"),
        ("localhost", "?require_ssl=true", "UnknownIssuer"),
        ("127.0.0.1", trusting.as_str(), "not valid for"),
    ] {
        let error = account.open(host, options).await.expect_err(said);
        let text = error.to_string();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{text}");
        assert!(text.contains(said) && !text.contains(PASSWORD) && !text.contains('\n'), "{text}");
    }
}
