//! A column's client process: the closed loop, or the connections that idle. It says its counters at the two ends of what is
//! measured, then its figures. Over the in-process transport it has the server, too.

use crate::allocator;
use crate::rpc::case::Case;
use crate::rpc::column::{Column, Work};
use crate::rpc::counters::{Counters, say};
use crate::rpc::figures::ClientFigures;
use crate::rpc::flavor::Flavor;
use crate::rpc::load::Load;
use crate::rpc::process;
use crate::rpc::server::ServerArguments;
use crate::rpc::site::Site;
use crate::rpc::transport::Transport;
use clap::Args;
use std::future::poll_fn;
use std::io::Read;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// Connections that are opened before memory is first looked at: the first ones pay for what all share.
pub const IDLE_FIRST: usize = 16;

#[derive(Debug, Clone, Args)]
pub struct ClientArguments {
    #[arg(long)]
    pub column: Column,
    #[arg(long)]
    pub case: Case,
    #[command(flatten)]
    pub site: Site,
    #[arg(long, value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Those of a server in this process
    #[arg(long, value_delimiter = ',')]
    pub server_cores: Vec<usize>,
    #[arg(long)]
    pub runtime: Flavor,
    #[arg(long)]
    pub in_flight: usize,
    #[arg(long)]
    pub connections: usize,
    #[arg(long)]
    pub warm_up: f64,
    #[arg(long)]
    pub seconds: f64,
    #[arg(long)]
    pub count_allocations: bool,
}

impl ClientArguments {
    pub fn run(mut self) -> anyhow::Result<()> {
        process::raise_descriptors()?;
        if self.site.transport == Transport::Inproc {
            self.site.address = self.serve_here()?;
        }
        if self.count_allocations {
            allocator::count();
        }
        let local = self.column.is_local();
        if self.case == Case::Idle {
            return self.runtime.run(&self.cores, local, self.idle());
        }
        self.runtime.run(&self.cores, local, self.measure())
    }

    /// Starts the server on a thread of its own; gives its address. It ends with the process.
    fn serve_here(&self) -> anyhow::Result<String> {
        let server = ServerArguments {
            column: self.column,
            site: self.site.clone(),
            cores: self.server_cores.clone(),
            runtime: self.runtime,
            count_allocations: false,
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        let serve = move || {
            let ready = sender.clone();
            let served = server.serve(|address| drop(ready.send(Ok(address.to_owned()))));
            // After `ready` nobody listens any more; before it this is why there is no address.
            let _ = sender.try_send(served.map(|()| String::new()));
        };
        std::thread::Builder::new().name(process::SERVER_THREAD.to_owned()).spawn(serve)?;
        receiver.recv()?
    }

    async fn measure(&self) -> anyhow::Result<()> {
        let load = Load::new();
        let callers = load.callers(self.in_flight);
        let mut marks = Vec::new();
        {
            let (warm_up, seconds) = (Duration::from_secs_f64(self.warm_up), Duration::from_secs_f64(self.seconds));
            let window = load.window(warm_up, seconds, || {
                let counters = Counters::of_this_process();
                // A parent that is gone is noticed when the figures are said.
                let _ = say(&counters);
                marks.push((quanta::Instant::now(), counters));
            });
            let work = Work { case: self.case, connections: self.connections, callers, load: load.clone() };
            both(window, self.column.call(&self.site, work)).await?;
        }
        let [(began, before), (ended, after)] = marks.as_slice() else {
            anyhow::bail!("the window has no two ends");
        };
        let seconds = ended.duration_since(*began).as_secs_f64();
        say(&ClientFigures::of(&load.measured(), seconds, after.since(*before), load.bulk_bytes()))?;
        wait_for_the_parent();
        Ok(())
    }

    async fn idle(&self) -> anyhow::Result<()> {
        let first = IDLE_FIRST.min(self.connections);
        let opened = |count| {
            if count == first {
                let _ = say(&Counters::of_this_process());
                wait_for_the_parent();
            }
        };
        let done = async {
            let _ = say(&Counters::of_this_process());
            let (sender, receiver) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                wait_for_the_parent();
                let _ = sender.send(());
            });
            let _ = receiver.await;
        };
        self.column.idle(&self.site, self.connections, opened, done).await
    }
}

/// The parent answers when it has looked at this process: what it reads there is gone with the process. The end of the pipe,
/// when the parent is gone, is an answer, too.
fn wait_for_the_parent() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// Until both are done, or the work failed: then nobody waits for the end of the window.
async fn both(window: impl Future<Output = ()>, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let (mut window, mut work) = (pin!(window), pin!(work));
    let (mut windowed, mut worked) = (false, false);
    poll_fn(|cx| {
        if !worked && let Poll::Ready(result) = work.as_mut().poll(cx) {
            result?;
            worked = true;
        }
        windowed = windowed || window.as_mut().poll(cx).is_ready();
        if windowed && worked { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}
