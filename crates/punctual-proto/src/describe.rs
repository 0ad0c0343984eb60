//! What a server tells about itself when it is asked: the health of its services and, as plain data, their contracts.
//!
//! A [`ServiceDescription`] is the owned form of a [`ServiceDescriptor`]: what `DESCRIBE` answers as JSON, what a tool
//! prints, and what can be saved and compared with a later one.

mod diff;
mod equal;
mod health;
mod method;
mod text;
mod type_description;

#[cfg(test)]
mod tests;

pub use diff::{Change, ChangeKind, Impact, Outcome, Verdict, diff};
pub use equal::{COMPARED_BYTES_MAX, Incomparable, equal_methods};
pub use health::HealthStatus;
pub use method::{BackoffDescription, DurableDescription, MethodDescription, StreamDescription};
pub use type_description::{FieldDescription, FieldsDescription, TypeDescription, VariantDescription};

use crate::codec::{Codec, CodecError, Problem};
use crate::contract::ServiceDescriptor;
use serde::{Deserialize, Serialize};

/// A service and its methods, as plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDescription {
    /// Its name.
    pub name: String,
    /// The trait's doc comment; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// The contract hash of the handshake, as 32 hexadecimal digits.
    pub contract_hash: String,
    /// The methods in declaration order.
    pub methods: Vec<MethodDescription>,
}

impl From<&ServiceDescriptor> for ServiceDescription {
    fn from(service: &ServiceDescriptor) -> Self {
        ServiceDescription {
            name: service.name.to_owned(),
            docs: service.docs.to_owned(),
            contract_hash: hex(&service.contract_hash()),
            methods: service.methods.iter().map(MethodDescription::from).collect(),
        }
    }
}

impl ServiceDescription {
    /// The method of this name, without the service's.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&MethodDescription> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// The body of a describe reply.
    ///
    /// # Errors
    /// None are known; JSON can say every description.
    pub fn encode_all(services: &[ServiceDescription]) -> Result<Vec<u8>, CodecError> {
        serde_json::to_vec(services).map_err(|error| CodecError::new(Codec::Json, Problem::Encode, None, error))
    }

    /// Reads the body of a describe reply. The nesting of a type costs three levels of JSON, so the bound here is
    /// serde_json's own of 128 and not that of a message.
    ///
    /// # Errors
    /// Where it is not a JSON array of descriptions. Fields that this version does not know are ignored.
    pub fn decode_all(body: &[u8]) -> Result<Vec<ServiceDescription>, CodecError> {
        serde_json::from_slice(body).map_err(|error| CodecError::new(Codec::Json, Problem::Data, None, error))
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
