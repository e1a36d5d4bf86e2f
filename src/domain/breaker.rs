//! The mass-delete breaker: a source that loses too much at once is held until a person has looked.

use std::collections::VecDeque;

/// When a source trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// More objects than this, …
    pub objects: u64,
    /// … and more than this part of the rows that there were.
    pub percent: u64,
    /// Captured within this time, in microseconds.
    pub window_us: i64,
}

/// Objects that were captured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lot {
    pub captured_us: i64,
    pub objects: u64,
    /// By TRUNCATE or DROP: no row was left.
    pub is_whole: bool,
}

/// The most that a source has lost within the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mass {
    pub objects: u64,
    pub has_whole: bool,
}

/// The largest masses of any window in these lots: of those with a whole table in them, and of all.
pub fn largest(mut lots: Vec<Lot>, window_us: i64) -> [Mass; 2] {
    lots.sort_unstable();
    let (mut first, mut objects, mut whole, mut largest) = (0, 0_u64, 0_usize, [Mass::default(); 2]);
    for lot in &lots {
        objects += lot.objects;
        whole += usize::from(lot.is_whole);
        while lots[first].captured_us < lot.captured_us.saturating_sub(window_us) {
            objects -= lots[first].objects;
            whole -= usize::from(lots[first].is_whole);
            first += 1;
        }
        let mass = Mass { objects, has_whole: whole > 0 };
        for largest in largest.iter_mut().skip(usize::from(!mass.has_whole)) {
            if mass.objects > largest.objects {
                *largest = mass;
            }
        }
    }
    largest
}

impl Limits {
    /// Whether the mass is worth asking how many rows are left.
    pub fn is_large(&self, mass: Mass) -> bool {
        mass.objects > self.objects
    }

    /// Whether a source trips that has `live` rows left.
    pub fn trips(&self, mass: Mass, live: u64) -> bool {
        let share = u128::from(mass.objects) * 100 > u128::from(self.percent) * u128::from(live + mass.objects);
        self.is_large(mass) && (mass.has_whole || share)
    }
}

/// What has been deleted of a source, for as long as it counts.
#[derive(Debug, Default)]
pub struct Gone(VecDeque<Lot>);

impl Gone {
    /// Adds what was just deleted, and forgets what no window reaches any more.
    pub fn add(&mut self, lot: Lot, window_us: i64) {
        self.0.push_back(lot);
        let latest = self.0.iter().map(|lot| lot.captured_us).max().unwrap_or_default();
        self.0.retain(|lot| lot.captured_us >= latest.saturating_sub(window_us));
    }

    /// Everything that still counts and was captured after `since`.
    pub fn lots(&self, since: Option<i64>) -> impl Iterator<Item = Lot> {
        self.0.iter().copied().filter(move |lot| since.is_none_or(|since| lot.captured_us > since))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { objects: 1000, percent: 10, window_us: 100 };

    fn lot(captured_us: i64, objects: u64) -> Lot {
        Lot { captured_us, objects, is_whole: false }
    }

    #[test]
    fn a_backlog_of_days_trips_or_a_table_that_empties_does_not() {
        let mass = |lots: Vec<Lot>| largest(lots, LIMITS.window_us)[1];
        let spread = mass((0..50).map(|hour| lot(hour * 101, 900)).collect());
        assert_eq!(spread.objects, 900);
        let singles = mass((0..1200).map(|place| lot(place / 20, 1)).collect());
        assert!(LIMITS.trips(singles, 5000) && !LIMITS.trips(singles, 50_000));
        assert!(!LIMITS.trips(mass(vec![lot(0, 1000)]), 0), "not more than the limit");
        let whole = Lot { is_whole: true, ..lot(0, 1001) };
        let trips =
            |lots: Vec<Lot>| largest(lots, LIMITS.window_us).into_iter().any(|mass| LIMITS.trips(mass, 1_000_000));
        assert!(trips(vec![whole]) && trips(vec![whole, lot(500, 2000)]) && !trips(vec![lot(500, 2000)]));
    }

    proptest! {
        #[test]
        fn some_window_holds_more_than_the_largest(lots in prop::collection::vec((0_i64..300, 1_u64..5), 0..40)) {
            let lots: Vec<Lot> = lots.into_iter().map(|(at, objects)| lot(at, objects)).collect();
            let brute = lots.iter().map(|last| {
                let within = lots.iter().filter(|lot| (last.captured_us - 100..=last.captured_us).contains(&lot.captured_us));
                within.map(|lot| lot.objects).sum::<u64>()
            });
            prop_assert_eq!(largest(lots.clone(), 100)[1].objects, brute.max().unwrap_or(0));
        }
    }
}
