//! Every column does what it is said to do, over every transport that it is measured over.

use super::*;
use crate::rpc::calls::Items;
use crate::rpc::certificate;
use crate::rpc::service::served;
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Calls until a one-way call has been taken for sure.
const CALLS_MAX: usize = 1_000;

async fn does_the_work<C: Calls>(column: Column, site: &Site) -> anyhow::Result<()> {
    let mut client = C::connect(site).await?;
    anyhow::ensure!(client.add(i32::MAX, 7).await? == i32::MAX.wrapping_add(7), "add");
    anyhow::ensure!(client.nap(-5, 7).await? == 2, "nap");
    let bytes = |length: usize| -> Bytes { (0..length).map(|index| (index % 251) as u8).collect::<Vec<u8>>().into() };
    for length in [0, 1, 16, 17, 256, 4_096] {
        // Under test the whole of an echo is compared.
        anyhow::ensure!(client.echo(bytes(length)).await?, "echo of {length} bytes");
    }
    if column.offers(Case::Oneway) {
        let before = served();
        client.note(1, 2).await?;
        for _ in 0..CALLS_MAX {
            if served() > before {
                break;
            }
            client.add(1, 2).await?;
        }
        anyhow::ensure!(served() == before + 1, "note");
    }
    if column.offers(Case::Upload4096) {
        for count in [0, 1, 16, 200] {
            let all = count * 4_096;
            anyhow::ensure!(client.upload(Items::new(bytes(4_096), count)).await? == all, "upload of {count} items");
            anyhow::ensure!(client.duplex(Items::new(bytes(4_096), count)).await? == all, "duplex of {count} items");
        }
        for count in [1, 16, 200] {
            anyhow::ensure!(client.download(count, 4_096).await? == count * 4_096, "download of {count} items");
        }
    }
    Ok(())
}

async fn check(column: Column, transport: Transport) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    certificate::write(folder.path())?;
    let mut site = Site { transport, folder: folder.path().to_owned(), address: String::new() };
    let (sender, receiver) = oneshot::channel();
    let place = site.clone();
    let server =
        tokio::task::spawn_local(
            async move { column.serve(&place, |address| drop(sender.send(address.to_owned()))).await },
        );
    let Ok(address) = receiver.await else { return server.await? };
    site.address = address;
    let checked = match column {
        Column::Punctual | Column::Tasks => does_the_work::<punctual::Client>(column, &site).await,
        Column::Floor => does_the_work::<floor::Client>(column, &site).await,
        Column::Tonic => does_the_work::<tonic::Client>(column, &site).await,
        Column::Tarpc => does_the_work::<tarpc::Client>(column, &site).await,
        #[cfg(feature = "capnp")]
        Column::Capnp => does_the_work::<capnp::Client>(column, &site).await,
        #[cfg(feature = "ttrpc")]
        Column::Ttrpc => does_the_work::<ttrpc::Client>(column, &site).await,
        #[cfg(not(all(feature = "capnp", feature = "ttrpc")))]
        absent => absent.refuse(),
    };
    server.abort();
    checked
}

/// Guards that no column is fast because it does less: sums, whole echoes, one-way calls that arrive, streams of every length,
/// over each transport. One test, since one-way calls are counted for the whole process.
#[tokio::test]
async fn every_column_does_the_same_work() {
    let all = async {
        for column in Column::ALL.into_iter().filter(|column| column.is_built()) {
            for transport in [Transport::Unix, Transport::Tcp, Transport::Tls, Transport::Shm, Transport::Inproc] {
                if column.speaks(transport) {
                    let result = check(column, transport).await;
                    assert!(result.is_ok(), "{} over {transport}: {result:?}", column.name());
                }
            }
        }
    };
    LocalSet::new().run_until(all).await;
}

/// Guards that nobody is measured with calls that it does not have: what is not offered is refused, not done somehow.
#[test]
fn what_is_not_offered_is_named() {
    assert!(Column::ALL.iter().all(|column| column.offers(Case::Add) && column.offers(Case::Idle)));
    let streams: Vec<&str> =
        Column::ALL.iter().filter(|column| column.offers(Case::Duplex4096)).map(|column| column.name()).collect();
    assert_eq!(streams, ["punctual", "floor", "tonic"]);
    let oneway: Vec<&str> =
        Column::ALL.iter().filter(|column| column.offers(Case::Oneway)).map(|column| column.name()).collect();
    assert_eq!(oneway, ["punctual", "floor"]);
}
