//! What a caller may say about one call.

use crate::client::hedge::HedgePolicy;
use crate::client::repeat::Repeat;
use crate::client::response::Heard;
use crate::client::retry::RetryPolicy;
use punctual_clock::Instant;
use punctual_context::{Context, Metadata, MetadataError, TRACEPARENT, TRACESTATE, TraceContext};
use punctual_proto::status::Status;
use std::time::Duration;

/// The options of one call, for calls that are not made through a generated method.
///
/// Small, since every call carries one: what few calls have lies in a box.
#[derive(Debug, Clone)]
pub struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    /// [`Instant::FAR`] for none, as the next one.
    pub(crate) deadline: Instant,
    pub(crate) inherited: Instant,
    pub(crate) wait_for_ready: bool,
    /// What the call itself says of compression.
    pub(crate) compress: Option<bool>,
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Clone, Default)]
struct Extra {
    metadata: Metadata,
    /// So many bytes of the metadata are the trace that was captured; the caller may replace it.
    trace_bytes: usize,
    invalid: Option<MetadataError>,
    /// What the call itself says of being made again.
    repeat: Option<Repeat>,
    /// Who wants the metadata of the replies.
    heard: Option<Heard>,
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            timeout: None,
            deadline: Instant::FAR,
            inherited: Instant::FAR,
            wait_for_ready: false,
            compress: None,
            extra: None,
        }
    }
}

impl CallOptions {
    /// No options but what is inherited from the handler that this code runs in: its deadline, and the trace that its caller
    /// sent along.
    #[must_use]
    pub fn new() -> Self {
        let inherited = Context::current_deadline().unwrap_or(Instant::FAR);
        let mut options = CallOptions { inherited, ..Self::default() };
        if let Some(trace) = Context::current_trace() {
            options.carry(&trace);
        }
        options
    }

    /// Sends this trace along, in place of one that was captured before.
    pub(crate) fn carry(&mut self, trace: &TraceContext) {
        let extra = self.extra.get_or_insert_default();
        extra.forget_trace();
        let mut metadata = trace.to_metadata();
        extra.trace_bytes = metadata.as_encoded().len();
        for (name, value) in extra.metadata.iter() {
            let _ = metadata.append(name, value);
        }
        extra.metadata = metadata;
    }

    /// The encoded metadata.
    pub(crate) fn encoded_metadata(&self) -> &[u8] {
        self.extra.as_ref().map_or(&[], |extra| extra.metadata.as_encoded())
    }

    /// The metadata that it sends along.
    pub(crate) fn metadata_so_far(&self) -> Metadata {
        self.extra.as_ref().map_or_else(Metadata::new, |extra| extra.metadata.clone())
    }

    /// Sends these along instead.
    pub(crate) fn replace_metadata(&mut self, metadata: Metadata) {
        self.extra.get_or_insert_default().metadata = metadata;
    }

    /// The same options of a call whose deadline is fixed.
    pub(crate) fn fixed(self, deadline: Instant) -> Self {
        CallOptions { timeout: None, deadline, inherited: Instant::FAR, ..self }
    }

    /// Why the call can never be made.
    pub(crate) fn invalid(&self) -> Option<Status> {
        let error = self.extra.as_ref()?.invalid.as_ref()?;
        Some(Status::invalid_argument(error.to_string()))
    }

    /// Ends the call this long after its first poll. A timeout of the method or the channel is replaced; an inherited
    /// deadline that is earlier stays.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Ends the call at this instant of the channel's clock. As [`CallOptions::timeout`] it replaces what the method or the
    /// channel says; of the two the earlier one counts.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends this entry along.
    #[must_use]
    pub fn metadata(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let extra = self.extra.get_or_insert_default();
        if matches!(name, TRACEPARENT | TRACESTATE) {
            extra.forget_trace();
        }
        if let Err(error) = extra.metadata.append(name, value) {
            extra.invalid.get_or_insert(error);
        }
        self
    }

    /// Waits for a connection even while the channel backs off after a failure.
    #[must_use]
    pub fn wait_for_ready(mut self) -> Self {
        self.wait_for_ready = true;
        self
    }

    /// Compresses what the call sends, however short, or never, whatever the channel's settings say. It goes as it is all
    /// the same where the server cannot inflate it, or it would not get shorter.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.compress = Some(compress);
        self
    }

    /// Makes the call again by this policy, or with `None` never, whatever the channel's settings say.
    #[must_use]
    pub fn retry(mut self, policy: impl Into<Option<RetryPolicy>>) -> Self {
        self.extra.get_or_insert_default().repeat = Some(Repeat::of(policy.into().as_ref(), None));
        self
    }

    /// Makes the call once more while it takes long, by this policy, or with `None` never, whatever the channel's settings
    /// say. Of this and [`CallOptions::retry`] the last one counts.
    #[must_use]
    pub fn hedge(mut self, policy: impl Into<Option<HedgePolicy>>) -> Self {
        self.extra.get_or_insert_default().repeat = Some(Repeat::of(None, policy.into().as_ref()));
        self
    }

    /// What the call itself says of being made again.
    pub(crate) fn repeat(&self) -> Option<&Repeat> {
        self.extra.as_ref()?.repeat.as_ref()
    }

    /// The metadata of its replies are wanted.
    pub(crate) fn hear(&mut self) -> Heard {
        self.extra.get_or_insert_default().heard.get_or_insert_default().clone()
    }

    /// Who wants the metadata of its replies.
    pub(crate) fn heard(&self) -> Option<&Heard> {
        self.extra.as_ref()?.heard.as_ref()
    }

    /// Does not inherit the deadline of the handler that this code runs in.
    #[must_use]
    pub fn no_inherit(mut self) -> Self {
        self.inherited = Instant::FAR;
        self
    }
}

impl Extra {
    /// What the caller says of a trace counts, and not what was captured.
    fn forget_trace(&mut self) {
        let captured = std::mem::take(&mut self.trace_bytes);
        if captured > 0 {
            // What stands behind an entry is entries.
            self.metadata = Metadata::from_encoded(self.metadata.as_encoded().slice(captured..)).unwrap_or_default();
        }
    }
}

/// The option methods of a call object, which are the same for every shape.
macro_rules! call_options {
    () => {
        /// Ends the call this long after its first poll. A timeout of the method or the channel is replaced; an
        /// inherited deadline that is earlier stays.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// Ends the call at this instant of the channel's clock. As a timeout it replaces what the method or the channel
        /// says; of the two the earlier one counts.
        pub fn deadline(mut self, deadline: punctual_clock::Instant) -> Self {
            self.options.deadline = deadline;
            self
        }

        /// Sends this entry along. The name is 1 to 255 bytes of `a-z 0-9 - _ .`, the value up to 65,535 bytes; where
        /// they are not, the call fails with InvalidArgument when it is polled.
        pub fn metadata(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
            self.options = self.options.metadata(name, value);
            self
        }

        /// Waits for a connection, within the call's deadline, even while the channel backs off after a failure.
        pub fn wait_for_ready(mut self) -> Self {
            self.options.wait_for_ready = true;
            self
        }

        /// Compresses what the call sends, however short, or never, whatever the channel's settings say. It goes as it is
        /// all the same where the server cannot inflate it, or it would not get shorter.
        pub fn compress(mut self, compress: bool) -> Self {
            self.options.compress = Some(compress);
            self
        }

        /// Does not inherit the deadline of the handler that this call is made in.
        pub fn no_inherit(mut self) -> Self {
            self.options.inherited = punctual_clock::Instant::FAR;
            self
        }
    };
}
pub(crate) use call_options;
