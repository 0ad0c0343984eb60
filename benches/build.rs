//! Describes the peers' services: tonic's in Rust, so that the ordinary build needs no `protoc`; the others' where their
//! features are on.

use tonic_build::manual::{Builder, Method, Service};

/// A message as it is, or a stream of it where it is written `stream Message`.
fn method(name: &str, route: &str, input: &str, output: &str) -> Method {
    let split = |side: &str| match side.strip_prefix("stream ") {
        Some(message) => (format!("crate::rpc::column::tonic::{message}"), true),
        None => (format!("crate::rpc::column::tonic::{side}"), false),
    };
    let ((input, streams_in), (output, streams_out)) = (split(input), split(output));
    let mut method = Method::builder()
        .name(name)
        .route_name(route)
        .input_type(input)
        .output_type(output)
        .codec_path("tonic_prost::ProstCodec");
    if streams_in {
        method = method.client_streaming();
    }
    if streams_out {
        method = method.server_streaming();
    }
    method.build()
}

#[cfg(feature = "capnp")]
fn capnp() {
    // The compiler is a program of its own; without it nothing can be generated.
    let mut compiler = capnpc::CompilerCommand::new();
    let place = ["rpc", "column", "capnp"].map(str::to_owned);
    let made = compiler.src_prefix("peers").file("peers/bench.capnp").default_parent_module(place.to_vec()).run();
    made.expect("the feature capnp needs the `capnp` compiler on the path (Debian: capnproto)");
}

#[cfg(feature = "ttrpc")]
fn ttrpc() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    ttrpc_codegen::Codegen::new()
        .out_dir(&out)
        .inputs(["peers/bench.proto"])
        .include("peers")
        .rust_protobuf()
        .customize(ttrpc_codegen::Customize { async_all: true, ..Default::default() })
        .run()
        .expect("peers/bench.proto is in order");
    // The generated files carry inner attributes, which `include!` refuses.
    let modules =
        ["bench", "bench_ttrpc"].map(|module| format!("#[path = \"{out}/{module}.rs\"]\npub mod {module};\n"));
    std::fs::write(format!("{out}/ttrpc.rs"), modules.concat()).expect("OUT_DIR can be written");
}

fn main() {
    println!("cargo::rerun-if-changed=peers");
    let service = Service::builder()
        .name("Bench")
        .package("bench")
        .method(method("add", "Add", "Numbers", "Sum"))
        .method(method("nap", "Nap", "Numbers", "Sum"))
        .method(method("echo", "Echo", "Blob", "Blob"))
        .method(method("upload", "Upload", "stream Blob", "Length"))
        .method(method("download", "Download", "Wanted", "stream Blob"))
        .method(method("duplex", "Duplex", "stream Blob", "stream Blob"))
        .build();
    Builder::new().compile(&[service]);
    #[cfg(feature = "capnp")]
    capnp();
    #[cfg(feature = "ttrpc")]
    ttrpc();
}
