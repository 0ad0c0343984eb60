//! Follow-ups: tasks that are written in the commit of the finishes that they follow.

use crate::enqueue;
use crate::errors::{Done, Fault};
use crate::names::Lane;
use crate::session::{Answers, Session, Step};
use crate::store::Shared;
use punctual_task::{FollowUp, NewTask, Next};
use std::collections::BTreeMap;

/// Follow-ups with their lanes.
pub(crate) struct Followers<'a> {
    all: Vec<(&'a FollowUp, Lane)>,
}

impl<'a> Followers<'a> {
    /// Finds the lanes. To be called before the transaction, as all that writes names.
    pub(crate) async fn prepare(
        shared: &Shared,
        session: &mut Session,
        follow_ups: &'a [FollowUp],
    ) -> Done<Followers<'a>> {
        let Some(last) = follow_ups.iter().map(|follow_up| follow_up.then.id.0).max() else {
            return Ok(Followers { all: Vec::new() });
        };
        let pairs: Vec<(&str, &str)> =
            follow_ups.iter().map(|follow_up| (&*follow_up.then.queue, &*follow_up.then.method)).collect();
        let lanes = shared.names.lanes(session, &pairs).await?;
        shared.sequence.pass(session, last).await?;
        Ok(Followers { all: follow_ups.iter().zip(lanes).collect() })
    }

    /// Commits `steps`, and with them the follow-ups of attempts that were applied as they say. Gives what the steps gave.
    pub(crate) async fn commit(
        &self,
        shared: &Shared,
        session: &mut Session,
        mut steps: Vec<Step>,
        applied: &BTreeMap<(i64, u32), Next>,
    ) -> Done<Answers> {
        let follows = |(follow_up, _): &&(&FollowUp, Lane)| {
            applied.get(&(follow_up.task.0, follow_up.n)).is_some_and(|next| follow_up.on.follows(*next))
        };
        let tasks: Vec<(&NewTask, Lane)> =
            self.all.iter().filter(follows).map(|(follow_up, lane)| (&follow_up.then, *lane)).collect();
        if tasks.is_empty() {
            return session.commit(steps).await;
        }
        let now = Some(session.now()?);
        let lanes: Vec<Lane> = tasks.iter().map(|(_, lane)| *lane).collect();
        let list = shared.names.list(&lanes);
        let answers = if tasks.iter().all(|(task, _)| task.key.is_none()) {
            steps.extend(enqueue::additions(&tasks, now)?);
            steps.extend(list);
            session.commit(steps).await
        } else {
            // The ends come first: a key that one of the ended tasks held is free then.
            let answers = session.ask(steps).await?;
            let (new, _) = enqueue::sort_out(session, &tasks).await?;
            let mut rest = enqueue::additions(&new, now)?;
            rest.extend(list);
            session.commit(rest).await.map(|_| answers)
        };
        // Drawn ids are nobody else's: what is there already is of the same call, sent twice at once.
        let answers =
            answers.map_err(|fault| if fault.is_duplicate() { Fault::Again("the follow-ups") } else { fault })?;
        shared.names.listed(&lanes);
        Ok(answers)
    }
}
