//! Follow-ups: tasks that are written in the commit of the finishes that they follow.

use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::names::Lane;
use crate::script::Script;
use crate::{ids, keys, names, tasks};
use punctual_task::rows::Code;
use punctual_task::{FollowUp, NewTask, Next, UniqueKey};
use std::collections::BTreeMap;

/// Follow-ups with their lanes.
pub(crate) struct Followers<'a> {
    all: Vec<(&'a FollowUp, (u32, Lane))>,
}

impl<'a> Followers<'a> {
    /// Finds the lanes, new ones in a commit of their own. Not inside a transaction.
    pub(crate) async fn prepare(session: &mut Session, follow_ups: &'a [FollowUp]) -> Done<Followers<'a>> {
        let Some(last) = follow_ups.iter().map(|follow_up| follow_up.then.id.0).max() else {
            return Ok(Followers { all: Vec::new() });
        };
        let known = |session: &Session| {
            let names = session.shared.names();
            let lane = |follow_up: &'a FollowUp| {
                let id = names.find(&follow_up.then.queue, &follow_up.then.method)?;
                Some((follow_up, (id, names.pair(id)?)))
            };
            follow_ups.iter().map(lane).collect::<Option<Vec<_>>>()
        };
        if let Some(all) = known(session).filter(|_| session.shared.ids.knows(last)) {
            return Ok(Followers { all });
        }
        session.begin(&Script::new()).await?;
        for follow_up in follow_ups {
            names::lane(session, &follow_up.then.queue, &follow_up.then.method).await?;
        }
        let mut script = Script::new();
        ids::pass(session, last, &mut script).await?;
        session.commit(script).await?;
        known(session).map(|all| Followers { all }).ok_or_else(|| Fault::bug("a lane was written and is not known"))
    }

    /// Adds to the finishes' `script` what writes the follow-ups of attempts that were applied as they say. Where keys must be
    /// taken, the script is run before: a key that one of the ended tasks held is free then.
    pub(crate) async fn write(
        &self,
        session: &mut Session,
        mut script: Script,
        applied: &BTreeMap<(i64, u32), Next>,
    ) -> Done<Script> {
        let follows = |(follow_up, _): &&(&FollowUp, (u32, Lane))| {
            applied.get(&(follow_up.task.0, follow_up.n)).is_some_and(|next| follow_up.on.follows(*next))
        };
        let wanted: Vec<(&NewTask, &(u32, Lane))> =
            self.all.iter().filter(follows).map(|(follow_up, lane)| (&follow_up.then, lane)).collect();
        let mut keyed: Vec<(&NewTask, &UniqueKey, &Lane)> = Vec::new();
        for (task, (_, lane)) in &wanted {
            keyed.extend(task.key.as_ref().map(|key| (*task, key, lane)));
        }
        // In the order of the keys, so that those who meet on several of them wait and do not deadlock.
        keyed.sort_by_key(|&(_, key, lane)| (key.scope.code(), keys::target(key, lane), &key.text));
        if !keyed.is_empty() {
            session.run(&std::mem::take(&mut script)).await?;
        }
        let mut held = Vec::new();
        for (task, key, lane) in keyed {
            if keys::take(session, key, lane, task.id.0).await?.is_some() {
                held.push(task.id);
            }
        }
        let new: Vec<(&NewTask, u32)> = wanted
            .iter()
            .filter(|(task, _)| !held.contains(&task.id))
            .map(|(task, (lane, _))| (*task, *lane))
            .collect();
        tasks::write(&mut script, &new)?;
        Ok(script)
    }
}
