//! Medians and spreads of few values.

/// Values of one figure over the rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Series(Vec<f64>);

impl Series {
    /// What is not a number is left out.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        Series(values)
    }

    pub fn median(&self) -> Option<f64> {
        let middle = self.0.len() / 2;
        let upper = *self.0.get(middle)?;
        if self.0.len() % 2 == 1 {
            return Some(upper);
        }
        Some(f64::midpoint(*self.0.get(middle.checked_sub(1)?)?, upper))
    }

    pub fn min(&self) -> Option<f64> {
        self.0.first().copied()
    }

    pub fn max(&self) -> Option<f64> {
        self.0.last().copied()
    }

    /// How much the largest is above the smallest, as a share of it: 0.1 for 10 %.
    pub fn spread(&self) -> Option<f64> {
        let (min, max) = (self.min()?, self.max()?);
        (min > 0.0).then(|| max / min - 1.0)
    }
}

/// `value / base`, where both are there and the base is not zero.
pub fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    let base = base.filter(|base| *base != 0.0)?;
    value.map(|value| value / base)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards the median of odd and even counts, in whatever order the rounds came.
    #[test]
    fn medians() {
        assert_eq!(Series::new([]).median(), None);
        assert_eq!(Series::new([3.0]).median(), Some(3.0));
        assert_eq!(Series::new([5.0, 1.0]).median(), Some(3.0));
        assert_eq!(Series::new([9.0, 1.0, 5.0]).median(), Some(5.0));
        assert_eq!(Series::new([9.0, 1.0, 5.0, 6.0]).median(), Some(5.5));
    }

    /// Guards that a failed figure does not pass as a large or small one.
    #[test]
    fn what_is_no_number_is_left_out() {
        let series = Series::new([f64::NAN, 2.0, 4.0]);
        assert_eq!((series.min(), series.median(), series.max()), (Some(2.0), Some(3.0), Some(4.0)));
    }

    /// Guards that a spread is of the extremes, and none of nothing or of zero.
    #[test]
    fn spreads() {
        assert_eq!(Series::new([150.0, 100.0, 120.0]).spread(), Some(0.5));
        assert_eq!(Series::new([7.0]).spread(), Some(0.0));
        assert_eq!(Series::new([0.0, 1.0]).spread(), None);
        assert_eq!(Series::new([]).spread(), None);
    }

    /// Guards that a missing side gives no ratio instead of an infinite one.
    #[test]
    fn ratios() {
        assert_eq!(ratio(Some(3.0), Some(4.0)), Some(0.75));
        assert_eq!(ratio(Some(3.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(4.0)), None);
        assert_eq!(ratio(Some(3.0), None), None);
    }
}
