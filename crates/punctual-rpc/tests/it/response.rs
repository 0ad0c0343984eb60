//! Metadata that a server sends along with its replies.

use crate::support::probe::Declined;
use crate::support::site::Kind;
use crate::support::{Site, over_every_transport};
use punctual_rpc::{CallError, Code, ServerConfig, Streaming};

over_every_transport! {
    /// What a handler adds comes with its result, its application's error and its status, and only where it is asked for.
    metadata_come_with_every_outcome;
    /// Metadata and bodies of every size around the borders of copying, linking and cutting come back as they were.
    metadata_and_bodies_of_every_size_come_back;
    /// A returned stream's metadata come with its opening; a call that takes streams has them with its result.
    metadata_come_with_streams;
}

async fn metadata_come_with_every_outcome(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    let response = client.text("meta:first=1 second=2 first=3 body=4").with_response().await;
    assert_eq!(response.result(), &Ok("xxxx".to_owned()));
    let entries: Vec<_> = response.metadata().iter().map(|(name, value)| (name.to_owned(), value.len())).collect();
    assert_eq!(entries, [("first".to_owned(), 1), ("second".to_owned(), 2), ("first".to_owned(), 3)]);
    let (result, metadata) = client.add(i32::MAX, 1).metadata("any", "thing").with_response().await.into_parts();
    assert_eq!(result, Err(CallError::App(Declined::Overflow)));
    assert_eq!(metadata.get_str("sum-of"), Some("2147483647 1"));
    let failed = client.text("meta:why=5 fail=1 body=3").with_response().await;
    assert_eq!(failed.metadata().get("why"), Some(&b"mmmmm"[..]));
    assert_eq!(failed.into_result().unwrap_err().status().unwrap().code(), Code::Aborted);
    assert_eq!(client.text("meta:first=1 body=4").await.unwrap(), "xxxx", "nobody asked");
    let none = client.text("plain").with_response().await;
    assert!(none.metadata().is_empty() && none.result().is_ok());
}

async fn metadata_and_bodies_of_every_size_come_back(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    for body in [0, 1, 1_000, 1_024, 16_000, 16_384, 49_000, 65_000, 65_530, 65_536, 70_000, 300_000] {
        for length in [1, 1_000, 8_000, 16_000] {
            let response = client.text(&format!("meta:a={length} body={body}")).with_response().await;
            let got = response.result().as_ref().map(String::len);
            assert_eq!(got, Ok(body), "a body of {body} behind metadata of {length}");
            assert_eq!(response.metadata().get("a").map(<[u8]>::len), Some(length), "{body} behind {length}");
            let failed = client.text(&format!("meta:a={length} fail=1 body={body}")).with_response().await;
            assert_eq!(failed.metadata().get("a").map(<[u8]>::len), Some(length), "a text of {body} behind {length}");
            assert_eq!(failed.into_result().unwrap_err().status().unwrap().code(), Code::Aborted);
        }
    }
}

async fn metadata_come_with_streams(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let flows = site.flows().await;
    let numbers = flows.count(3).await.unwrap();
    assert_eq!(numbers.metadata().get_str("upto"), Some("3"));
    assert_eq!(numbers.collect().await, Ok(vec![0, 1, 2]));
    let summed = flows.sum(Streaming::from_items([1, 2, 3])).with_response().await;
    assert_eq!(summed.metadata().get_str("summed"), Some("by a handler"));
    assert_eq!(summed.into_result(), Ok(6));
}

/// What no reply can carry is refused where it is added, and the call goes on.
#[tokio::test]
async fn metadata_without_a_place_are_refused() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    let over = client.text("meta:a=9000 b=9000 body=1").with_response().await;
    let status = over.result().as_ref().unwrap_err().status().unwrap().clone();
    assert_eq!(status.message(), "the metadata have 18008 bytes; metadata_bytes_max of this connection is 16384");
    assert_eq!(over.metadata().iter().count(), 1, "what fitted went along");
    client.note("meta").await.unwrap();
    site.ledger.until(|ledger| ledger.notes().len() == 2).await;
    assert!(site.ledger.notes()[0].starts_with("there is no reply that metadata could go with"));
}
