//! From numbers to places on a picture, and the ticks of an axis.

/// An axis from numbers to places. *Unit* of places: the picture's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    logarithmic: bool,
    domain: (f64, f64),
    range: (f64, f64),
}

impl Scale {
    /// A logarithmic axis over these numbers, widened to ends that ticks can name; `None` where no
    /// number is above zero and finite.
    pub fn logarithmic(numbers: impl Iterator<Item = f64>, range: (f64, f64)) -> Option<Scale> {
        let (low, high) = extent(numbers.filter(|number| *number > 0.0))?;
        let mut domain = (step_below(low), step_above(high));
        if domain.0 >= domain.1 {
            domain = (domain.0 / 2.0, domain.1 * 2.0);
        }
        Some(Scale {
            logarithmic: true,
            domain,
            range,
        })
    }

    /// A logarithmic axis between exactly these two numbers above zero.
    pub fn logarithmic_between(domain: (f64, f64), range: (f64, f64)) -> Scale {
        Scale {
            logarithmic: true,
            domain,
            range,
        }
    }

    /// A linear axis from zero; `None` without a number above it.
    pub fn from_zero(numbers: impl Iterator<Item = f64>, range: (f64, f64)) -> Option<Scale> {
        let (_, high) = extent(numbers.filter(|number| *number > 0.0))?;
        Some(Scale::linear((0.0, high), range))
    }

    /// A linear axis between exactly these two numbers.
    pub fn linear(domain: (f64, f64), range: (f64, f64)) -> Scale {
        Scale {
            logarithmic: false,
            domain,
            range,
        }
    }

    /// Returns the place of a number. Numbers outside the axis are put on its end, all of them in the middle where both
    /// ends are one number.
    pub fn place(&self, number: f64) -> f64 {
        let (low, high) = self.domain;
        let inside = number.clamp(low, high);
        let share = if low == high {
            0.5
        } else if self.logarithmic {
            (inside / low).ln() / (high / low).ln()
        } else {
            (inside - low) / (high - low)
        };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// Returns at most `most` round numbers on the axis, ascending.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if self.logarithmic {
            self.logarithmic_ticks(most)
        } else {
            self.linear_ticks(most)
        }
    }

    fn logarithmic_ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        let first = decade(low);
        let last = decade(high) + 1;
        // From fine to coarse, and then every second, third … power of ten, of which a number has 632.
        let fine: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let sets = fine
            .into_iter()
            .map(|steps| (steps, 1))
            .chain((2..700).map(|every| (fine[2], every)));
        for (steps, every) in sets {
            let decades = (first..=last).filter(|power| power.rem_euclid(every) == 0);
            let ticks: Vec<f64> = decades
                .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
                .filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9))
                .collect();
            if ticks.len() <= most {
                return ticks;
            }
        }
        Vec::new()
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        let Some(step) = nice_step((high - low) / most.max(1) as f64) else {
            return Vec::new();
        };
        let first = (low / step - 1e-9).ceil();
        let count = ((high - first * step) / step + 1e-9).floor();
        if !(0.0..1e4).contains(&count) {
            return Vec::new();
        }
        (0..=count as i64).map(|index| (first + index as f64) * step).collect()
    }
}

/// The smallest and the largest of the finite numbers.
fn extent(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers
        .filter(|number| number.is_finite())
        .fold(None, |extent, number| {
            let (low, high) = extent.unwrap_or((number, number));
            Some((number.min(low), number.max(high)))
        })
}

/// The power of ten at or below a number above zero.
fn decade(number: f64) -> i32 {
    number.log10().floor() as i32
}

const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// The number 1, 2 or 5 times a power of ten at or below.
fn step_below(number: f64) -> f64 {
    let power = 10_f64.powi(decade(number));
    let below = STEPS
        .iter()
        .rev()
        .map(|step| step * power)
        .find(|step| *step <= number * (1.0 + 1e-9));
    below.unwrap_or(power)
}

/// The number 1, 2 or 5 times a power of ten at or above.
fn step_above(number: f64) -> f64 {
    let power = 10_f64.powi(decade(number));
    let above = STEPS
        .iter()
        .map(|step| step * power)
        .find(|step| *step >= number * (1.0 - 1e-9));
    above.unwrap_or(10.0 * power)
}

/// The step 1, 2 or 5 times a power of ten that is not below this one.
fn nice_step(step: f64) -> Option<f64> {
    (step > 0.0 && step.is_finite()).then(|| step_above(step))
}

/// Moves places apart until neighbours are `gap` from each other, each as little as the order allows, and
/// none below `low`. Returns them in the order given.
pub(super) fn apart(places: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&i, &j| places[i].total_cmp(&places[j]));
    // Blocks of neighbours that touch, each at the mean of what its members want.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &index in &order {
        let mut block = (places[index], 1_usize);
        while let Some(&(centre, count)) = blocks.last() {
            let touching = gap * (count + block.1) as f64 / 2.0;
            if block.0 - centre >= touching {
                break;
            }
            blocks.pop();
            let all = (count + block.1) as f64;
            block = (
                (centre * count as f64 + block.0 * block.1 as f64) / all,
                count + block.1,
            );
        }
        let half = gap * (block.1 as f64 - 1.0) / 2.0;
        block.0 = block.0.min(high - half).max(low + half);
        blocks.push(block);
    }
    let spread = blocks.iter().flat_map(|&(centre, count)| {
        let first = centre - gap * (count as f64 - 1.0) / 2.0;
        (0..count).map(move |position| first + gap * position as f64)
    });
    let mut moved = vec![0.0; places.len()];
    for (index, place) in order.into_iter().zip(spread) {
        moved[index] = place;
    }
    moved
}

/// Returns which of these ascending places are at least `gap` from each other: the last always, and from the
/// first on as many as leave it room.
pub(super) fn spaced(places: &[f64], gap: f64) -> Vec<usize> {
    let Some((&last, others)) = places.split_last() else {
        return Vec::new();
    };
    let mut kept: Vec<usize> = Vec::new();
    for (index, place) in others.iter().enumerate() {
        let before = kept.last().map_or(f64::NEG_INFINITY, |&index| places[index]);
        if place - before >= gap && last - place >= gap {
            kept.push(index);
        }
    }
    kept.push(others.len());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_puts_the_geometric_mean_in_the_middle() {
        let scale = Scale::logarithmic([3.0, 70.0].into_iter(), (0.0, 100.0)).expect("numbers");
        // Widened to 2 and 100, whose geometric mean is √200.
        assert_eq!(scale.domain, (2.0, 100.0));
        assert!((scale.place(200_f64.sqrt()) - 50.0).abs() < 1e-9);
        assert_eq!(scale.place(1.0), 0.0);
    }

    #[test]
    fn axes_of_nothing_are_none_and_of_one_number_are_not_empty() {
        assert_eq!(
            Scale::logarithmic([0.0, f64::NAN, f64::INFINITY].into_iter(), (0.0, 1.0)),
            None
        );
        assert_eq!(Scale::from_zero([0.0].into_iter(), (0.0, 1.0)), None);
        let one = Scale::logarithmic([5.0].into_iter(), (0.0, 1.0)).expect("a number");
        // 5 is a step itself, so that the axis is opened to both sides, and 5 is its middle.
        assert!((one.place(5.0) - 0.5).abs() < 1e-9);
        let point = (5.0, 5.0);
        for axis in [
            Scale::logarithmic_between(point, (2.0, 4.0)),
            Scale::linear(point, (2.0, 4.0)),
        ] {
            assert_eq!([1.0, 5.0, 9.0].map(|number| axis.place(number)), [3.0; 3]);
        }
    }

    #[test]
    fn ticks_are_round_few_and_on_the_axis() {
        let ticks = |low, high, most| Scale::logarithmic_between((low, high), (0.0, 1.0)).ticks(most);
        assert_eq!(ticks(5.0, 50.0, 6), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ticks(5.0, 20_000.0, 8), [10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4]);
        assert_eq!(ticks(5.0, 20_000.0, 4), [10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(5.0, 20_000.0, 2), [100.0, 1e4]);
        for exponent in [3, 30, 300] {
            let ticks = ticks(1e-3, 10_f64.powi(exponent), 7);
            assert!(!ticks.is_empty() && ticks.len() <= 7, "{ticks:?}");
        }
        assert_eq!(
            Scale::linear((0.0, 880.0), (0.0, 1.0)).ticks(5),
            [0.0, 200.0, 400.0, 600.0, 800.0]
        );
        assert_eq!(Scale::linear((-3.0, 3.0), (0.0, 1.0)).ticks(3), [-2.0, 0.0, 2.0]);
        assert_eq!(Scale::linear((0.0, 0.0), (0.0, 1.0)).ticks(3), [0.0; 0]);
    }

    #[test]
    fn the_last_place_is_kept_and_none_is_too_close() {
        // 30 is too close to 0, 90 too close to the last.
        assert_eq!(spaced(&[0.0, 30.0, 50.0, 90.0, 100.0], 40.0), [0, 2, 4]);
        assert_eq!(spaced(&[0.0, 10.0], 40.0), [1]);
        assert_eq!(spaced(&[], 40.0), [0; 0]);
    }

    #[test]
    fn labels_move_apart_and_stay_inside() {
        // 10 and 12 touch: both 5 from their mean 11; 40 is far.
        assert_eq!(apart(&[12.0, 40.0, 10.0], 10.0, (0.0, 100.0)), [16.0, 40.0, 6.0]);
        // At the upper end there is room below only.
        assert_eq!(apart(&[99.0, 100.0], 10.0, (0.0, 100.0)), [90.0, 100.0]);
        assert_eq!(apart(&[1.0, 0.0], 10.0, (0.0, 100.0)), [10.0, 0.0]);
        assert_eq!(apart(&[], 10.0, (0.0, 100.0)), [0.0; 0]);
    }
}
