//! Calls through generated clients and servers.

use crate::shop::{CornerShop, Receipt, Served, Shop, ShopClient, ShopError};
use punctual::{Bytes, CallError, Code, Status};
use std::time::Duration;

/// The same contract answers over every transport: results, typed errors, statuses, one-way calls, raw bytes, JSON.
#[tokio::test]
async fn every_shape_over_every_transport() {
    let mut served = Served::everywhere().await;
    let addresses = served.addresses();
    assert!(addresses.len() >= 2, "{addresses:?}");
    for address in addresses {
        let shop = ShopClient::connect(&address).await.unwrap();
        assert_eq!(shop.quote(42).await, Ok(995), "{address}");
        assert_eq!(shop.charge(42, 1_000).await, Ok(Receipt { order: 42, cents: 1_000 }), "{address}");

        let unknown = shop.quote(7).await;
        assert_eq!(unknown, Err(CallError::App(ShopError::UnknownOrder { order: 7 })), "{address}");

        shop.seen(address.clone()).await.unwrap();
        assert_eq!(served.pages.recv().await, Some(address.clone()));

        // Longer than a frame, and not what any codec would make of it.
        let data = Bytes::from(vec![0xC1; 200_000]);
        assert_eq!(shop.echo(data.clone()).await, Ok(data), "{address}");
        assert_eq!(shop.echo(Bytes::new()).await, Ok(Bytes::new()), "{address}");

        let value = serde_json::json!({ "deep": [1, null, "x"] });
        assert_eq!(shop.any(value.clone()).await, Ok(value), "{address}");
    }
    served.stop().await;
}

/// A handler whose error type is `Status` sends it as one, with all that it holds.
#[tokio::test]
async fn a_status_stays_a_status() {
    let served = Served::everywhere().await;
    let shop = served.client().await;
    assert_eq!(shop.refuse(0).await, Ok(()));
    let Err(CallError::Status(status)) = shop.refuse(9).await else { panic!("not a status") };
    assert_eq!(
        (status.code(), status.message(), status.limit()),
        (Code::FailedPrecondition, "refused", Some(("code", 9)))
    );
    served.stop().await;
}

/// Options stand on the call object, and the handler sees them in its context.
#[tokio::test]
async fn options_reach_the_context() {
    let served = Served::everywhere().await;
    let shop = served.client().await;
    let minute = Duration::from_secs(60);
    let seen = shop.surroundings().timeout(minute).metadata("tenant", "a").await.unwrap();
    assert_eq!((seen.tenant.as_deref(), seen.peer, seen.attempt), (Some("a"), true, None));
    assert!(seen.remaining.is_some_and(|left| left <= minute && !left.is_zero()), "{seen:?}");
    let refused = shop.quote(42).metadata("Not A Name", "x").await;
    assert_eq!(refused.unwrap_err().status().map(Status::code), Some(Code::InvalidArgument));
    served.stop().await;
}

/// Code that takes any implementation of the contract takes the client, and gets one error for both ways of failing.
#[tokio::test]
async fn the_client_is_an_implementation() {
    async fn price_of_two(shop: &impl Shop) -> Result<u64, ShopError> {
        shop.seen("prices".to_owned()).await;
        Ok(shop.quote(42).await? + shop.quote(42).await?)
    }
    async fn unknown(shop: &impl Shop) -> Result<u64, ShopError> {
        shop.quote(1).await
    }
    let mut served = Served::everywhere().await;
    let client = served.client().await;
    let (local, _pages) = CornerShop::new();
    assert_eq!(price_of_two(&client).await, Ok(1_990));
    assert_eq!(price_of_two(&client).await, price_of_two(&local).await);
    assert_eq!(unknown(&client).await, unknown(&local).await);
    assert_eq!(served.pages.recv().await.as_deref(), Some("prices"));
    served.stop().await;
    let failed = unknown(&client).await;
    assert!(matches!(failed, Err(ShopError::Call(_))), "{failed:?}");
}

/// Clones of a client share one connection, and calls on it run side by side.
#[tokio::test]
async fn calls_run_side_by_side() {
    let served = Served::everywhere().await;
    let shop = served.client().await;
    let calls: Vec<_> = (0..100u64)
        .map(|order| {
            let shop = shop.clone();
            // The call object owns its arguments: it can be spawned as it is.
            tokio::spawn(async move { shop.charge(42, order).await })
        })
        .collect();
    for (order, call) in (0..100u64).zip(calls) {
        assert_eq!(call.await.unwrap(), Ok(Receipt { order: 42, cents: order.max(995) }));
    }
    served.stop().await;
}
