//! A quick look at throughput: `probe serve ADDRESS`, then `probe call ADDRESS [add|echo|oneway] [IN_FLIGHT] [SECONDS] [BYTES]`.
//!
//! Pin the two to cores of their own (`taskset -c 1 probe serve .. & taskset -c 0 probe call ..`). It prints calls a second and
//! the client's CPU time a call. For numbers to compare, use `benches/`: this one neither warms up long nor repeats.

use bytes::Bytes;
use punctual_clock::{Clock, SystemClock};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::schema::{Field, Fields, StructType, Type};
use punctual_rpc::{Channel, Inbound, Server, Service, Status, Unary};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Add {
    a: i32,
    b: i32,
}

impl Args for Add {}

#[derive(Serialize, Deserialize)]
struct Echo {
    data: Bytes,
}

impl Args for Echo {
    fn raw(&self) -> Option<&Bytes> {
        Some(&self.data)
    }

    fn from_raw(raw: Bytes) -> Option<Self> {
        Some(Echo { data: raw })
    }
}

const fn field(name: &'static str, ty: &'static Type) -> Field {
    Field { name, docs: "", ty, optional: false }
}

static ADD: Type = Type::Struct(&StructType {
    name: "Add",
    docs: "",
    fields: Fields::Named(&[field("a", &Type::I32), field("b", &Type::I32)]),
});

static ECHO: Type =
    Type::Struct(&StructType { name: "Echo", docs: "", fields: Fields::Named(&[field("data", &Type::Bytes)]) });

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new(
    "Bench",
    "",
    &[
        MethodDescriptor::unary("Bench/add", &ADD, &Type::I32, &Type::Status),
        MethodDescriptor::unary("Bench/echo", &ECHO, &Type::Bytes, &Type::Status),
        MethodDescriptor::oneway("Bench/note", &ECHO),
    ],
);

struct Bench;

impl Service for Bench {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn dispatch(&self, method: usize, call: Inbound<'_>) {
        match method {
            0 => call.unary(|args: Add| async move { Ok::<_, Status>(args.a.wrapping_add(args.b)) }),
            1 => call.unary(|args: Echo| async move { Ok::<_, Status>(args.data) }),
            2 => call.oneway(|args: Echo| async move { drop(args) }),
            _ => call.unimplemented(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let arg = |at: usize, default: &str| args.get(at).cloned().unwrap_or(default.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arg(1, "").as_str() {
        "serve" => runtime.block_on(async {
            Server::builder().service(Bench).listen(arg(2, "unix:/tmp/probe.sock")).bind().await?.serve().await;
            Ok(())
        }),
        "call" => {
            let load = Load {
                method: arg(3, "add"),
                in_flight: arg(4, "64").parse()?,
                seconds: arg(5, "3").parse()?,
                bytes: arg(6, "256").parse()?,
            };
            runtime.block_on(load.run(&arg(2, "unix:/tmp/probe.sock")))
        }
        _ => Err("say serve or call".into()),
    }
}

struct Load {
    method: String,
    in_flight: usize,
    seconds: u64,
    bytes: usize,
}

impl Load {
    async fn run(&self, address: &str) -> Result<(), Box<dyn Error>> {
        let channel = Channel::connect(address).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for worker in 0..self.in_flight {
            let (channel, stop, done) = (channel.clone(), Arc::clone(&stop), Arc::clone(&done));
            let (method, data) = (self.method.clone(), Bytes::from(vec![0xa5; self.bytes]));
            tasks.push(tokio::spawn(async move {
                let mut number = i32::try_from(worker).unwrap_or(0);
                while !stop.load(Ordering::Relaxed) {
                    match method.as_str() {
                        "add" => {
                            let call: Unary<_, i32, Status> = channel.unary(&DESCRIPTOR, 0, Add { a: number, b: 7 });
                            assert_eq!(call.timeout(Duration::from_secs(30)).await, Ok(number.wrapping_add(7)));
                            number = number.wrapping_add(64);
                        }
                        "echo" => {
                            let call: Unary<_, Bytes, Status> =
                                channel.unary(&DESCRIPTOR, 1, Echo { data: data.clone() });
                            assert_eq!(
                                call.timeout(Duration::from_secs(30)).await.map(|data| data.len()),
                                Ok(data.len())
                            );
                        }
                        _ => {
                            let call = channel.oneway(&DESCRIPTOR, 2, Echo { data: data.clone() });
                            call.timeout(Duration::from_secs(30)).await?;
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, Status>(())
            }));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (start, cpu, before) = (SystemClock.now(), cpu_ticks(), done.load(Ordering::Relaxed));
        let turns = channel.stats().turns;
        tokio::time::sleep(Duration::from_secs(self.seconds)).await;
        let calls = done.load(Ordering::Relaxed) - before;
        let seconds = SystemClock.now().since(start).as_secs_f64();
        let [user, system] = cpu_ticks();
        let turns = channel.stats().turns - turns;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await??;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let (calls, turns) = (calls as f64, turns as f64);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let a_call = |ticks: u64| ticks as f64 * 10_000.0 / calls;
        println!(
            "{:>10.0} calls/s   {:.3} us user + {:.3} us system a call   {:.1} calls a turn   (total {})",
            calls / seconds,
            a_call(user - cpu[0]),
            a_call(system - cpu[1]),
            calls / turns,
            done.load(Ordering::Relaxed)
        );
        Ok(())
    }
}

/// User and system time of this process in clock ticks of 10 ms; zeros where the system does not say.
fn cpu_ticks() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].map(|at| fields.get(at).and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}
