//! How the two sides of a trial reach each other.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A transport, the same one for every column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A Unix socket.
    Unix,
    /// TCP over the loopback address, without delay.
    Tcp,
    /// TLS 1.3 over that.
    Tls,
    /// Memory shared between the two processes, which Punctual alone has.
    Shm,
    /// A pipe of 256 KiB each way inside one process, the two sides on a thread each.
    Inproc,
}

impl Transport {
    /// The name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
            Transport::Shm => "shm",
            Transport::Inproc => "inproc",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unix" => Ok(Transport::Unix),
            "tcp" => Ok(Transport::Tcp),
            "tls" => Ok(Transport::Tls),
            "shm" => Ok(Transport::Shm),
            "inproc" => Ok(Transport::Inproc),
            _ => Err("choose unix, tcp, tls, shm or inproc".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards that every name that is printed can be given back.
    #[test]
    fn names_are_read_back() {
        for transport in [Transport::Unix, Transport::Tcp, Transport::Tls, Transport::Shm, Transport::Inproc] {
            assert_eq!(transport.name().parse(), Ok(transport));
        }
    }
}
