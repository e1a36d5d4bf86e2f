//! The smallest input that still fails, so that a person can see why.

use super::Input;

/// More than enough for a dozen short texts.
const TRIES: usize = 20_000;

/// Leaves out texts, then characters, as long as it fails.
pub fn smallest(
    mut input: Input,
    mut violation: String,
    attempt: impl Fn(&Input) -> Result<(), String>,
) -> (Input, String) {
    let mut left = TRIES;
    loop {
        let smaller = without_something(&input).take(left).inspect(|_| left -= 1).find_map(|smaller| {
            let violation = attempt(&smaller).err()?;
            Some((smaller, violation))
        });
        match smaller {
            Some(found) => (input, violation) = found,
            None => return (input, violation),
        }
    }
}

fn without_something(input: &Input) -> impl Iterator<Item = Input> {
    let texts = (0..input.texts.len()).map(move |place| {
        let mut smaller = input.clone();
        smaller.texts.remove(place);
        smaller
    });
    let shorter = (0..input.texts.len()).flat_map(move |place| {
        leaving_out(&input.texts[place]).map(move |text| {
            let mut smaller = input.clone();
            smaller.texts[place] = text;
            smaller
        })
    });
    let key = leaving_out(&input.key).map(|key| Input { key, ..input.clone() });
    texts.chain(shorter).chain(key)
}

/// The text without one of its parts, large parts first.
fn leaving_out(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let sizes =
        std::iter::successors(Some(letters.len()), |size| (*size > 1).then_some(size / 2)).filter(|size| *size > 0);
    let parts: Vec<(usize, usize)> =
        sizes.flat_map(|size| (0..letters.len()).step_by(size).map(move |start| (start, size))).collect();
    parts.into_iter().map(move |(start, size)| {
        let end = (start + size).min(letters.len());
        letters[..start].iter().chain(&letters[end..]).collect()
    })
}
