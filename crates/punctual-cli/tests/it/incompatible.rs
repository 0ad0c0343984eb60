//! Servers of another version, another kind, or another contract.

use crate::support::Workspace;
use punctual::{Server, Status};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// Answers the first bytes of each of so many connections with these.
fn speaks(answer: &'static [u8], connections: usize) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).unwrap();
            stream.write_all(answer).unwrap();
            // Until the other side has seen enough.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (address, thread)
}

/// A server of another protocol version, and one of another protocol: told by what they say first, not by a timeout.
#[test]
fn other_protocols() {
    let workspace = Workspace::new();
    for (answer, words) in [
        (&b"PNCTUAL\x02"[..], &["protocol version 1, the peer 2", "upgrade"][..]),
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &["not", "Punctual"][..]),
        (&b"SSH-2.0-OpenSSH_9.9\r\n"[..], &["not", "Punctual"][..]),
    ] {
        let (address, thread) = speaks(answer, 2);
        workspace.run(&["health", &address]).failed(6, words);
        workspace.run(&["tasks", "list", "--addr", &address]).failed(6, words);
        thread.join().unwrap();
    }
}

/// An admin contract of another build: a method less, and one of another shape.
mod older {
    use punctual::Status;

    #[punctual::service]
    pub trait Admin {
        /// Once it gave a number.
        async fn info(&self) -> Result<u32, Status>;
    }

    #[punctual::service]
    pub trait Billing {
        async fn charge(&self, order: u64) -> Result<u64, Status>;
    }
}

struct Older;

impl older::Admin for Older {
    async fn info(&self) -> Result<u32, Status> {
        Ok(7)
    }
}

impl older::Billing for Older {
    async fn charge(&self, order: u64) -> Result<u64, Status> {
        Ok(order)
    }
}

/// A server whose admin contract is another one, and one that has none, are told as such, with what to use.
#[test]
fn other_contracts() {
    let workspace = Workspace::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let serve = |service: fn(punctual::rpc::ServerBuilder) -> punctual::rpc::ServerBuilder| {
        runtime.block_on(async {
            let server = service(Server::builder()).listen("tcp://127.0.0.1:0").bind().await.unwrap();
            server.spawn()
        })
    };
    let older = serve(|builder| builder.service(older::AdminServer::new(Older)));
    let address = older.local_addrs()[0].clone();
    for command in [vec!["info"], vec!["tasks", "list"], vec!["queues", "pause", "q"]] {
        workspace.run(&[&command[..], &["--addr", &address]].concat()).failed(6, &[&address, "build"]);
    }
    let other = serve(|builder| builder.service(older::BillingServer::new(Older)));
    let address = other.local_addrs()[0].clone();
    workspace.run(&["tasks", "list", "--addr", &address]).failed(6, &[&address, "punctual serve"]);
    // What needs no contract of ours works with any server.
    assert_eq!(workspace.run(&["call", &address, "Billing/charge", "{\"order\": 42}"]).line(), "42");
    runtime.block_on(async {
        older.shutdown(Duration::ZERO).await;
        other.shutdown(Duration::ZERO).await;
    });
}
