use punctual::{Bytes, Status, service};

#[service]
trait Files {
    async fn upload(&self, parts: Vec<Streaming<Bytes>>) -> Result<u64, Status>;
    async fn lines(&self) -> Result<impl Stream<Item = String>, Status>;
    #[rpc(durable)]
    async fn store(&self, parts: Streaming<Bytes>) -> Result<u64, Status>;
    #[rpc(detached)]
    async fn watch(&self) -> Result<Streaming<u64>, Status>;
    #[rpc(inline)]
    async fn tail(&self) -> Result<Streaming<u64>, Status>;
}

fn main() {}
