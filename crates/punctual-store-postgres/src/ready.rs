//! Tasks that wait, or wait again.

use crate::session::{Step, step};
use punctual_clock::Timestamp;

const ADD: &str = "INSERT INTO ready (id, due, lane, class, n, spent, losses)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::smallint[], $5::int[], $6::int[], $7::int[])";

/// Rows that are to be added.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    ids: Vec<i64>,
    dues: Vec<i64>,
    lanes: Vec<i32>,
    classes: Vec<i16>,
    ns: Vec<i32>,
    spents: Vec<i32>,
    losses: Vec<i32>,
}

impl Waits {
    /// One task. The counts are of attempts begun, attempts spent, and losses in a row.
    pub(crate) fn add(&mut self, id: i64, due: Timestamp, lane: i32, class: i16, counts: [i32; 3]) {
        let [n, spent, losses] = counts;
        self.ids.push(id);
        self.dues.push(due.as_micros());
        self.lanes.push(lane);
        self.classes.push(class);
        self.ns.push(n);
        self.spents.push(spent);
        self.losses.push(losses);
    }
}

/// What writes them, if there are any.
pub(crate) fn add(waits: &Waits) -> Option<Step> {
    let Waits { ids, dues, lanes, classes, ns, spents, losses } = waits;
    (!ids.is_empty()).then(|| {
        step!(
            ADD,
            ids.clone(),
            dues.clone(),
            lanes.clone(),
            classes.clone(),
            ns.clone(),
            spents.clone(),
            losses.clone()
        )
    })
}
