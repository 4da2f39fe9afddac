//! What is told of several runs.

use std::fmt;

/// The middle, and the ends.
#[derive(Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    /// Of runs in any order; nothing of none.
    pub fn of(runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Summary { median, min, max })
    }

    /// From the least to the greatest.
    pub fn spread(&self) -> f64 {
        self.max - self.min
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { median, min, max } = self;
        write!(out, "{median:.1} ({min:.1}..{max:.1})")
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn median_of_an_even_number_lies_between_the_middle_two() {
        let summary = |runs: &[f64]| Summary::of(runs).map(|summary| summary.to_string());
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]).unwrap(), "2.5 (1.0..4.0)");
        assert_eq!(summary(&[7.0]).unwrap(), "7.0 (7.0..7.0)");
        assert_eq!(summary(&[]), None);
    }
}
