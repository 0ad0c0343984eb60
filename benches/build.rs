//! Describes tonic's service in Rust, so that building the benches needs no `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn method(name: &str, route: &str, input: &str, output: &str) -> Method {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("crate::columns::tonic::{input}"))
        .output_type(format!("crate::columns::tonic::{output}"))
        .codec_path("tonic_prost::ProstCodec")
        .build()
}

fn main() {
    let service = Service::builder()
        .name("Bench")
        .package("bench")
        .method(method("add", "Add", "AddRequest", "AddReply"))
        .method(method("echo", "Echo", "Blob", "Blob"))
        .build();
    Builder::new().compile(&[service]);
}
