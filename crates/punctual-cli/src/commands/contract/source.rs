//! Where a description comes from: a file that was saved, a server, or this binary.

use crate::exit::{Exit, Failure};
use crate::target::connect;
use crate::text::shown;
use crate::tls::TlsFlags;
use punctual::contract::ServiceDescription;
use std::fs::File;
use std::io::{self, Read};

/// The word for the contracts that this binary serves.
pub(crate) const BUILT_IN: &str = "built-in";

/// The longest file that is read as a description. A server's own description is bounded by its limit for messages, which
/// is at most 64 MiB; what people write is a thousandth of that.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The description at `source`: `built-in`, an address with its scheme, else a file.
pub(crate) async fn load(source: &str, tls: &TlsFlags) -> Result<Vec<ServiceDescription>, Failure> {
    if source == BUILT_IN {
        return Ok(built_in());
    }
    if ["tcp://", "tls://", "unix:", "shm:"].iter().any(|scheme| source.starts_with(scheme)) {
        let channel = connect(source, tls).await?;
        let services = channel.describe().await;
        channel.close().await;
        return Ok(services?);
    }
    read(source)
}

/// What `punctual serve` serves, the services that must be switched on among it.
fn built_in() -> Vec<ServiceDescription> {
    [&punctual_admin::admin::DESCRIPTOR, &punctual_admin::http::DESCRIPTOR, &punctual_admin::command::DESCRIPTOR]
        .map(ServiceDescription::from)
        .to_vec()
}

fn read(path: &str) -> Result<Vec<ServiceDescription>, Failure> {
    let name = shown(path);
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            let text = format!("no such file {name}; `punctual describe SERVER --save FILE` writes one");
            Failure::new(Exit::NotFound, "not_found", text)
        }
        _ => Failure::usage(format!("{name} cannot be read: {error}")),
    };
    let mut body = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut body).map_err(unreadable)?;
    if body.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{name} is longer than {FILE_BYTES_MAX} bytes, and no description")));
    }
    ServiceDescription::decode_all(&body).map_err(|error| {
        Failure::usage(format!("{name} is no description; `punctual describe SERVER --save FILE` writes one: {error}"))
    })
}

/// Writes descriptions for [`load`], in lines, so that a version control shows what changed.
pub(crate) fn save(path: &str, services: &[ServiceDescription]) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(services)
        .map_err(|error| Failure::failed(format!("the description cannot be written as JSON: {error}")))?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(|error| Failure::failed(format!("cannot write {}: {error}", shown(path))))
}
