//! The arms: what is done, and what came of it.

use crate::stores::Sizes;
use crate::stores::bed::{Bed, Kind};
use crate::stores::work;
use clap::ValueEnum;
use serde::Serialize;

/// One way to do some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    RawSlots,
    RawSingles,
    RawWindows,
    Slots,
    Windows,
    Windows1k,
    Windows64k,
    Taken1,
    Taken10,
    Taken50,
    RawSlotLanes,
    WindowLanes,
    WindowLanes1k,
    WindowLanes64k,
    SweepSlots,
    Sweep1,
    Sweep8,
    SteadySlots,
    Steady,
    RawDrain,
    Drain,
    RawEnqueue,
    Enqueue,
    EnqueueMany,
    EnqueueBulk,
}

impl Arm {
    pub const ALL: [Arm; 25] = [
        Arm::RawSlots,
        Arm::RawSingles,
        Arm::RawWindows,
        Arm::Slots,
        Arm::Windows,
        Arm::Windows1k,
        Arm::Windows64k,
        Arm::Taken1,
        Arm::Taken10,
        Arm::Taken50,
        Arm::RawSlotLanes,
        Arm::WindowLanes,
        Arm::WindowLanes1k,
        Arm::WindowLanes64k,
        Arm::SweepSlots,
        Arm::Sweep1,
        Arm::Sweep8,
        Arm::SteadySlots,
        Arm::Steady,
        Arm::RawDrain,
        Arm::Drain,
        Arm::RawEnqueue,
        Arm::Enqueue,
        Arm::EnqueueMany,
        Arm::EnqueueBulk,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Arm::RawSlots => "raw: plain statements, one commit a slot",
            Arm::RawSingles => "raw: plain statements, a window in one commit",
            Arm::RawWindows => "raw: our statements for a window",
            Arm::Slots => "materialise, window 1",
            Arm::Windows => "materialise, window 500",
            Arm::Windows1k => "the same, 1 KB of arguments",
            Arm::Windows64k => "the same, 64 KB of arguments",
            Arm::Taken1 => "the same, 1 % of the slots taken",
            Arm::Taken10 => "the same, 10 % of the slots taken",
            Arm::Taken50 => "the same, 50 % of the slots taken",
            Arm::RawSlotLanes => "raw: one commit a slot, 16 connections",
            Arm::WindowLanes => "materialise, window 500, 16 at once",
            Arm::WindowLanes1k => "the same at once, 1 KB of arguments",
            Arm::WindowLanes64k => "the same at once, 64 KB of arguments",
            Arm::SweepSlots => "1,000 schedules, one commit each",
            Arm::Sweep1 => "1,000 schedules in a sweep, window 1",
            Arm::Sweep8 => "1,000 schedules in a sweep, window 8",
            Arm::SteadySlots => "refill one by one, drained in batches",
            Arm::Steady => "refill by windows, drained in batches",
            Arm::RawDrain => "raw: update, then delete, batches of 500",
            Arm::Drain => "drain, batches of 500, attempts kept",
            Arm::RawEnqueue => "raw: enqueue, one connection",
            Arm::Enqueue => "enqueue, one caller",
            Arm::EnqueueMany => "enqueue, 64 callers",
            Arm::EnqueueBulk => "enqueue, 5,000 at a time",
        }
    }

    /// The arm that this one is compared with, and the ratio to reach on a store.
    pub fn goal(self, store: Kind) -> Option<(Arm, f64)> {
        let goal = |sqlite: f64, postgres: f64, mariadb: f64| match store {
            Kind::Sqlite => sqlite,
            Kind::Postgres => postgres,
            Kind::Mariadb => mariadb,
        };
        let (against, ratio) = match self {
            Arm::Windows => (Arm::RawSlots, goal(60.0, 25.0, 30.0)),
            Arm::Windows64k => (Arm::Windows, 0.9),
            Arm::Taken1 | Arm::Taken10 | Arm::Taken50 => (Arm::Windows, 0.9),
            Arm::WindowLanes => (Arm::RawSlotLanes, 10.0),
            Arm::WindowLanes64k => (Arm::WindowLanes, 0.9),
            Arm::Sweep1 => (Arm::SweepSlots, 20.0),
            Arm::Steady => (Arm::SteadySlots, 8.0),
            Arm::Drain => (Arm::RawDrain, goal(0.9, 0.6, 1.2)),
            Arm::EnqueueMany => (Arm::RawEnqueue, 5.0),
            _ => return None,
        };
        Some((against, ratio))
    }

    /// A second comparison, where there is one.
    pub fn second_goal(self, store: Kind) -> Option<(Arm, f64)> {
        match (self, store) {
            (Arm::Windows, Kind::Sqlite) => Some((Arm::RawWindows, 0.8)),
            (Arm::Windows, _) => Some((Arm::RawWindows, 0.85)),
            _ => None,
        }
    }

    /// Whether it runs twice a round, so that its ratio to itself shows the noise.
    pub fn shows_noise(self) -> bool {
        matches!(self, Arm::Windows | Arm::Drain)
    }

    /// Runs it; `None` where it has no sense on that store.
    pub async fn run(self, bed: &Bed, sizes: Sizes) -> anyhow::Result<Option<Measured>> {
        let one_writer = matches!(bed, Bed::Sqlite(_));
        Ok(Some(match self {
            Arm::RawSlots => work::raw_singles(bed, 1, sizes.single).await?,
            Arm::RawSingles => work::raw_singles(bed, work::WINDOW, sizes.bulk).await?,
            Arm::RawWindows => work::raw_windows(bed, sizes.bulk).await?,
            Arm::Slots => work::windows(bed, 1, sizes.single, 0).await?,
            Arm::Windows => work::windows(bed, work::WINDOW, sizes.bulk, 0).await?,
            Arm::Windows1k => work::windows(bed, work::WINDOW, sizes.bulk, 1_024).await?,
            Arm::Windows64k => work::windows(bed, work::WINDOW, sizes.bulk, 65_536).await?,
            Arm::Taken1 => work::taken(bed, sizes.bulk, 1).await?,
            Arm::Taken10 => work::taken(bed, sizes.bulk, 10).await?,
            Arm::Taken50 => work::taken(bed, sizes.bulk, 50).await?,
            Arm::RawSlotLanes | Arm::WindowLanes | Arm::WindowLanes1k | Arm::WindowLanes64k if one_writer => {
                return Ok(None);
            }
            Arm::RawSlotLanes => work::raw_lanes(bed, sizes.single).await?,
            Arm::WindowLanes => work::lanes(bed, sizes.bulk, 0).await?,
            Arm::WindowLanes1k => work::lanes(bed, sizes.bulk, 1_024).await?,
            Arm::WindowLanes64k => work::lanes(bed, sizes.bulk, 65_536).await?,
            Arm::SweepSlots => work::sweeps(bed, 1, 1, sizes.single).await?,
            Arm::Sweep1 => work::sweeps(bed, 1_000, 1, sizes.bulk).await?,
            Arm::Sweep8 => work::sweeps(bed, 1_000, 8, sizes.bulk).await?,
            Arm::SteadySlots => work::steady(bed, 1, sizes.single).await?,
            Arm::Steady => work::steady(bed, work::WINDOW, sizes.bulk).await?,
            Arm::RawDrain => work::raw_drain(bed, sizes.bulk).await?,
            Arm::Drain => work::drain(bed, sizes.bulk).await?,
            Arm::RawEnqueue => work::raw_enqueue(bed, sizes.single).await?,
            Arm::Enqueue => work::enqueue(bed, 1, sizes.single).await?,
            Arm::EnqueueMany => work::enqueue(bed, 64, sizes.single * 10).await?,
            Arm::EnqueueBulk => work::enqueue_bulk(bed, sizes.bulk).await?,
        }))
    }
}

/// What an arm did.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Measured {
    /// Slots or tasks.
    pub count: u32,
    /// From the first call to the end of the last one.
    pub seconds: f64,
    /// The sum over all calls of how long each took: above `seconds` where calls overlap.
    pub served_seconds: Option<f64>,
    /// By the store, for each of them; `None` for plain SQL.
    pub statements: Option<f64>,
    pub commits: Option<f64>,
    /// Written so that commits last, for each of them.
    pub logged_bytes: Option<f64>,
    /// What became of the slots of sweeps.
    pub outcomes: Option<Outcomes>,
}

/// How many slots were decided how.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Outcomes {
    pub created: u64,
    pub exists: u64,
    /// Looked at and left to the next sweep.
    pub not_reached: u64,
    /// Anything else, of which these arms should have none.
    pub other: u64,
}

/// One run of an arm.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    pub store: Kind,
    pub arm: Arm,
    /// The second run of a round, for the noise.
    pub again: bool,
    pub round: usize,
    #[serde(flatten)]
    pub measured: Measured,
}

impl Sample {
    /// Slots or tasks a second.
    pub fn rate(&self) -> f64 {
        f64::from(self.measured.count) / self.measured.seconds
    }
}
