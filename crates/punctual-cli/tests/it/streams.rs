//! `punctual call` of methods with streams, and `punctual health --watch`.

use crate::support::Workspace;
use punctual::{Server, ServerHandle, Status, Streaming, message, service};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;
use tokio::runtime::Runtime;

#[message]
#[derive(Debug)]
pub(crate) enum Tired {
    After { items: u64 },
    Call(Status),
}

impl From<Status> for Tired {
    fn from(status: Status) -> Self {
        Tired::Call(status)
    }
}

#[service]
pub(crate) trait Flow {
    async fn sum(&self, numbers: Streaming<u64>) -> Result<u64, Status>;
    async fn count(&self, upto: u64) -> Result<Streaming<u64, Tired>, Tired>;
    async fn shout(&self, lines: Streaming<String>) -> Result<Streaming<String>, Status>;
    async fn both(&self, sep: String, left: Streaming<String>, right: Streaming<u64>) -> Result<String, Status>;
    #[rpc(oneway)]
    async fn log(&self, lines: Streaming<String>);
}

struct Flows;

impl Flow for Flows {
    async fn sum(&self, numbers: Streaming<u64>) -> Result<u64, Status> {
        Ok(numbers.collect().await?.iter().sum())
    }

    async fn count(&self, upto: u64) -> Result<Streaming<u64, Tired>, Tired> {
        Ok(Streaming::new(Counting(0, upto)))
    }

    async fn shout(&self, lines: Streaming<String>) -> Result<Streaming<String>, Status> {
        let lines = lines.collect().await?;
        Ok(Streaming::from_items(lines.into_iter().map(|line| line.to_uppercase())))
    }

    async fn both(&self, sep: String, left: Streaming<String>, right: Streaming<u64>) -> Result<String, Status> {
        let (left, right) = (left.collect().await?, right.collect().await?);
        Ok(format!("{}{sep}{right:?}", left.concat()))
    }

    async fn log(&self, lines: Streaming<String>) {
        // Nobody is told.
        let _ = lines.collect().await;
    }
}

/// Numbers, and no more than five of them.
struct Counting(u64, u64);

impl futures_core::Stream for Counting {
    type Item = Result<u64, Tired>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let number = self.0;
        self.0 += 1;
        std::task::Poll::Ready(match number {
            5 => Some(Err(Tired::After { items: 5 })),
            number if number < self.1 => Some(Ok(number)),
            _ => None,
        })
    }
}

/// A server in this process, at a socket of the workspace.
struct Site {
    runtime: Runtime,
    server: ServerHandle,
    address: String,
}

impl Site {
    fn start(workspace: &Workspace) -> Self {
        let runtime = Runtime::new().unwrap();
        let address = format!("unix:{}", workspace.path("flow.sock").display());
        let server = Server::builder().service(FlowServer::new(Flows)).listen(&address);
        let server = runtime.block_on(async { server.bind().await.unwrap().spawn() });
        Site { runtime, server, address }
    }
}

/// Streams are lines of JSON: arguments on standard input, what is returned on standard output.
#[test]
fn streams_are_lines_of_json() {
    let workspace = Workspace::new();
    let site = Site::start(&workspace);
    let call = |method: &'static str| ["call".to_owned(), site.address.clone(), method.to_owned()];
    let run = |method, rest: &[&str], input: &str| {
        let call = call(method);
        let arguments: Vec<&str> = call.iter().map(String::as_str).chain(rest.iter().copied()).collect();
        workspace.run_with_input(&arguments, input)
    };
    assert_eq!(run("Flow/sum", &[], "1\n2\n\n3").line(), "6");
    assert_eq!(run("Flow/sum", &[], "").line(), "0");
    assert_eq!(run("Flow/count", &["{\"upto\": 3}"], "").succeeded(), "0\n1\n2\n");
    assert_eq!(run("Flow/count", &["-"], "{\"upto\": 2}").succeeded(), "0\n1\n");
    assert_eq!(run("Flow/shout", &[], "\"a\"\n\"b\"\n").succeeded(), "\"A\"\n\"B\"\n");
    let mixed = "{\"right\": 1}\n{\"left\": \"a\"}\n{\"left\": \"b\"}\n{\"right\": 2}\n";
    assert_eq!(run("Flow/both", &["{\"sep\": \"+\"}"], mixed).line(), "\"ab+[1, 2]\"");
    assert_eq!(run("Flow/log", &[], "\"a\"\n").line(), "sent");
    assert_eq!(run("Flow/log", &["--json"], "\"a\"\n").line(), "null");
}

/// What fails says where: the method's own error behind the items that came, a line that is no JSON, a line without its
/// stream, an item of another type, arguments and items that both want standard input.
#[test]
fn failures_of_streams_are_named() {
    let workspace = Workspace::new();
    let site = Site::start(&workspace);
    let address = site.address.as_str();
    let tired = workspace.run(&["call", address, "Flow/count", "{\"upto\": 9}"]);
    assert_eq!(tired.stdout, "0\n1\n2\n3\n4\n");
    tired.failed(1, &["Flow/count returned an error", "After"]);
    let run = |method: &str, rest: &[&str], input: &str| {
        workspace.run_with_input(&[&["call", address, method], rest].concat(), input)
    };
    run("Flow/sum", &[], "1\n2 3\n").failed(2, &["line 2 of standard input is not JSON"]);
    run("Flow/sum", &[], "\"one\"\n").failed(2, &["u64"]);
    run("Flow/both", &["{\"sep\": \"\"}"], "1\n").failed(2, &["line 1", "left, right"]);
    run("Flow/both", &["{\"sep\": \"\"}"], "{\"middle\": 1}\n").failed(2, &["middle", "left, right"]);
    run("Flow/both", &["-"], "{\"sep\": \"\"}").failed(2, &["standard input holds the items", "@FILE"]);
}

/// Each change of a server's health is a line, up to an interrupt.
#[test]
fn health_is_watched() {
    let workspace = Workspace::new();
    let Site { runtime, server, address } = Site::start(&workspace);
    let mut command = workspace.command(&["health", &address, "--watch", "--every", "10ms", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(next(), "serving");
    server.set_health("", punctual::rpc::HealthStatus::NotServing);
    assert_eq!(next(), "not_serving");
    runtime.block_on(server.shutdown(Duration::from_secs(1)));
    // A stop says so on its way, if it is asked in time.
    let mut last = next();
    if last == "draining" {
        last = next();
    }
    assert_eq!(last, "unreachable");
    child.kill().unwrap();
    child.wait().unwrap();
    workspace.run(&["health", &address, "--watch"]).failed(4, &[]);
    workspace.run(&["health", &address, "--every", "1s"]).failed(2, &["--watch"]);
}
