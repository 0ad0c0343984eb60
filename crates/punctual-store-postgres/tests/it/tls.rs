//! TLS to a real server.

use crate::stand::{Database, enqueue};
use punctual_store_postgres::{PostgresConfig, PostgresStore};
use punctual_task::StoreErrorKind;

/// Names the file of certificates by which the server is trusted as `localhost`.
const AUTHORITIES: &str = "PUNCTUAL_TEST_POSTGRES_CA";

/// What is said to the server is encrypted where that is asked for, and a server that cannot be verified is not spoken to:
/// neither one that nobody vouches for, nor one that is trusted under another name.
#[tokio::test]
async fn connections_are_encrypted_and_verified() {
    let Ok(file) = std::env::var(AUTHORITIES) else { panic!("{AUTHORITIES} is not set: run `cargo xtask test`") };
    let database = Database::new();
    let url = database.url();
    let (before, place) = url.rsplit_once('@').unwrap();
    let port = place.split_once(':').unwrap().1;
    let password = before.rsplit_once(':').unwrap().1;
    let open = async |host: &str, options: &str| {
        PostgresStore::open(&format!("{before}@{host}:{port}?{options}"), PostgresConfig::default()).await
    };
    let trusting = format!("sslmode=verify-full&sslrootcert={file}");
    let store = open("localhost", &trusting).await.unwrap();
    assert_eq!(enqueue(&store, 2).await.len(), 2);
    let row = database
        .connect()
        .await
        .query_one(
            "SELECT count(*), count(*) FILTER (WHERE s.ssl) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)
            WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()",
            &[],
        )
        .await
        .unwrap();
    let (all, encrypted): (i64, i64) = (row.get(0), row.get(1));
    assert!(all > 0 && all == encrypted, "{encrypted} of {all} are encrypted");

    for (host, options, kind, said) in [
        ("localhost", "sslmode=require", StoreErrorKind::Unavailable, "certificate"),
        ("127.0.0.1", trusting.as_str(), StoreErrorKind::Unavailable, "not valid for"),
        ("localhost", "sslmode=require&sslrootcert=/nowhere/ca.pem", StoreErrorKind::Refused, "ca.pem"),
    ] {
        let error = open(host, options).await.expect_err(said);
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(said) && !text.contains(password) && !text.contains('\n'), "{text}");
    }
}
