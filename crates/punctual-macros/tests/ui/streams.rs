use punctual::{Bytes, Status, service};

#[service]
trait Streams {
    async fn upload(&self, parts: Streaming<Bytes>) -> Result<u64, Status>;
    async fn prices(&self, since: u64) -> Result<impl Stream<Item = Result<u64, Status>>, Status>;
}

fn main() {}
