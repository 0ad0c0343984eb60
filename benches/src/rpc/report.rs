//! All that a run measured, as it is kept in JSON; and what is read out of it.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::figures::{Counts, IdleFigures, Lane, Sample};
use crate::rpc::setting::Setting;
use crate::statistics::{Series, ratio};
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub setting: Setting,
    pub samples: Vec<Sample>,
    pub counts: Vec<Counts>,
    pub idle: Vec<IdleFigures>,
}

impl Report {
    /// The cases that were timed, in the order of the table.
    pub fn cases(&self) -> Vec<Case> {
        Case::ALL.into_iter().filter(|case| self.samples.iter().any(|sample| sample.case == *case)).collect()
    }

    /// The lanes of a case, in the order of its first round.
    pub fn lanes(&self, case: Case) -> Vec<Lane> {
        let mut lanes = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.case == case) {
            if !lanes.contains(&sample.lane) {
                lanes.push(sample.lane);
            }
        }
        lanes
    }

    /// The lane of a column over the run's own transport.
    pub fn lane(&self, column: Column) -> Lane {
        Lane::new(column, self.setting.transport)
    }

    /// A figure over the rounds.
    pub fn series(&self, case: Case, lane: Lane, figure: impl Fn(&Sample) -> f64) -> Series {
        Series::new(self.samples.iter().filter(|sample| sample.case == case && sample.lane == lane).map(figure))
    }

    pub fn rates(&self, case: Case, lane: Lane) -> Series {
        self.series(case, lane, |sample| sample.rate)
    }

    pub fn counts(&self, case: Case, lane: Lane) -> Option<&Counts> {
        self.counts.iter().find(|counts| counts.case == case && counts.lane == lane)
    }

    /// Median rate against median rate.
    pub fn rate_ratio(&self, case: Case, lane: Lane, base: Lane) -> Option<f64> {
        ratio(self.rates(case, lane).median(), self.rates(case, base).median())
    }

    /// The same lane against itself within each round.
    pub fn noise(&self, case: Case) -> Option<(Lane, Series)> {
        let again = self.lanes(case).into_iter().find(|lane| lane.again)?;
        let lane = Lane { again: false, ..again };
        let of = |round: usize, wanted: Lane| {
            let mine = |sample: &&Sample| sample.case == case && sample.lane == wanted && sample.round == round;
            self.samples.iter().find(mine).map(|sample| sample.rate)
        };
        let rounds = self.samples.iter().map(|sample| sample.round + 1).max().unwrap_or(0);
        let ratios = (0..rounds).filter_map(|round| ratio(of(round, again), of(round, lane)));
        Some((lane, Series::new(ratios)))
    }

    /// By how much a rate can seem lower than it is: 1.1 where the same lane differed from itself by a tenth.
    pub fn noise_factor(&self, case: Case) -> f64 {
        let Some((_, ratios)) = self.noise(case) else { return 1.0 };
        let up = ratios.max().unwrap_or(1.0);
        let down = ratios.min().filter(|min| *min > 0.0).map_or(1.0, |min| 1.0 / min);
        up.max(down).max(1.0)
    }

    /// The peer with the smallest median of a figure.
    pub fn best_peer(&self, case: Case, figure: impl Fn(&Sample) -> f64 + Copy) -> Option<(Lane, Series)> {
        let peers = self.lanes(case).into_iter().filter(|lane| lane.column.is_peer());
        let series = peers.map(|lane| (lane, self.series(case, lane, figure)));
        let with_median = series.filter_map(|(lane, series)| Some((series.median()?, lane, series)));
        with_median.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, lane, series)| (lane, series))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::rpc::counters::Counters;
    use crate::rpc::figures::ClientFigures;
    use crate::rpc::flavor::Flavor;
    use crate::rpc::transport::Transport;

    pub fn setting() -> Setting {
        Setting {
            transport: Transport::Unix,
            in_flight: 64,
            connections: 1,
            runtime: Flavor::Current,
            rounds: 2,
            warm_up: 1.0,
            seconds: 2.0,
            quick: false,
            client_cores: vec![0],
            server_cores: vec![1],
            pinned: true,
            traced: true,
            order: vec!["punctual".to_owned(), "floor".to_owned()],
            notes: Vec::new(),
        }
    }

    pub fn empty() -> Report {
        Report { setting: setting(), samples: Vec::new(), counts: Vec::new(), idle: Vec::new() }
    }

    pub fn sample(case: Case, lane: Lane, round: usize, rate: f64, p50_us: f64) -> Sample {
        let counters = Counters { allocations: 0, served: 0 };
        Sample {
            case,
            lane,
            round,
            rate,
            client_cpu_us: 0.4,
            server_cpu_us: 0.5,
            client_peak_kib: 2_048,
            server_peak_kib: Some(1_024),
            client: ClientFigures {
                operations: 1_000,
                total: 1_500,
                seconds: 2.0,
                p50_us,
                p99_us: 2.0 * p50_us,
                p999_us: 3.0 * p50_us,
                counters,
                bulk_bytes: 0,
            },
        }
    }

    pub fn lane(column: Column) -> Lane {
        Lane::new(column, Transport::Unix)
    }

    /// Guards that ratios are of medians over the rounds, of the lanes that were asked for.
    #[test]
    fn ratios_are_of_medians() {
        let (ours, floor) = (lane(Column::Punctual), lane(Column::Floor));
        let mut report = empty();
        for (round, (a, b)) in [(60.0, 100.0), (90.0, 110.0), (75.0, 90.0)].into_iter().enumerate() {
            report.samples.push(sample(Case::Add, ours, round, a, 1.0));
            report.samples.push(sample(Case::Add, floor, round, b, 1.0));
        }
        report.samples.push(sample(Case::Echo256, ours, 0, 1.0, 1.0));
        assert_eq!(report.rate_ratio(Case::Add, ours, floor), Some(0.75));
        assert_eq!(report.rate_ratio(Case::Add, ours, lane(Column::Tonic)), None);
        assert_eq!(report.cases(), [Case::Add, Case::Echo256]);
        assert_eq!(report.lanes(Case::Add), [ours, floor]);
    }

    /// Guards that noise is of pairs of one round, in either direction.
    #[test]
    fn noise_is_of_pairs_in_a_round() {
        let ours = lane(Column::Punctual);
        let mut report = empty();
        for (round, (a, b)) in [(100.0, 110.0), (200.0, 160.0)].into_iter().enumerate() {
            report.samples.push(sample(Case::Add, ours, round, a, 1.0));
            report.samples.push(sample(Case::Add, ours.again(), round, b, 1.0));
        }
        let (of, ratios) = report.noise(Case::Add).expect("there is a pair");
        assert_eq!((of, ratios.min(), ratios.max()), (ours, Some(0.8), Some(1.1)));
        assert_eq!(report.noise_factor(Case::Add), 1.25);
        assert_eq!(report.noise_factor(Case::Latency), 1.0);
    }

    /// Guards that neither we nor the floor count as a peer.
    #[test]
    fn the_best_peer_is_a_peer() {
        let mut report = empty();
        for (column, p50) in [(Column::Punctual, 1.0), (Column::Floor, 0.5), (Column::Tonic, 9.0), (Column::Tarpc, 4.0)]
        {
            report.samples.push(sample(Case::Latency, lane(column), 0, 1.0, p50));
        }
        let (best, p50) = report.best_peer(Case::Latency, |sample| sample.client.p50_us).expect("there are two");
        assert_eq!((best.column, p50.median()), (Column::Tarpc, Some(4.0)));
    }
}
