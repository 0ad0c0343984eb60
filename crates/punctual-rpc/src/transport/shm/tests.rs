//! Links of shared memory by themselves, without calls: their waits and their ends.

use super::*;
use std::future::poll_fn;

/// What a ring holds here.
const RING: usize = punctual_shm::RING_BYTES_MIN;

async fn link() -> (ShmLink, ShmLink) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = unix::listen(&path, 0o600).await.unwrap();
    let accepting = async {
        let (socket, _) = listener.accept().await.unwrap();
        accept(socket, RingBytes::new(RING).unwrap()).await.unwrap().0
    };
    let (client, server) = tokio::join!(connect(&path), accepting);
    (client.unwrap(), server)
}

/// Whether a read waits now.
async fn reads_nothing(link: &mut ShmLink) -> bool {
    let mut byte = [0];
    poll_fn(|cx| {
        // Nobody is to be met awake: it sleeps at once.
        link.patience = Patience { left: 0, most: 0, sleeps: 0 };
        Poll::Ready(Pin::new(&mut *link).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending())
    })
    .await
}

/// Whether a write waits now.
async fn writes_nothing(link: &mut ShmLink) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *link).poll_write(cx, b"x").is_pending())).await
}

/// Guards the path of bytes, with both sides waiting for each other all the time: a megabyte there and back through rings of a
/// sixteenth of it.
#[tokio::test]
async fn bytes_go_there_and_back() {
    let (mut client, mut server) = link().await;
    let echo = tokio::spawn(async move {
        let mut space = vec![0; 5_000];
        while let Ok(read @ 1..) = server.read(&mut space).await {
            server.write_all(&space[..read]).await.unwrap();
        }
        server
    });
    let bytes: Vec<u8> = (0..1 << 20).map(|index| (index % 251) as u8).collect();
    for piece in bytes.chunks(RING / 2) {
        client.write_all(piece).await.unwrap();
        let mut back = vec![0; piece.len()];
        client.read_exact(&mut back).await.unwrap();
        assert!(back == piece);
    }
    client.shutdown().await.unwrap();
    echo.await.unwrap();
}

/// Guards that a peer that is awake is not rung for: of two sides that are always busy, none has a system call for a wake.
#[tokio::test]
async fn nobody_rings_while_both_are_awake() {
    let (mut client, mut server) = link().await;
    let mut space = [0; 16];
    for _ in 0..1_000 {
        client.write_all(b"ask").await.unwrap();
        assert_eq!(server.read(&mut space).await.unwrap(), 3);
        server.write_all(b"answer").await.unwrap();
        assert_eq!(client.read(&mut space).await.unwrap(), 6);
    }
    assert_eq!((client.end.rings(), server.end.rings()), (0, 0));
    // One that sleeps is rung for once, whatever comes then.
    assert!(reads_nothing(&mut server).await);
    client.write_all(b"ask").await.unwrap();
    client.write_all(b"ask").await.unwrap();
    assert_eq!(client.end.rings(), 1);
    assert_eq!(server.read(&mut space).await.unwrap(), 6);
    // One that something else woke, and that writes, is awake again.
    assert!(reads_nothing(&mut server).await);
    server.write_all(b"news").await.unwrap();
    client.write_all(b"ask").await.unwrap();
    assert_eq!((client.end.rings(), server.end.rings()), (1, 0));
    assert_eq!(server.read(&mut space).await.unwrap(), 3);
}

/// Guards the last words of a side that ends or goes away: all of them are read, then the end, again and again.
#[tokio::test]
async fn what_was_written_is_read_before_the_end() {
    for goes in [false, true] {
        let (mut client, mut server) = link().await;
        assert!(reads_nothing(&mut server).await);
        client.write_all(b"last words").await.unwrap();
        client.shutdown().await.unwrap();
        let client = (!goes).then_some(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"last words");
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        if let Some(mut client) = client {
            // The other way is open still.
            server.write_all(b"answer").await.unwrap();
            let mut answer = [0; 6];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"answer");
        }
    }
}

/// Guards a reader that sleeps when its peer goes: it is woken, and told.
#[tokio::test]
async fn a_sleeper_hears_of_the_peers_end() {
    let (client, mut server) = link().await;
    let reading = tokio::spawn(async move { server.read(&mut [0]).await });
    tokio::task::yield_now().await;
    drop(client);
    assert_eq!(reading.await.unwrap().unwrap(), 0);
}

/// Guards a writer that waits for room: it goes on when there is some, and fails when the peer goes, but not when the peer only
/// writes no more.
#[tokio::test]
async fn a_stalled_writer_goes_on_or_fails() {
    let (mut client, mut server) = link().await;
    client.write_all(&vec![1; RING]).await.unwrap();
    assert!(writes_nothing(&mut client).await);
    let mut some = vec![0; RING / 2];
    let writing = tokio::spawn(async move {
        client.write_all(b"more").await.unwrap();
        client
    });
    tokio::task::yield_now().await;
    server.read_exact(&mut some).await.unwrap();
    let mut client = writing.await.unwrap();
    client.write_all(&vec![1; RING / 2 - 4]).await.unwrap();
    assert!(writes_nothing(&mut client).await);
    server.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert!(writes_nothing(&mut client).await, "the peer may still read");
    let writing = tokio::spawn(async move { client.write_all(b"more").await });
    tokio::task::yield_now().await;
    drop(server);
    let error = writing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("bytes under way"), "{error}");
}

/// Guards a ring for a writer that a read of the same side takes for its own: neither direction sleeps over it.
#[tokio::test]
async fn one_ring_serves_both_directions() {
    let (mut client, mut server) = link().await;
    client.write_all(&vec![1; RING]).await.unwrap();
    let both = tokio::spawn(async move {
        let (mut written, mut read) = (0, 0);
        poll_fn(|cx| {
            while written < RING {
                match Pin::new(&mut client).poll_write(cx, &vec![2; RING - written]) {
                    Poll::Ready(count) => written += count.unwrap(),
                    Poll::Pending => break,
                }
            }
            let mut space = vec![0; RING];
            while read < RING {
                let mut buf = ReadBuf::new(&mut space);
                match Pin::new(&mut client).poll_read(cx, &mut buf) {
                    Poll::Ready(result) => {
                        result.unwrap();
                        read += buf.filled().len();
                    }
                    Poll::Pending => break,
                }
            }
            if written == RING && read == RING { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        client
    });
    let mut space = vec![0; 1_000];
    let (mut read, mut written) = (0, 0);
    while read < 2 * RING {
        tokio::task::yield_now().await;
        let count = space.len().min(2 * RING - read);
        read += server.read(&mut space[..count]).await.unwrap();
        if written < RING {
            let count = 700.min(RING - written);
            written += server.write(&vec![3; count]).await.unwrap();
        }
    }
    server.write_all(&vec![3; RING - written]).await.unwrap();
    both.await.unwrap();
}

/// Guards the patience: looks that pay are allowed more, looks that do not fewer, down to none, and are tried again then.
#[test]
fn patience_follows_what_pays() {
    let mut patience = Patience::default();
    for _ in 0..10 {
        patience.left -= 1;
        patience.paid();
    }
    assert_eq!((patience.most, patience.left), (LOOKS_MAX, LOOKS_MAX));
    let mut sleeps = 0;
    while patience.most > 0 {
        patience.left = 0;
        patience.slept();
        sleeps += 1;
        patience.paid();
        assert!(sleeps < 10);
    }
    // The sleep that allowed none is the first of those between two tries.
    let mut between = 1;
    while patience.left == 0 {
        patience.slept();
        patience.paid();
        between += 1;
        assert!(between <= SLEEPS_BETWEEN_TRIES, "they are tried again");
    }
    assert_eq!((between, patience.left), (SLEEPS_BETWEEN_TRIES, LOOKS_FIRST));
}
