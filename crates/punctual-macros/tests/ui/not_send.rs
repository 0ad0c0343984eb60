//! A handler runs on any thread, so an implementation that cannot is refused where it is written.

use punctual::{Status, service};
use std::rc::Rc;

#[service]
trait Api {
    async fn f(&self) -> Result<(), Status>;
}

struct Here;

impl Api for Here {
    async fn f(&self) -> Result<(), Status> {
        let here = Rc::new(());
        std::future::ready(()).await;
        drop(here);
        Ok(())
    }
}

fn main() {}
