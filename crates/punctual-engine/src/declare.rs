//! Declaring a schedule: what a program says at its start about a schedule that it needs.

use crate::enqueue::{check_json, encode};
use crate::shared::Shared;
use crate::{Durable, Error};
use bytes::Bytes;
use punctual_task::schedule::Rule;
use punctual_task::{Backoff, Declaration, Declared, Missed, Overlap, Policy, ScheduleCommand, ScheduleSpec};
use std::pin::Pin;
use std::time::Duration;

/// A schedule about to be declared. Await it to write it.
#[derive(Debug)]
#[must_use = "nothing is written before it is awaited"]
pub struct ScheduleBuilder<'a> {
    shared: &'a Shared,
    declaration: Result<Declaration, Error>,
    new_series: bool,
}

impl<'a> ScheduleBuilder<'a> {
    pub(crate) fn typed<C: Durable>(shared: &'a Shared, name: String, rule: Rule, call: &C) -> Self {
        let spec = encode(call).map(|args| spec(name, rule, C::METHOD, C::POLICY, C::schema_hash(), args));
        Self::new(shared, spec)
    }

    fn new(shared: &'a Shared, spec: Result<ScheduleSpec, Error>) -> Self {
        ScheduleBuilder { shared, declaration: spec.map(|spec| Declaration { spec, revision: 0 }), new_series: false }
    }

    pub(crate) fn json(shared: &'a Shared, name: String, rule: Rule, method: &str, args: Bytes) -> Self {
        let served = shared.methods.get(method).map(|served| served.method);
        let policy = served.map_or(Policy::DEFAULT, |served| served.policy);
        let schema = served.map_or(0, |served| served.schema);
        let spec = check_json(method, &args).map(|()| spec(name, rule, method, policy, schema, args));
        Self::new(shared, spec)
    }

    fn set(mut self, change: impl FnOnce(&mut Declaration)) -> Self {
        if let Ok(declaration) = &mut self.declaration {
            change(declaration);
        }
        self
    }

    /// What happens to slots that nobody served in time; the latest of them runs by default.
    pub fn missed(self, missed: Missed) -> Self {
        self.set(|declaration| declaration.spec.missed = missed)
    }

    /// How many occurrences may be live at once; 1, strictly serial, by default.
    pub fn max_pending(self, count: u32) -> Self {
        self.set(|declaration| declaration.spec.max_pending = count)
    }

    /// What happens to a due slot while `max_pending` occurrences have not ended; it waits by default.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.set(|declaration| declaration.spec.overlap = overlap)
    }

    /// A slot decided later than this after its instant is late; 5 s by default.
    pub fn late_after(self, late_after: Duration) -> Self {
        self.set(|declaration| declaration.spec.late_after = late_after)
    }

    /// Occurrences become due up to this long after their slots, always equally long in one schedule, so that schedules
    /// with one rule do not all run in one moment; not at all by default.
    pub fn jitter(self, jitter: Duration) -> Self {
        self.set(|declaration| declaration.spec.jitter = jitter)
    }

    /// So many failures in a row, with no success between them, pause the schedule until an operator resumes it; none do by
    /// default. 1 to 100.
    pub fn pause_after(self, failures: u32) -> Self {
        self.set(|declaration| declaration.spec.pause_after = Some(failures))
    }

    /// The occurrences' queue instead of the method's.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.set(|declaration| declaration.spec.queue = queue.into())
    }

    /// The occurrences' level: 0 (first) to 3 (last).
    pub fn priority(self, level: u8) -> Self {
        self.set(|declaration| declaration.spec.level = level)
    }

    /// How many attempts one occurrence may spend.
    pub fn attempts(self, attempts: u32) -> Self {
        self.set(|declaration| declaration.spec.options.attempts = Some(attempts))
    }

    /// The waits between them.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|declaration| declaration.spec.options.backoff = Some(backoff))
    }

    /// The budget of one attempt.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|declaration| declaration.spec.options.timeout = Some(timeout))
    }

    /// Begins the schedule anew if it was cancelled; without this a cancelled one stays so. Run numbers start again.
    pub fn new_series(mut self) -> Self {
        self.new_series = true;
        self
    }

    /// The build's revision: a declaration by an older build never undoes a newer one's. 0 by default.
    pub fn revision(self, revision: u64) -> Self {
        self.set(|declaration| declaration.revision = revision)
    }
}

fn spec(name: String, rule: Rule, method: &str, policy: Policy, schema: u64, args: Bytes) -> ScheduleSpec {
    let mut spec = ScheduleSpec::new(name, rule, method, args);
    if let Some(queue) = policy.queue {
        queue.clone_into(&mut spec.queue);
    }
    spec.level = policy.level;
    spec.schema = schema;
    spec
}

impl<'a> IntoFuture for ScheduleBuilder<'a> {
    type Output = Result<Declared, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// Writes the declaration. The same one as before changes nothing, whatever an operator edited since.
    ///
    /// # Errors
    /// `Refused` names what is wrong with the definition; otherwise what the store says.
    fn into_future(self) -> Self::IntoFuture {
        let ScheduleBuilder { shared, declaration, new_series } = self;
        Box::pin(async move {
            let declaration = declaration?;
            declaration.spec.validate()?;
            let again = new_series.then(|| declaration.spec.clone());
            let mut declared = shared.store.declare(declaration).await?;
            if let (Declared::Cancelled, Some(spec)) = (declared, again) {
                let command = ScheduleCommand::NewSeries { spec: Box::new(spec.clone()) };
                shared.store.steer(spec.name, command).await?;
                declared = Declared::Created;
            }
            shared.forget_zones();
            shared.sweeps.now();
            Ok(declared)
        })
    }
}
