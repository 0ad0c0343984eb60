use punctual::{Status, service};

#[service]
trait Arguments {
    async fn text(&self, name: &str) -> Result<(), Status>;
    async fn bytes(&self, part: &[u8]) -> Result<(), Status>;
    async fn inside(&self, names: Vec<&str>) -> Result<(), Status>;
    async fn returned(&self) -> Result<&'static str, Status>;
    async fn opaque(&self, value: impl Into<String>) -> Result<(), Status>;
    async fn object(&self, value: Box<dyn Send>) -> Result<(), Status>;
    async fn pattern(&self, (left, right): (u64, u64)) -> Result<(), Status>;
    async fn unnamed(&self, _: u64) -> Result<(), Status>;
    async fn this(&self) -> Result<Self, Status>;
}

fn main() {}
