//! What neighbours on the ladder tell of a rung: throughput is a smooth curve, so a rung is worth what the curve through the
//! rungs around it says, and each window that was spent on one of them counts for all.

use super::evidence::Record;

/// Rungs that far away count no more.
const REACH: f64 = 3.5;

/// The value at `rung` of the parabola that lies closest to the records around it; the record's own mean where there are too
/// few of them. `None`: nothing is known of the rung itself.
pub(super) fn smooth(records: &[Record], rung: usize) -> Option<f64> {
    let own = records[rung];
    if own.weight <= 0.0 {
        return None;
    }
    let mut sums = [[0.0; 4]; 3];
    let mut known = 0;
    for (index, record) in records.iter().enumerate().filter(|(_, record)| record.weight > 0.0) {
        let away = index as f64 - rung as f64;
        let near = 1.0 - (away / REACH).powi(2);
        if near <= 0.0 {
            continue;
        }
        known += 1;
        let weight = record.weight * near;
        let terms = [1.0, away, away * away];
        for (row, left) in sums.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip([1.0, away, away * away, record.mean]) {
                *cell += weight * left * right;
            }
        }
    }
    if known < 4 { Some(own.mean) } else { Some(solve(sums).unwrap_or(own.mean)) }
}

/// The first unknown of three equations.
fn solve(rows: [[f64; 4]; 3]) -> Option<f64> {
    let [a, b, c] = rows;
    let minor = |i: usize, j: usize, k: usize| {
        a[i] * (b[j] * c[k] - b[k] * c[j]) - a[j] * (b[i] * c[k] - b[k] * c[i]) + a[k] * (b[i] * c[j] - b[j] * c[i])
    };
    let whole = minor(0, 1, 2);
    (whole.abs() > 1e-9).then(|| minor(3, 1, 2) / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mean: f64) -> Record {
        Record { mean, weight: 3.0, saturated: true }
    }

    #[test]
    fn a_parabola_is_what_it_is() {
        let records: Vec<Record> = (0..8).map(|x| record(5.0 - 0.1 * (f64::from(x) - 4.0).powi(2))).collect();
        for (rung, record) in records.iter().enumerate() {
            let value = smooth(&records, rung).expect("known");
            assert!((value - record.mean).abs() < 1e-6, "{rung}: {value}");
        }
    }

    #[test]
    fn three_points_are_too_few_to_tell_noise_from_shape() {
        let mut records = vec![Record::default(); 6];
        (records[1], records[2], records[3]) = (record(1.0), record(3.0), record(1.0));
        assert_eq!(smooth(&records, 2), Some(3.0));
        assert_eq!(smooth(&records, 4), None);
    }
}
