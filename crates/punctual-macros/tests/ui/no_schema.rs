use punctual::{Status, service};

#[derive(punctual::serde::Serialize, punctual::serde::Deserialize)]
#[serde(crate = "punctual::serde")]
struct Plain;

#[service]
trait Api {
    async fn plain(&self, value: Plain) -> Result<(), Status>;
    async fn size(&self) -> Result<usize, Status>;
}

fn main() {}
