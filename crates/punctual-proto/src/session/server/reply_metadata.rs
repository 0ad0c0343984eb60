//! The metadata that go with a call's reply: set by its handler while it runs, sent with whatever the reply becomes.

use crate::frame::CallId;
use crate::session::server::{ServerSession, State};
use punctual_context::{Metadata, MetadataError};

impl ServerSession {
    /// Adds an entry to what is sent along with the reply of a call.
    ///
    /// # Errors
    /// Where it is no entry, all of them would be over the connection's metadata limit, or there is no reply to come: the
    /// call is one-way, its returned stream is open, or it is over.
    pub fn respond_with(&mut self, call: CallId, name: &str, value: &[u8]) -> Result<(), MetadataError> {
        let at = Some(call).filter(|call| call.is_pending()).and_then(|call| self.find_newest(call));
        let run = at.and_then(|at| self.runs.get_mut(at)).filter(|run| run.state == State::Live);
        let Some(run) = run.filter(|run| !run.streams.as_deref().is_some_and(|streams| streams.is_open())) else {
            return Err(MetadataError::NoReply);
        };
        let mut metadata = run.metadata.as_deref().cloned().unwrap_or_default();
        metadata.append(name, value)?;
        let (bytes, max) = (metadata.as_encoded().len(), self.limits.metadata_bytes_max as usize);
        if bytes > max {
            return Err(MetadataError::TooLong { bytes, max });
        }
        run.metadata = Some(Box::new(metadata));
        Ok(())
    }

    #[inline]
    pub(super) fn take_metadata(&mut self, at: usize) -> Option<Box<Metadata>> {
        self.runs.get_mut(at).and_then(|run| run.metadata.take())
    }

    /// Puts back what was taken for a reply that found no room.
    pub(super) fn keep_metadata(&mut self, at: usize, metadata: Option<Box<Metadata>>) {
        if let Some(run) = self.runs.get_mut(at) {
            run.metadata = metadata;
        }
    }
}
